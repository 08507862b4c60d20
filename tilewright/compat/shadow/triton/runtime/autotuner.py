"""`triton.runtime.autotuner`."""

from tilewright.diagnostics import AutotunerError, OutOfResources, PTXASError
from tilewright.runtime.autotune import Autotuner, autotune
from tilewright.runtime.config import Config
from tilewright.runtime.heuristics import Heuristics, heuristics
