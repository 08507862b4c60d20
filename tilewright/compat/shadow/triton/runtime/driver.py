"""`triton.runtime.driver`."""

from tilewright.backends import backends
from tilewright.compat.refusals import refused_in
from tilewright.runtime.driver import driver

__getattr__ = refused_in(__name__)
