"""One file per method, and what they share."""

from .base import AbstractEstimator as AbstractEstimator
from .disarm import ARM as ARM
from .disarm import DisARM as DisARM
from .double_cv import DoubleCV as DoubleCV
from .gumbel_softmax import GumbelSoftmax as GumbelSoftmax
from .gumbel_softmax import GumbelStraightThrough as GumbelStraightThrough
from .hnca import HNCA as HNCA
from .importance_em import ImportanceEM as ImportanceEM
from .leave_one_out import LeaveOneOut as LeaveOneOut
from .local_expectation import LocalExpectation as LocalExpectation
from .muprop import MuProp as MuProp
from .objectives import AbstractObjective as AbstractObjective
from .objectives import ExpectedSum as ExpectedSum
from .objectives import MultiSampleBound as MultiSampleBound
from .rebar import Rebar as Rebar
from .registry import REGISTRY as REGISTRY
from .registry import make_estimator as make_estimator
from .registry import unknown_estimator as unknown_estimator
from .reinforce import Reinforce as Reinforce
from .relax import Relax as Relax
from .straight_through import ReinMax as ReinMax
from .straight_through import StraightThrough as StraightThrough
from .vimco import Vimco as Vimco
