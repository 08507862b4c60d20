"""The verifier: each rule is broken by a module in tests/ir/verifier, on the line that says `// error: text`."""

import re
from pathlib import Path

import pytest

from tilewright.diagnostics import InternalError
from tilewright.ir.build import make_op
from tilewright.ir.node import Block, Function, Module, Op, ParamFacts, Value
from tilewright.ir.ops.table import Stage
from tilewright.ir.parse import parse_module
from tilewright.ir.types import F32, I32, Tile
from tilewright.ir.verify import VerifyError, verify

CASES = [(path.stem, text) for path in sorted((Path(__file__).parent / "verifier").glob("*.ir"))
         for text in path.read_text(encoding="utf-8").split("\n----\n")]


def case_id(case) -> str:
    name = re.search(r"module @(\w+)", case[1])[1]
    return f"{case[0]}-{name}"


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_broken(case):
    text = case[1]
    expected = [(number, line.split("// error: ")[1]) for number, line in enumerate(text.split("\n"), 1)
                if "// error: " in line]
    assert len(expected) == 1
    module = parse_module(text, check=False, own_locations=True)
    with pytest.raises(VerifyError) as caught:
        verify(module)
    error = caught.value
    place = error.op.loc if error.op is not None else error.function.loc
    assert (place.line, error.message) == expected[0]
    assert isinstance(error, InternalError)
    assert f"function @{error.function.name}" in str(error)


def kernel(*ops: Op, params: tuple[Value, ...] = (), **fields) -> Module:
    body = Block(params, (*ops, make_op("return", ())))
    names = fields.pop("param_names", tuple(f"p{i}" for i in range(len(params))))
    return Module("k", {"k": Function("k", names, body, **fields)})


def broken(module: Module, message: str, stage: Stage = Stage.TILE) -> None:
    with pytest.raises(VerifyError, match=re.escape(message)):
        verify(module, stage)


def test_what_text_cannot_say():
    x = Value(I32, "x")
    twice = make_op("add", (x, x))
    broken(kernel(twice, twice, params=(x,)), "is defined twice")
    broken(kernel(params=(x, x)), "is defined twice")
    broken(kernel(params=(x,), param_names=()), "0 parameter names for 1 parameters")
    broken(kernel(params=(x, Value(I32)), param_names=("a", "a")), "two parameters have one name")
    broken(kernel(params=(x,), param_facts=(ParamFacts(), ParamFacts())), "2 parameter facts for 1 parameters")
    broken(Module("k", {}), "the entry @k does not exist")
    other = kernel().entry
    broken(Module("k", {"k": other, "j": other}), "stands in the module as @j")
    region = Block((), (make_op("yield", ()),))
    broken(kernel(Op(twice.row, (x, x), (Value(I32),), twice.attrs, (region,)), params=(x,)),
           "has 1 regions, its row 0")


def test_layouts_come_later():
    x = Value(Tile((4,), F32, "blocked"), "x")
    broken(kernel(params=(x,)), "has a layout in a stage without layouts")
    verify(kernel(params=(x,)), Stage.LAID_OUT)


def test_an_error_names_the_op_and_its_position():
    module = parse_module("""module @k
func @k(%x: i32, %flag: i1) {
  if %flag then {
    yield
  } else {
    yield
  }
  %a = add %x, %flag : i32
  return
}""", check=False)
    broken(module, "function @k, op 3, add: type rule: operand types differ: i32, i1")
