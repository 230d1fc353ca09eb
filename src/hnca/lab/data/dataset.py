"""Labelled images in memory."""

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..errors import UserError


@dataclass(frozen=True, eq=False)
class Dataset:
    """Images and their labels, in two splits: one to train on, one to be judged by.

    Bytes as they came: scaling and binarisation belong to the experiment."""

    name: str
    train_images: np.ndarray  # uint8 [N, H, W]
    train_labels: np.ndarray  # uint8 [N]
    test_images: np.ndarray  # uint8 [M, H, W]
    test_labels: np.ndarray  # uint8 [M]
    source: str  # where the bytes came from, for people

    def __post_init__(self) -> None:
        """Refuses arrays that do not fit each other, by a line that names their source."""
        for split, images, labels in self._splits():
            if images.dtype != np.uint8 or labels.dtype != np.uint8:
                self._refuse(f"{split} images and labels must be bytes")
            if images.ndim != 3 or labels.ndim != 1:
                shapes = f"not {list(images.shape)} and {list(labels.shape)}"
                self._refuse(f"{split} images and labels must be [N, H, W] and [N], {shapes}")
            if len(images) != len(labels):
                self._refuse(f"{len(images):,} {split} images, but {len(labels):,} labels")
            if images.size == 0:
                self._refuse(f"no {split} images")
        train, test = self.train_images.shape[1:], self.test_images.shape[1:]
        if train != test:
            sizes = f"{train[0]}x{train[1]} pixels, but test images {test[0]}x{test[1]}"
            self._refuse(f"training images have {sizes}")

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over shapes and bytes of the four arrays: the same whatever the source."""
        digest = hashlib.sha256()
        for _, *arrays in self._splits():
            for array in arrays:
                digest.update(f"{array.shape}".encode())
                digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()

    @cached_property
    def classes(self) -> int:
        """The number of classes: one more than the largest label."""
        return 1 + int(max(self.train_labels.max(), self.test_labels.max()))

    @property
    def pixels(self) -> int:
        """The number of pixels of an image."""
        return int(np.prod(self.train_images.shape[1:]))

    def _splits(self) -> list[tuple[str, np.ndarray, np.ndarray]]:
        return [
            ("training", self.train_images, self.train_labels),
            ("test", self.test_images, self.test_labels),
        ]

    def _refuse(self, why: str) -> None:
        raise UserError(f"data set '{self.name}' from {self.source}: {why}")
