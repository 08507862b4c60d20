"""Conversions between layouts, carried out on the PTX machine: every kind of plan, every element size."""

import numpy as np
import pytest

from tests.conform.modules import Kernel, ptr
from tilewright.ir.build import make_op
from tilewright.ir.node import Block, Function, Module, Op, Value
from tilewright.ir.ops import Stage
from tilewright.ir.types import F16, F32, F64, I1, I8, I16, I32, I64, Tile, storage_dtype
from tilewright.ir.verify import verify
from tilewright.layout import Layout, coalesced
from tilewright.layout.plan import Kind, plan
from tilewright.targets.base import CodeObject
from tilewright.targets.llvm.machine import ASSEMBLY, Request
from tilewright.targets.nvidia.generate import generate
from tilewright.testing import ptx_machine

SHAPE = (16, 32)
WARPS = 2
LAYOUTS = {
    "rows": coalesced(SHAPE, 4, WARPS),
    "columns": coalesced(SHAPE, 4, WARPS, (0, 1)),
    "single": coalesced(SHAPE, 1, WARPS),
    "replicated": Layout.of(SHAPE, register=(1, 2, 4, 8, 16), lane=(32, 64, 128, 256, 0), warp=(0,)),
    "fragment": Layout.of(SHAPE, register=(1, 256, 8), lane=(2, 4, 32, 64, 128), warp=(16,)),
    "swapped": Layout.of(SHAPE, register=(256, 8, 1), lane=(32, 64, 128, 2, 4), warp=(16,)),
    "mixed": Layout.of(SHAPE, register=(1, 2, 4), lane=(8 ^ 1, 16, 32, 64, 128), warp=(256,)),
    "straight": Layout.of(SHAPE, register=(1, 2, 4), lane=(8, 16, 32, 64, 128), warp=(256,)),
}


def module(element, source, target):
    """x, read in layout `source` and converted to `target`, stored; with its pointers in both."""
    k = Kernel()
    params = [Value(ptr(element), "x"), Value(ptr(element), "out")]

    def pointers(base, layout):
        flat = Layout((SHAPE[0] * SHAPE[1],), layout.inputs)
        iota = _emit(k, "iota", [], {"start": 0, "end": flat.numel}, Tile(flat.shape, I32, flat))
        index = _emit(k, "reshape", [iota], {"shape": SHAPE}, Tile(SHAPE, I32, layout))
        tiles = _emit(k, "splat", [base], {"shape": SHAPE}, Tile(SHAPE, base.type, layout))
        return _emit(k, "ptr_add", [tiles, index], {}, Tile(SHAPE, base.type, layout))

    with k.block() as ops:
        where = pointers(params[0], source)
        x = k.append(_retyped(make_op("load", [where]), Tile(SHAPE, element, source)))[0]
        y = k.append(make_op("convert", [x], {"to": Tile(SHAPE, element, target)}))[0]
        k.append(make_op("store", [pointers(params[1], target), y]))
        k.append(make_op("return", ()))
    return Module("k", {"k": Function("k", ("x", "out"), Block(tuple(params), tuple(ops)))})


def _retyped(op, *types):
    return Op(op.row, op.operands, [Value(t) for t in types], op.attrs, op.regions)


def _emit(k, name, operands, attrs, result):
    plain = [Value(Tile(v.type.shape, v.type.element) if isinstance(v.type, Tile) else v.type) for v in operands]
    op = make_op(name, plain, attrs)
    return k.append(Op(op.row, operands, [Value(result)], op.attrs))[0]


def run(element, source, target):
    m = module(element, source, target)
    verify(m, Stage.LAID_OUT)
    made = generate(m, ptx_machine.TARGET.capability, WARPS)
    compiler = ptx_machine.TARGET._compiler
    text = compiler.compile(Request(made.text, ptx_machine.TARGET.machine, ASSEMBLY, 3, 3), "k").decode()
    dtype = storage_dtype(element)
    count = SHAPE[0] * SHAPE[1]
    x = (np.arange(count) % 2 == 0) if dtype == np.bool_ else np.random.default_rng(3).integers(
        0, 256, count * dtype.itemsize, np.uint8).view(dtype)
    x = np.nan_to_num(x) if dtype.kind == "f" else x
    out = np.zeros_like(x)
    ptx_machine.launch(CodeObject("nvidia", "k", b"", {"ptx": text}, made.metadata), (1, 1, 1), [x, out])
    return x, out


PAIRS = [(a, b) for a in LAYOUTS for b in LAYOUTS if a != b]


@pytest.mark.parametrize("source, target", PAIRS)
def test_all_pairs(source, target):
    x, out = run(F32, LAYOUTS[source], LAYOUTS[target])
    np.testing.assert_array_equal(out, x)


@pytest.mark.parametrize("element", [I1, I8, I16, F16, I64, F64], ids=str)
@pytest.mark.parametrize("source, target", [("rows", "columns"), ("fragment", "swapped"), ("straight", "mixed"),
                                            ("replicated", "rows")])
def test_element_sizes(element, source, target):
    x, out = run(element, LAYOUTS[source], LAYOUTS[target])
    np.testing.assert_array_equal(out, x)


def test_the_pairs_need_every_kind():
    kinds = {plan(LAYOUTS[a], LAYOUTS[b], 4, matrix=False).kind for a, b in PAIRS}
    assert {Kind.SHUFFLE, Kind.SHARED} <= kinds
