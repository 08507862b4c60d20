"""`triton.runtime.interpreter`."""

from tilewright.compat.refusals import refused_in
from tilewright.runtime.interpreted import InterpretedFunction

__getattr__ = refused_in(__name__)
