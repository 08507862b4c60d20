"""Makes docs/language.md from the language itself: signatures, docstrings, tables of types.

    .venv/bin/python -m tools.language_reference > docs/language.md

A name stands in the family of the module that defines it (`FAMILIES`), or in the last one if its module has none.
Tests: tests/test_language_reference.py.
"""

from __future__ import annotations

import enum
import inspect
import operator
import re
import sys
from collections.abc import Iterator
from typing import Any

import tilewright as triton
from tilewright import language as tl
from tilewright.frontend.python_builtins import PYTHON_CALLS, REFUSED_BUILTINS
from tilewright.frontend.refusals import UNSUPPORTED
from tilewright.ir.ops import TABLE
from tilewright.language.builtin import Builtin
from tilewright.language.extra import libdevice
from tilewright.language.function import ConstexprFunction
from tilewright.language.promotion import promote
from tilewright.language.tensor import tensor
from tools.language_text import HEAD, LAUNCH, PROMOTION, PYTHON, TYPES

# title; what is common to the names; the modules that define them, in order
FAMILIES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("Programs and tiles", "Where values come from, and conversion between types.", ("creation",)),
    ("Memory", "Pointers count elements: `x + 1` is the next one. Pointer, mask and value broadcast to one another as "
     "in NumPy. All of a load happens before a later store of the same program, and a program sees its own stores.",
     ("memory_ops",)),
    ("Blocks of arrays", "Rectangles of strided arrays, without pointer arithmetic: tensor descriptors, and the block "
     "pointers of triton 3.6. Offsets may be of 64 bits, blocks of any size.", ("descriptors", "block_pointers")),
    ("Atomics", "Each reads, changes and writes an element in one step and gives what it found. Operands broadcast as "
     "those of a load do.", ("atomics", "polling",)),
    ("Arithmetic and choice", "Python's operators work on tensors: `+ - * / // % & | ^ << >> ~`, comparisons, and "
     "`and or not` on int1. These are the names beside them; types follow the rules of [promotion](#promotion).",
     ("elementwise",)),
    ("Mathematics", "Also under `tl.math`. The results have the type and shape of the operands; where a line gives "
     "types, others are refused: write `x.to(tl.float32)`. Bounds of errors hold on every engine; an ulp is a unit in "
     "the last place.",
     ("math",)),
    ("Matrix product", "", ("dot", "dot_scaled")),
    ("Shapes", "Nothing is computed here. Any size is allowed, powers of two or not; negative axes count from the end.",
     ("shape_ops",)),
    ("Reductions", "`axis=None` takes all elements; `keep_dims=True` keeps the dimension with size 1. The order is "
     "unspecified, but the same in every run.", ("reduction",)),
    ("Scans", "", ("scans",)),
    ("Sorting, counting, picking", "", ("ordering",)),
    ("Functions of functions", "", ("mapping",)),
    ("Made of the others", "", ("standard",)),
    ("Random numbers", "Counter-based: the same (seed, offset) gives the same number in every program, on every engine "
     "and in triton. `n_rounds` is the number of rounds of Philox.", ("random",)),
    ("Loops", "Besides Python's `range`. The options of `tl.range` and `tl.condition` are hints that never change a "
     "result.", ("ranges",)),
    ("Looking into a kernel", "", ("debug",)),
    ("Promises to the compiler", "A promise that does not hold makes the result undefined.", ("hints",)),
    ("Types and values", "Classes, for annotations and for code that makes kernels.",
     ("types", "constexpr", "tensor", "tuples", "aggregates", "structures")),
    ("More", "", ()),
)
# names of `triton` that stand beside kernels; the others are for libraries, or raised
_AROUND = ("jit", "autotune", "Config", "heuristics", "aggregate", "constexpr_function", "cdiv", "next_power_of_2",
           "reinterpret", "set_allocator", "testing.do_bench", "testing.assert_close", "testing.perf_report",
           "testing.Benchmark")
_MODULES = ("core", "extra", "math", "random", "semantic", "standard")
# classes of values and types that programs look at, and never make
_MINOR = ("base_type", "base_value", "block_pointer", "constexpr_type", "str_to_ty", "structure", "tensor_descriptor",
          "tuple_type")
# classes that users call; of the others the constructor is no business of theirs
_MADE_BY_USERS = (tl.range, tl.static_range, tl.condition, tl.constexpr, tl.dtype, tl.pointer_type, tl.block_type)


def page() -> str:
    """docs/language.md."""
    parts = [HEAD, TYPES, dtypes(), PROMOTION, promotion(), PYTHON, python_calls(), refusals()]
    for title, text, _ in FAMILIES:
        names = [n for n in tl.__all__ if family_of(n) == title and n not in _MINOR]
        if names:
            parts.append("\n\n".join([f"## {title}", *([text] if text else []), *map(entry, ordered(names))]))
    parts += [minor(), methods(), libdevice_table(), around()]
    return "\n\n".join(p.strip("\n") for p in parts) + "\n"


def family_of(name: str) -> str | None:
    """The title of the family of a public name; None for what has no entry: modules, instances of types."""
    value = getattr(tl, name)
    if name in _MODULES or isinstance(value, tl.dtype | tl.pointer_type | int):
        return None
    module = (value.function if isinstance(value, Builtin) else value).__module__.rsplit(".", 1)[-1]
    for title, _, modules in FAMILIES:
        if module in modules:
            return title
    return FAMILIES[-1][0]


def ordered(names: list[str]) -> list[str]:
    """Names in the order of their definitions, so that what belongs together stands together."""
    def place(name: str) -> tuple[str, int]:
        value = getattr(tl, name)
        target = value.function if isinstance(value, Builtin) else value
        return (target.__module__, _line(target))

    modules = [m for _, _, many in FAMILIES for m in many]
    rank = {f"tilewright.language.{m}": i for i, m in enumerate(modules)}
    return sorted(names, key=lambda n: (rank.get(place(n)[0], 99), place(n)[1], tl.__all__.index(n)))


def _line(target: Any) -> int:
    return inspect.getsourcelines(target)[1] if inspect.isclass(target) else target.__code__.co_firstlineno


# -- an entry ----------------------------------------------------------------------------------------------------------


def entry(name: str) -> str:
    """The section of one name."""
    value = getattr(tl, name)
    lines = [f"### tl.{name}", ""]
    if not inspect.isclass(value) or value in _MADE_BY_USERS or issubclass(value, enum.Enum):
        lines += ["```python", f"{name}{shown_signature(value)}", "```", ""]
    lines.append(prose(value) + error_bound(value))
    if isinstance(value, Builtin):
        bound = sorted(m for m, member in tensor.members.items() if member is value)
        if bound:
            lines += ["", f"Method of tensors: {', '.join(f'`x.{m}`' for m in bound)}."]
    return "\n".join(lines)


def shown_signature(value: Any) -> str:
    """The signature without annotations, as a user types it."""
    if inspect.isclass(value) and issubclass(value, enum.Enum):
        return f": {', '.join(m.name for m in value)}"
    try:
        signature = inspect.signature(value.fn if isinstance(value, ConstexprFunction) else value)
    except (TypeError, ValueError):
        return ""
    return f"({', '.join(_parameters(signature))})"


def _parameters(signature: inspect.Signature) -> Iterator[str]:
    kinds = inspect.Parameter
    parameters = list(signature.parameters.values())
    for i, parameter in enumerate(parameters):
        name, previous = parameter.name, parameters[i - 1].kind if i else None
        if parameter.kind is kinds.KEYWORD_ONLY and previous not in (kinds.KEYWORD_ONLY, kinds.VAR_POSITIONAL):
            yield "*"
        stars = {kinds.VAR_POSITIONAL: "*", kinds.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        yield stars + name + ("" if parameter.default is parameter.empty else f"={_default(parameter.default)}")
        following = parameters[i + 1].kind if i + 1 < len(parameters) else None
        if parameter.kind is kinds.POSITIONAL_ONLY and following is not kinds.POSITIONAL_ONLY:
            yield "/"


def _default(value: Any) -> str:
    if isinstance(value, enum.Enum):
        return f"tl.{type(value).__name__}.{value.name}"
    if isinstance(value, tl.dtype):
        return f"tl.{value.codegen_name}"
    return '""' if value == "" else repr(value).replace("'", '"')


def prose(value: Any) -> str:
    """A docstring in the page's form: sentences with one space between them."""
    return re.sub(r"(?<=[.:;]) {2,}", " ", inspect.getdoc(value) or "")


def error_bound(value: Any) -> str:
    """How exact an elementary function is, where the op table has it under the same name."""
    row = TABLE.get(value.name) if isinstance(value, Builtin) else None
    if row is None or not row.bound.ulp:
        return ""
    return f" At most {row.bound.ulp:g} ulp from the exact value{', for |x| <= 2**20' if row.domain else ''}."


# -- tables ------------------------------------------------------------------------------------------------------------


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in lines)


def scalar_types() -> list[tl.dtype]:
    """The number types of `tl`, ints before floats, narrow before wide."""
    found = [v for n in tl.__all__ if isinstance(v := getattr(tl, n), tl.dtype) and not v.is_void()]
    return sorted(set(found), key=lambda t: (t.is_floating(), t.primitive_bitwidth, t.is_int_unsigned(), t.name))


def has_values(element: tl.dtype) -> bool:
    """Whether an engine computes with the type."""
    try:
        element.to_ir()
    except TypeError:
        return False
    return True


def dtypes() -> str:
    rows = []
    for t in scalar_types():
        if t.is_int():
            values = "False, True" if t.is_int1() else f"{t.get_int_min_value()} to {t.get_int_max_value()}"
        else:
            values = f"{t.fp_mantissa_width} bits of fraction, exponent bias {t.exponent_bias}"
        note = "" if has_values(t) else "; a name only: no engine computes with it"
        rows.append([f"`tl.{t.codegen_name}`", f"`{t.name}`", str(t.primitive_bitwidth), values + note])
    return table(["type", "in signatures and messages", "bits", "values"], rows)


def promotion() -> str:
    kinds = [t for t in scalar_types() if has_values(t)]
    rows = []
    for left in kinds:
        row = [f"**{left.name}**"]
        for right in kinds:
            try:
                row.append(promote(left, False, right, False).name)
            except TypeError:
                row.append("–")
        rows.append(row)
    return table(["`+`", *(t.name for t in kinds)], rows)


def python_calls() -> str:
    allowed = ", ".join(f"`{f.__name__}`" for f in PYTHON_CALLS)
    lines = [f"Python's functions that a kernel may call: {allowed}. On compile-time values they are Python's own. "
             "Others say what to write instead:", ""]
    return "\n".join([*lines, table(["instead of", ""], [[f"`{n}`", cure] for n, cure in REFUSED_BUILTINS.items()])])


def refusals() -> str:
    """What the syntax of a kernel cannot contain."""
    rows = []
    for text in dict.fromkeys(UNSUPPORTED.values()):
        construct, _, cure = text.partition("; ")
        rows.append([construct, cure])
    return "What a kernel cannot contain:\n\n" + table(["construct", "instead"], rows)


def minor() -> str:
    lines = [f"* `tl.{name}`: {prose(getattr(tl, name)).splitlines()[0]}" for name in _MINOR]
    return "\n".join(["For programs that look at types and values there are also", "", *lines])


def methods() -> str:
    """The methods of tensors that are no name of `tl`."""
    public = {id(getattr(tl, n)) for n in tl.__all__}
    rows = [[f"`x.{name}({', '.join(_parameters(inspect.signature(member)))})`".replace("(input, ", "(")
             .replace("(input)", "()"), on_one_line(member)]
            for name, member in sorted(tensor.members.items()) if id(member) not in public]
    text = ("## Methods of tensors only\n\nBesides these, `x.dtype` is the type of an element, `x.shape` the sizes as "
            "compile-time values, `x.numel` their product, `x.type` the type of the whole value, and `x.T` the "
            "transpose of a tile with two dimensions.")
    return text + "\n\n" + table(["method", ""], rows)


def on_one_line(value: Any) -> str:
    return (" ".join(prose(value).split()) + error_bound(value)).replace("|", "\\|")


def libdevice_table() -> str:
    rows = [[f"`{name}({', '.join(_parameters(inspect.signature(f)))})`", on_one_line(f)]
            for name, f in sorted(libdevice.FUNCTIONS.items())]
    text = ("## tl.extra.libdevice\n\nThe names of the C library, also as `tl.extra.cuda.libdevice`. Operands are fp32 "
            "or fp64, all of one type, unless a line says otherwise; Python numbers take it.")
    return text + "\n\n" + table(["function", ""], rows)


def around() -> str:
    """What is called outside of kernels, and what is raised."""
    parts = [LAUNCH]
    for name in _AROUND:
        value = operator.attrgetter(name)(triton)
        shown = f"{name}{shown_signature(value)}"
        parts.append(f"### triton.{name}\n\n```python\n{shown}\n```\n\n{prose(value)}")
    public = [getattr(triton, name) for name in sorted(triton.__all__)]
    errors = [e for e in public if inspect.isclass(e) and issubclass(e, Exception)]
    parts.append("### Errors\n\n" + "\n".join(f"* `triton.{e.__name__}`: {prose(e).splitlines()[0]}" for e in errors))
    return "\n\n".join(parts)


if __name__ == "__main__":
    sys.stdout.write(page())
