"""Data sets: MNIST, Fashion-MNIST, the built-in glyphs, and any directory of idx files.

dataset.py    images and labels in memory, and their fingerprint
loading.py    a data set by its name, from wherever it is
sources.py    the public ones: their hashes, and where to fetch them
idx.py        the file format
cache.py      what is kept on this machine
glyphs.py     the built-in ones, and the fonts that they are drawn from
pictures.py   a look at a data set
"""

from .dataset import Dataset
from .glyphs import glyphs
from .loading import load, whereabouts
from .pictures import draw_examples
from .sources import NAMES

__all__ = ["NAMES", "Dataset", "draw_examples", "glyphs", "load", "whereabouts"]
