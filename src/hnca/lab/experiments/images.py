"""Experiments on labelled images: where they come from, and how they become zeros and ones."""

import os
from dataclasses import dataclass, replace
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, UInt8

from ...draws import draw_bernoulli
from ..data import NAMES, Dataset, load
from ..errors import UserError
from .base import AbstractExperiment, Data, Say


@dataclass(frozen=True, eq=False)
class Images(Data):
    """Rows of bytes: `image` [H, W] and `label`."""

    classes: int = 0

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width."""
        return self.train["image"].shape[1:]

    @property
    def pixels(self) -> int:
        """Of an image."""
        height, width = self.shape
        return height * width


@dataclass(frozen=True)
class AbstractImageExperiment(AbstractExperiment):
    """The settings of an experiment on images."""

    dataset: str = "mnist"
    """mnist, fashion-mnist, glyphs, or a directory with the four idx files."""
    train_size: int | None = None
    """Train on the first so many images only."""
    test_size: int | None = None
    """Test on the first so many images only."""

    def data(self, directory: Path | None, say: Say) -> Images:
        return self.images(load(self.dataset, directory, say=say))

    def fetch(self, directory: Path | None, say: Say) -> None:
        load(self.dataset, directory, say=say)

    def images(self, dataset: Dataset) -> Images:
        """Of a data set, as many images as are wanted."""
        train = _rows(dataset.train_images, dataset.train_labels, self.train_size, "--train-size")
        test = _rows(dataset.test_images, dataset.test_labels, self.test_size, "--test-size")
        name, source, fingerprint = dataset.name, dataset.source, dataset.fingerprint
        return Images(train, test, name, source, fingerprint, dataset.classes)

    @property
    def data_name(self) -> str:
        return Path(os.path.abspath(os.path.expanduser(self.dataset))).name  # of a directory, say

    def located(self) -> "AbstractImageExperiment":
        path = os.path.expanduser(self.dataset)
        if self.dataset in NAMES or not os.path.isdir(path):
            return self
        return replace(self, dataset=os.path.abspath(path))

    def check(self) -> None:
        super().check()
        self.check_positive("train_size", "test_size")


def _rows(
    images: np.ndarray, labels: np.ndarray, size: int | None, flag: str
) -> dict[str, np.ndarray]:
    if size is not None and size > len(images):
        raise UserError(f"{flag} {size}: there are no more than {len(images)} images")
    return {"image": images[:size], "label": labels[:size]}


def binarise(key: PRNGKeyArray, images: UInt8[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Each pixel 1 with the probability that is its intensity."""
    return draw_bernoulli(key, images / jnp.float32(255)).astype(jnp.float32)


def pixels_of(key: PRNGKeyArray, images: UInt8[Array, "B H W"]) -> Float[Array, "B pixels"]:
    """A binarised image in a row, as the networks take it."""
    return binarise(key, images.reshape(len(images), -1))
