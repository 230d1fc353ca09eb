"""One file per method, and what they share."""

from .base import AbstractEstimator as AbstractEstimator
from .hnca import HNCA as HNCA
from .reinforce import Reinforce as Reinforce
