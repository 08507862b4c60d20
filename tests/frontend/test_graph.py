"""The graph builder: blocks that are finished later, speculation, warnings with a place."""

import pytest

from tilewright.diagnostics import Location
from tilewright.frontend.graph import GraphBuilder, Retrace
from tilewright.ir.types import F32, I1, I32, Pointer, Tile
from tilewright.language.options import Options


def make():
    return GraphBuilder(Options(), None)


def constant(builder, value, t=I32):
    return builder.emit("constant", (), {"value": value, "type": t})[0]


def test_a_block_is_resumed_and_closed():
    builder = make()
    with builder.collect() as outer:
        with builder.collect() as ops:
            a = constant(builder, 1)
        constant(builder, 2)
        with builder.resume(ops):
            builder.emit("add", (a, a))
        block = builder.closed(ops, (), [a])
    assert [op.name for op in block.ops] == ["constant", "add", "yield"]
    assert [op.attrs["value"] for op in outer] == [2]


@pytest.mark.parametrize("t", [I1, I32, F32, Pointer(F32), Tile((4,), F32), Tile((2, 2), Pointer(I32)), Tile((2,), I1)])
def test_zero_of_any_type(t):
    builder = make()
    with builder.collect():
        assert builder.zero(t).type == t


def test_what_is_told_on_a_wrong_assumption_is_dropped():
    builder, said = make(), []
    with builder.speculation():
        builder.tell(lambda: said.append("outer"))
        with pytest.raises(Retrace), builder.speculation():
            builder.tell(lambda: said.append("wrong"))
            raise Retrace(frozenset({"x"}))
        with builder.speculation():
            builder.tell(lambda: said.append("right"))
        assert said == []
    assert said == ["outer", "right"]


def test_what_was_told_before_an_error_is_told():
    builder, said = make(), []
    with pytest.raises(RuntimeError), builder.speculation():
        builder.tell(lambda: said.append("before"))
        raise RuntimeError
    assert said == ["before"]


def test_warnings_have_the_users_place():
    builder = make()
    builder.location = Location("kernel.py", 7)
    with pytest.warns(UserWarning, match="odd") as caught:
        builder.warn("odd")
    assert (caught[0].filename, caught[0].lineno) == ("kernel.py", 7)
