"""`triton.language`."""

from tilewright.language import *
from tilewright.language import __dir__, __getattr__
from triton.language import core, extra, math, random, standard
