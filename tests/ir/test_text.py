"""The text form: print -> parse -> print is the identity, and says exactly what the module says."""

import math
import os
import struct
import subprocess
import sys

import pytest

from tests.passes.golden_files import read
from tests.passes.test_golden import ROOT
from tilewright.diagnostics import UNKNOWN, Location
from tilewright.ir.build import Builder, make_op
from tilewright.ir.node import Block, Function, Module, ParamFacts, Value
from tilewright.ir.ops.attributes import Cache, Eviction, Precision, Rounding
from tilewright.ir.parse import parse_module
from tilewright.ir.text import op_lines, print_module, print_value, value_names
from tilewright.ir.types import BF16, F32, F64, I1, I32, I64, Pointer, Tile
from tilewright.ir.walk import ops_in
from tilewright.layout import Layout


def kernel(build, params=(), facts=(), **fields) -> Module:
    k = Builder()
    with k.block() as ops:
        build(k, *params)
        k.create("return", [])
    names = tuple(p.hint or f"p{i}" for i, p in enumerate(params))
    return Module("k", {"k": Function("k", names, Block(tuple(params), tuple(ops)), (), facts)}, **fields)


def round_trip(module: Module, locations: bool = False) -> Module:
    text = print_module(module, locations)
    again = parse_module(text)
    assert print_module(again, locations) == text
    return again


@pytest.mark.parametrize("path", sorted(ROOT.glob("*/*.ir")), ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_golden_files_are_in_printed_form(path):
    expected = read(path).expected
    assert print_module(parse_module(expected)) == expected


PAYLOAD = struct.unpack("<d", struct.pack("<Q", 0xFFF8_0000_0000_0123))[0]


@pytest.mark.parametrize("value", [0.0, -0.0, 1.5, 1e-320, 5e-324, 1.7976931348623157e308, 0.1, 1e22, math.inf,
                                   -math.inf, math.nan, PAYLOAD])
def test_floats_are_exact(value):
    module = kernel(lambda k: k.create("constant", [], {"value": value, "type": F64}))
    (constant, _) = round_trip(module).entry.body.ops
    assert struct.pack("<d", constant.attrs["value"]) == struct.pack("<d", value)


@pytest.mark.parametrize("t, value", [(I1, True), (I1, False), (I32, -(1 << 31)), (I64, (1 << 63) - 1),
                                      (Pointer(F32), 0), (BF16, 2.0)])
def test_constants_keep_type_and_value(t, value):
    module = kernel(lambda k: k.create("constant", [], {"value": value, "type": t}))
    attrs = round_trip(module).entry.body.ops[0].attrs
    assert attrs == {"value": value, "type": t} and type(attrs["value"]) is type(value)


def test_attributes_of_every_kind():
    p, m, o = Value(Pointer(F32), "p"), Value(I1, "m"), Value(F32, "o")

    def build(k, p, m, o):
        k.create("load", [p, m, o], {"has_mask": True, "has_other": True, "cache": Cache.CG,
                                     "eviction": Eviction.FIRST, "volatile": True})
        k.create("load", [p, m], {"has_mask": True})
        k.create("fp_trunc", [o], {"to": BF16, "rounding": Rounding.RTZ})
        k.create("device_print", [o, m], {"prefix": 'a "quoted" \\ line\nñ', "hex": True, "signed": (True, False)})
        tile = k.create("splat", [o], {"shape": (4, 4)})[0]
        k.create("dot", [tile, tile, tile], {"precision": Precision.TF32X3})

    module = kernel(build, (p, m, o))
    again = round_trip(module)
    for old, new in zip(ops_in(module.entry.body), ops_in(again.entry.body)):
        assert (old.name, dict(old.attrs)) == (new.name, dict(new.attrs))


def test_modules_and_parameters_keep_their_facts():
    x = Value(I32, "other name")
    module = kernel(lambda k, p, x: None, (Value(Pointer(Pointer(F32, True)), "p"), x),
                    (ParamFacts(16), ParamFacts()), disjoint=True, wide=True)
    text = print_module(module)
    assert text.startswith("module @k [disjoint, wide]\n")
    assert '%p: ptr<ptr<const f32>> [divisible_by = 16], %other_name: i32 [name = "other name"]' in text
    again = round_trip(module)
    assert (again.disjoint, again.wide, again.entry.param_names) == (True, True, ("p", "other name"))
    assert again.entry.param_facts == (ParamFacts(16), ParamFacts())


def test_hints_are_made_unique_and_numbers_follow_the_order():
    def build(k, a):
        first = k.create("add", [a, a], hint="a")[0]
        k.create("add", [first, a])
        k.create("add", [first, a], hint="a")
        k.create("add", [first, a], hint="1")
        k.create("add", [first, a])

    module = kernel(build, (Value(I32, "a"),))
    assert list(value_names(module.entry).values()) == ["a", "a_1", "0", "a_2", "1", "2"]
    round_trip(module)


def test_locations_round_trip():
    site = Location("caller's \"file\".py", 7, 3, 8, 9, "kernel")
    place = Location("lib.py", 10, 0, 10, 5, "helper", site)
    ops = make_op("program_id", (), {"axis": 0}, (), place), make_op("return", (), loc=Location("x.py", 3))
    body = Block((), ops)
    module = Module("k", {"k": Function("k", (), body, loc=site)})
    again = round_trip(module, locations=True)
    assert [op.loc for op in again.entry.body.ops] == [place, Location("x.py", 3)]
    assert again.entry.loc == site
    assert [op.loc for op in round_trip(module).entry.body.ops] == [UNKNOWN, UNKNOWN]


def test_layouts_in_types():
    text = "module @k\n\nfunc @k(%x: tile<4xf32, #linear(4, register a0, lane a1, warp)>) {\n  return\n}\n"
    module = parse_module(text)
    assert module.entry.params[0].type == Tile((4,), F32, Layout.of((4,), register=(1,), lane=(2,), warp=()))
    assert print_module(module) == text


def test_text_does_not_depend_on_the_hash_seed():
    code = ("from tests.passes.random_modules import random_module; from tilewright.passes import *;"
            "from tilewright.ir.text import print_module;"
            "print(print_module(run_passes(random_module(3), standard(True)), True))")
    texts = {subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": "."},
                            capture_output=True, text=True, check=True).stdout for seed in ("1", "2")}
    assert len(texts) == 1


def test_lines_of_single_ops():
    module = parse_module(read(ROOT / "licm" / "pure.ir").expected)
    lines = {id(op): line for op, line in op_lines(module.entry)}
    assert len(lines) == len(list(ops_in(module.entry.body)))
    assert "%ci = mul %c, %c4 : i32" in lines.values()
    assert "%r = while %n : i32" in lines.values()


def test_unprintable_attributes_are_refused():
    with pytest.raises(TypeError, match="an attribute cannot be"):
        print_value([1])
