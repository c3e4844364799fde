"""Safe Bayesian optimization: confidence bounds, safe sets, ask and tell."""

from tellmost.safebo import baselines as baselines
from tellmost.safebo.bounds import RKHSBound as RKHSBound
from tellmost.safebo.calibration import Calibration as Calibration
from tellmost.safebo.constraints import Constraint as Constraint
from tellmost.safebo.constraints import Lipschitz as Lipschitz
from tellmost.safebo.optimizer import SafeOptimizer as SafeOptimizer
from tellmost.safebo.spaces import CoordinateLines as CoordinateLines
from tellmost.safebo.spaces import RandomLines as RandomLines
from tellmost.safebo.spaces import SobolSet as SobolSet
from tellmost.safebo.strategies import Choice as Choice
from tellmost.safebo.strategies import RoundView as RoundView
from tellmost.safebo.trials import Event as Event
from tellmost.safebo.trials import Halted as Halted
from tellmost.safebo.trials import History as History
from tellmost.safebo.trials import MiscalibratedModel as MiscalibratedModel
from tellmost.safebo.trials import NoSafePoint as NoSafePoint
from tellmost.safebo.trials import Query as Query
from tellmost.safebo.trials import Recommendation as Recommendation
from tellmost.safebo.trials import Suspect as Suspect
from tellmost.safebo.trials import Trial as Trial
