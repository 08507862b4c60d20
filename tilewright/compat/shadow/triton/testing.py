"""`triton.testing`."""

from tilewright.compat.refusals import refused_in
from tilewright.testing import *

__getattr__ = refused_in(__name__)
