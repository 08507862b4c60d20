"""`triton.testing`."""

from tilewright.testing import *
