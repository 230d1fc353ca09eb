"""The built-in data set: the same everywhere, like MNIST, and drawn once."""

import numpy as np
import pytest

from hnca.lab.data import glyphs, load, loading, whereabouts
from hnca.lab.data.glyphs import BLOCK, VERSION
from hnca.lab.data.idx import FILES
from tiny_data import flip


@pytest.fixture(scope="module")
def digits():
    return glyphs(train=2000, test=1000)


def test_glyphs_are_deterministic(digits):
    smaller = glyphs(train=BLOCK + 7, test=10)
    np.testing.assert_array_equal(smaller.train_images, digits.train_images[: BLOCK + 7])
    np.testing.assert_array_equal(smaller.train_labels, digits.train_labels[: BLOCK + 7])
    np.testing.assert_array_equal(smaller.test_images, digits.test_images[:10])
    other = glyphs(train=10, test=10, seed=1)
    assert (other.train_images != digits.train_images[:10]).any((1, 2)).all()


def test_glyphs_are_like_mnist(digits):
    assert digits.train_images.shape == (2000, 28, 28)
    assert digits.classes == 10
    assert np.bincount(digits.train_labels).tolist() == [200] * 10
    assert np.bincount(digits.test_labels).tolist() == [100] * 10
    assert (digits.train_images.max((1, 2)) > 150).all()  # no picture is empty
    rim = digits.train_images.copy()
    rim[:, 2:-2, 2:-2] = 0
    assert (rim.max((1, 2)) == 0).mean() > 0.9  # and few touch the margin
    assert 0.05 < (digits.train_images > 0).mean() < 0.35  # white on black


def test_glyphs_share_no_picture(digits):
    pictures = np.concatenate([digits.train_images, digits.test_images])
    assert len({picture.tobytes() for picture in pictures}) == 3000


def test_glyphs_are_neither_easy_nor_hopeless(digits):
    x = digits.train_images.reshape(2000, -1) / 255
    t = digits.test_images.reshape(1000, -1) / 255
    weights = np.linalg.solve(x.T @ x + 10 * np.eye(784), x.T @ np.eye(10)[digits.train_labels])
    linear = ((t @ weights).argmax(1) == digits.test_labels).mean()
    assert 0.75 < linear < 0.95


def test_version_of_glyphs(digits):
    """If this fails, the drawings have changed: raise `VERSION`, so that caches are passed over,
    and write down the new numbers. Other versions of matplotlib move them by about 30."""
    pattern = np.random.default_rng(1).normal(size=(2000, 28, 28))
    seen = np.vdot(pattern, digits.train_images), np.vdot(pattern[:1000], digits.test_images)
    np.testing.assert_allclose(seen, (79_643, -7_388), rtol=0, atol=200)
    assert VERSION == 1


def test_glyphs_are_kept(monkeypatch, tmp_path):
    monkeypatch.setenv("HNCA_CACHE_DIR", str(tmp_path / "cache"))
    drawn = []

    def draw_few(advance):
        drawn.append(1)
        return glyphs(train=20, test=10)

    monkeypatch.setattr(loading, "glyphs", draw_few)
    assert whereabouts("glyphs") is None
    first, second = load("glyphs"), load("glyphs")
    assert len(drawn) == 1
    assert (first.source, second.source) == ("matplotlib's fonts, drawn here", "the user cache")
    assert first.fingerprint == second.fingerprint == glyphs(train=20, test=10).fingerprint
    flip(tmp_path / "cache" / f"glyphs-v{VERSION}" / FILES[0])
    with pytest.warns(UserWarning, match="is damaged"):
        assert load("glyphs").fingerprint == first.fingerprint
    assert len(drawn) == 2
