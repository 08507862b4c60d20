"""Building ops: defaults, refusals, insertion points, regions."""

import pytest

from tilewright.diagnostics import InternalError, Location
from tilewright.ir.build import Builder, complete_attrs, make_op
from tilewright.ir.node import Value
from tilewright.ir.ops import TABLE
from tilewright.ir.ops.attributes import Cache, Rounding
from tilewright.ir.types import F16, F32, I32, Pointer


def test_attributes_get_their_defaults():
    full = complete_attrs(TABLE["load"], {"has_mask": True})
    assert full == {"cache": Cache.NONE, "eviction": full["eviction"], "volatile": False, "padded": False,
                    "has_mask": True, "has_other": False}
    assert complete_attrs(TABLE["fp_trunc"], {"to": F16})["rounding"] is Rounding.RTNE
    with pytest.raises(KeyError, match="needs the attribute to"):
        complete_attrs(TABLE["trunc"], {})


def test_wrong_types_cannot_be_built():
    with pytest.raises(InternalError, match=r"k.py:3:1: cannot build add\(i32, f32\): operand types differ"):
        make_op("add", [Value(I32), Value(F32)], loc=Location("k.py", 3))
    with pytest.raises(KeyError):
        make_op("no_such_op", [])


def test_ops_go_to_the_innermost_block_with_the_current_location():
    b = Builder()
    with b.block() as outer:
        b.location = Location("k.py", 1)
        (one,) = b.create("constant", attrs={"value": 1, "type": I32}, hint="one")
        body = b.region([I32], lambda x: b.create("add", [x, one]), hints=["x"])
        b.location = Location("k.py", 2)
        b.create("store", [Value(Pointer(I32)), one])
    assert [op.name for op in outer] == ["constant", "store"] and [op.loc.line for op in outer] == [1, 2]
    assert [op.name for op in body.ops] == ["add", "yield"] and body.terminator.operands == body.ops[0].results
    assert one.hint == "one" and body.args[0].hint == "x"
