"""`triton.tools.compile`: refused, see tilewright.compat.refusals."""

from tilewright.compat.refusals import refused_in

__getattr__ = refused_in(__name__)
