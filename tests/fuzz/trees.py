"""Kernels as trees: expressions with a type, statements with bodies, and the source text of a whole program.

A tree is changed only by making another one, so the shrinker can try parts of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Kind:
    """Element type (triton's short name) and shape of a value; () is a scalar."""

    dtype: str
    shape: tuple[int, ...] = ()

    @property
    def numel(self) -> int:
        count = 1
        for n in self.shape:
            count *= n
        return count


@dataclass(frozen=True)
class Expr:
    """An expression: `text` with {0}, {1}, ... for its parts.  It is always safe as an operand."""

    kind: Kind
    text: str
    parts: tuple[Expr, ...] = ()

    def render(self) -> str:
        return self.text.format(*(p.render() for p in self.parts))

    def size(self) -> int:
        return 1 + sum(p.size() for p in self.parts)


@dataclass(frozen=True)
class Stmt:
    """A statement: `text` with {0}, ... for its expressions, then its bodies, each after the first behind `heads`."""

    text: str
    parts: tuple[Expr, ...] = ()
    bodies: tuple[tuple[Stmt, ...], ...] = ()
    heads: tuple[str, ...] = ()
    fixed: bool = False             # the shrinker leaves it

    def lines(self, indent: int) -> Iterator[str]:
        pad = "    " * indent
        for line in self.text.format(*(p.render() for p in self.parts)).split("\n"):
            yield pad + line
        for number, body in enumerate(self.bodies):
            if number:
                yield pad + self.heads[number - 1]
            if not body:
                yield pad + "    pass"
            for stmt in body:
                yield from stmt.lines(indent + 1)

    def size(self) -> int:
        return 1 + sum(p.size() for p in self.parts) + sum(s.size() for b in self.bodies for s in b)


@dataclass(frozen=True)
class Output:
    """A variable that the kernel stores at its end, one tile a program; `storage` is the array's type.

    `bound` names the output that holds how far this one may be off, times its type's epsilon; else `ulps` says it.
    """

    name: str
    kind: Kind
    storage: str
    ulps: float = 0.0
    bound: str = ""


@dataclass(frozen=True)
class Program:
    """A kernel, the functions that it calls, and what it is launched with."""

    seed: int
    grid: int
    functions: tuple[str, ...]
    body: tuple[Stmt, ...]
    outputs: tuple[Output, ...]
    scalars: tuple[tuple[str, int], ...]        # run-time integers by name
    constants: tuple[tuple[str, int], ...]      # compile-time integers by name
    sizes: tuple[int, ...]                      # of the ranges r3, r7, ... that the kernel begins with
    inputs: tuple[str, ...]                     # dtypes of the input arrays in_<dtype>
    per_program: int                            # elements that a program has of every input and of the buffer
    buffers: tuple[tuple[str, str, int], ...]   # further arrays, changed in place: name, dtype, elements

    def source(self) -> str:
        names = [f"in_{d}" for d in self.inputs] + [name for name, _, _ in self.buffers]
        names += [f"out_{o.name}" for o in self.outputs] + [name for name, _ in self.scalars]
        names += [f"{name}: tl.constexpr" for name, _ in self.constants]
        lines = ["import tilewright as triton", "import tilewright.language as tl", "", ""]
        for function in self.functions:
            lines += ["@triton.jit", *function.split("\n"), "", ""]
        lines += ["@triton.jit", f"def kernel({', '.join(names)}):", "    pid = tl.program_id(0)"]
        lines += [f"    r{n} = tl.arange(0, {n})" for n in self.sizes]
        for stmt in self.body:
            lines += stmt.lines(1)
        for out in self.outputs:
            at = f"pid * {out.kind.numel} + {offsets(out.kind.shape)}"
            lines.append(f"    tl.store(out_{out.name} + {at}, {out.name}.to({spelled(out.storage)}))")
        return "\n".join(lines) + "\n"

    def with_body(self, body: tuple[Stmt, ...]) -> Program:
        return replace(self, body=body)

    def size(self) -> int:
        return sum(s.size() for s in self.body) + len(self.outputs) + len(self.functions)


_NAMES = {"i1": "int1", "bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "fp64": "float64",
          "fp8e5": "float8e5", "fp8e4nv": "float8e4nv"}


def spelled(dtype: str) -> str:
    """The language's name of a dtype."""
    if dtype in _NAMES:
        return f"tl.{_NAMES[dtype]}"
    return f"tl.{'uint' if dtype[0] == 'u' else 'int'}{dtype[1:]}"


def offsets(shape: tuple[int, ...]) -> str:
    """The row-major offsets of a tile, from the ranges r<n>."""
    if not shape:
        return "0"
    terms = []
    for axis, n in enumerate(shape):
        step = 1
        for later in shape[axis + 1:]:
            step *= later
        places = ", ".join(":" if i == axis else "None" for i in range(len(shape)))
        index = f"r{n}" if len(shape) == 1 else f"r{n}[{places}]"
        terms.append(index if step == 1 else f"{index} * {step}")
    return f"({' + '.join(terms)})"
