"""`triton.knobs`: the groups that Tilewright has."""

from tilewright.runtime.knobs import GROUPS, __getattr__
