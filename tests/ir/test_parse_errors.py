"""Text that is no IR: the error has the line and column of the guilty place."""

import pytest

from tilewright.ir.parse import parse_module
from tilewright.ir.scan import ParseError

HEAD = "module @k\n\nfunc @k(%p: ptr<f32>, %x: i32, %flag: i1) {\n"

# text of the body (from line 4 on), line, column, message
BODIES = [
    ("  %a = frobnicate %x : i32\n", 4, 8, "no op is called 'frobnicate'"),
    ("  %a = add %x, %y : i32\n", 4, 16, "%y is not defined before its use"),
    ("  %x = add %x, %x : i32\n", 4, 3, "%x is defined twice"),
    ("  %a = add %x, %x : i64\n", 4, 21, "op add gives (i32), the text says (i64)"),
    ("  %a = add %x, %x\n  return\n", 5, 3, "op add gives (i32), the text says ()"),
    ("  %a, %b = add %x, %x : i32\n", 4, 3, "2 results and 1 result types"),
    ("  %a = add %x, %flag : i32\n", 4, 8, "op add: operand types differ: i32, i1"),
    ("  %a = add %x, : i32\n", 4, 16, "expected %name, found ':'"),
    ("  %a = add %x, %x [nsw = true] : i32\n", 4, 20, "op add has no attribute nsw"),
    ("  %a = program_id [axis = 0, axis = 1] : i32\n", 4, 30, "op program_id is given twice the attribute axis"),
    ("  %a = program_id : i32\n", 4, 8, "op program_id needs the attribute axis"),
    ("  %a = program_id [axis = 1.5] : i32\n", 4, 8, "attribute axis = 1.5 is not of its declared kind"),
    ("  %a = program_id [axis = 7] : i32\n", 4, 8, "op program_id: axis 7 is not 0, 1 or 2"),
    ("  %a = load %p [cache = fast] : f32\n", 4, 25, "expected one of none, ca, cg"),
    ("  %a = load %p, mask %flag : f32\n", 4, 22, "expected '=', found '%flag'"),
    ("  %a = iota [start = 0, end = 4] : tile<x4xi32>\n", 4, 41, "expected sizes such as 8x16x"),
    ("  %a = iota [start = 0, end = 4] : tile<0xi32>\n", 4, 36, "a tile's shape is one or more sizes >= 1"),
    ("  %a = ext_s %x [to = i128] : i64\n", 4, 23, "no scalar type 'i128'"),
    ("  %a = ext_s %x [to = tile<2xi64>] : i64\n", 4, 8, "attribute to"),
    ("  %a = splat %x [shape = (2)] : tile<2xtile<2xi32>>\n", 4, 33, "no tile of tiles"),
    ("  if %flag {\n", 4, 12, "expected 'then' and a region of if"),
    ("  if %flag then {\n    yield\n  }\n  return\n", 7, 3, "expected 'else' and a region of if"),
    ("  %a = if %flag then {\n    %b = add %x, %x : i32\n    yield %b\n  } else {\n    yield %b\n  } : i32\n", 8, 11,
     "%b is not visible here"),
    ('  device_print %x [prefix = "never ends, signed = (true)]\n', 4, 29, "expected a string"),
    ('  device_assert %flag [message = "bad \\x"]\n', 4, 34, "not a JSON string"),
    ("  %a = constant zero : i32\n", 4, 17, "no scalar type 'zero'"),
    ("  return loc(7)\n", 4, 14, "expected a string, found '7)'"),
    ("  return\n", 5, 1, "expected the name of an op, found the end of the text"),
]

MODULES = [
    ("", 1, 1, "expected 'module', found the end of the text"),
    ("module k", 1, 8, "expected '@', found 'k'"),
    ("module @k [quick]", 1, 12, "'quick' is unknown here"),
    ("module @k\n{", 2, 1, "expected 'func', found '{'"),
    ("module @k\nfunc @k(%a: ptr<tile<2xi32>>) {\n}", 2, 13, "no pointer to a tile"),
    ("module @k\nfunc @k(%a: i32 [alignment = 4]) {\n}", 2, 18, "'alignment' is unknown here"),
    ("module @k\nfunc @k(%a: i32, %a: i32) {\n}", 2, 18, "%a is defined twice"),
    ("module @k\nfunc @k() {\n  return\n}\nfunc @k() {\n  return\n}", 5, 6, "function @k is defined twice"),
    ("module @k\nfunc @k(%a: tile<2xi32, blocked>) {\n}", 2, 25, "a layout is written as"),
    ("module @k\nfunc @k(%a i32) {\n}", 2, 12, "expected ':', found 'i32)'"),
]


@pytest.mark.parametrize("text, line, column, message", [(HEAD + b, *rest) for b, *rest in BODIES] + MODULES,
                         ids=lambda v: v if isinstance(v, str) and "\n" not in v else "")
def test_place_and_message(text, line, column, message):
    with pytest.raises(ParseError) as caught:
        parse_module(text, "some.ir")
    error = caught.value
    assert message in error.message
    assert (error.line, error.column) == (line, column)
    assert str(error) == f"some.ir:{line}:{column}: {error.message}"
