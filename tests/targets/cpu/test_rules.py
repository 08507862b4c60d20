"""Every row of the op table has a rule on the CPU: this target refuses none."""

from tilewright.ir.ops import TABLE, Stage
from tilewright.targets.cpu import evaluate
from tilewright.targets.cpu.generate import HANDLERS
from tilewright.targets.llvm import elementwise

# Rows without a handler of their own: leaves of scalar code, terminators, and what the passes have removed.
ELSEWHERE = {"constant", "program_id", "num_programs", "load", "yield", "condition", "return", "call", "box"}


def test_every_elementwise_row_has_a_rule():
    missing = [name for name, row in TABLE.items() if row.elementwise and name not in elementwise.BY_ADDRESS
               and name not in elementwise.RULES and row.template is None]
    assert missing == []


def test_rules_are_of_rows_that_exist():
    assert set(elementwise.RULES) <= set(TABLE) and elementwise.BY_ADDRESS <= set(TABLE)


def test_every_other_row_is_lowered():
    known = set(HANDLERS) | evaluate.VIRTUAL_SHAPES | ELSEWHERE
    structural = {name for name, row in TABLE.items() if not row.elementwise and row.stages & Stage.TILE}
    assert structural - known == set()
