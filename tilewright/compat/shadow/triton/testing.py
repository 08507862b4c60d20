"""`triton.testing`."""

from tilewright.runtime.bench import summarise as _summarize_statistics
from tilewright.testing import *
