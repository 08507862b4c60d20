"""`triton.knobs`: the groups that Tilewright has."""

from tilewright.compat.refusals import refused_in
from tilewright.runtime.hooks import HookChain
from tilewright.runtime.knobs import GROUPS
from tilewright.runtime.knobs import __getattr__ as _knobs

__getattr__ = refused_in(__name__, _knobs)
