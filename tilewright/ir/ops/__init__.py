"""All op rows.  Importing this package fills `TABLE` and freezes it."""

from tilewright.ir.ops import (
           arith,
           assembly,
           atomic,
           boxes,
           cast,
           compare,
           control,
           debug,
           math,
           memory,
           order,
           reduce,
           shape,
           staging,
)
from tilewright.ir.ops.table import TABLE, Algebra, Call, Effect, Machine, OpRow, Stage, TypeRuleError

TABLE.freeze()

__all__ = ["TABLE", "Algebra", "Call", "Effect", "Machine", "OpRow", "Stage", "TypeRuleError", "arith", "assembly",
           "atomic", "boxes", "cast", "compare", "control", "debug", "math", "memory", "order", "reduce", "shape",
           "staging"]
