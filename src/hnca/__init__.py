"""Credit assignment for networks of discrete stochastic units, in JAX."""

from .baselines import AbstractBaseline as AbstractBaseline
from .baselines import MovingAverage as MovingAverage
from .bounds import log_weights as log_weights
from .bounds import multi_sample_bound as multi_sample_bound
from .compare import compare as compare
from .comparison import Comparison as Comparison
from .credit import Estimate as Estimate
from .credit import gradient_variance as gradient_variance
from .credit import parameter_counts as parameter_counts
from .estimators import ARM as ARM
from .estimators import HNCA as HNCA
from .estimators import AbstractEstimator as AbstractEstimator
from .estimators import DisARM as DisARM
from .estimators import DoubleCV as DoubleCV
from .estimators import GumbelSoftmax as GumbelSoftmax
from .estimators import GumbelStraightThrough as GumbelStraightThrough
from .estimators import LeaveOneOut as LeaveOneOut
from .estimators import LocalExpectation as LocalExpectation
from .estimators import MuProp as MuProp
from .estimators import Rebar as Rebar
from .estimators import Reinforce as Reinforce
from .estimators import ReinMax as ReinMax
from .estimators import Relax as Relax
from .estimators import StraightThrough as StraightThrough
from .estimators import make_estimator as make_estimator
from .exact import World as World
from .exact import configurations as configurations
from .exact import exact_gradient as exact_gradient
from .graph import AbstractComponent as AbstractComponent
from .graph import Graph as Graph
from .graph import Node as Node
from .graph import Sample as Sample
from .objective import Entropy as Entropy
from .objective import Function as Function
from .objective import Linear as Linear
from .objective import LogProb as LogProb
from .objective import Reward as Reward
from .optimizers import maximize as maximize
from .units import AbstractLayer as AbstractLayer
from .units import Affine as Affine
from .units import Bernoulli as Bernoulli
from .units import Categorical as Categorical
from .units import Fixed as Fixed
from .units import Readout as Readout

__version__ = "0.1.0"
