"""`triton.runtime.autotuner`."""

from tilewright.diagnostics import AutotunerError, OutOfResources
from tilewright.runtime.config import Config
