"""Data sets: MNIST, Fashion-MNIST, the built-in glyphs, and any directory of idx files.

dataset.py    images and labels in memory, and their fingerprint
loading.py    a data set by its name, from wherever it is
registry.py   the public ones: hashes and sources
sources.py    one source after the other, and the check of what they deliver
mirrors.py    sources on the web
packages.py   sources in package indices
idx.py        the file format
cache.py      what is kept on this machine
drawing.py    the glyphs
fonts.py      what they are drawn from
pictures.py   a look at a data set
progress.py   signs of life during long work
"""

from .dataset import Dataset
from .drawing import glyphs
from .loading import load, whereabouts
from .pictures import draw
from .registry import NAMES

__all__ = ["NAMES", "Dataset", "draw", "glyphs", "load", "whereabouts"]
