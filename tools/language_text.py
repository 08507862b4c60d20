"""The words between the tables of docs/language.md, which `tools/language_reference.py` puts together."""

HEAD = """\
# The language

    import tilewright as triton
    import tilewright.language as tl

What a name of `tl` takes, gives and refuses. [tutorial.md](tutorial.md) teaches it from the beginning;
[differences.md](differences.md) lists where it departs from triton. This page is made from the signatures and
docstrings of the language: `.venv/bin/python -m tools.language_reference > docs/language.md`.

A kernel is a function under `@triton.jit`. It is compiled for the types of its arguments and the values of its
`tl.constexpr` parameters, and runs once for each *program* of a grid of up to three dimensions. A value is a *scalar*,
a *tile* (an array whose sizes are known at compile time, at most 1048576 elements, of any size in each dimension), a
pointer or a tile of pointers, or a compile-time value (`constexpr`). Values never change; `x += 1` makes a new one.

An error is a `triton.CompilationError` at the line, with what came, what is allowed and what to do. Below, *is refused*
means that. What is undefined (division by zero, a shift by the width or more, a float that does not fit the integer it
is cast to, the least integer divided by -1) gives some value and never ends the process."""

TYPES = """\
## Types of elements"""

PROMOTION = """\
## Promotion

Two tensors, scalar or tile, meet in the type of this table (`+ - *`, comparisons, `tl.where`, `tl.maximum`, ...; on
integers also `& | ^`). Shapes broadcast as in NumPy.

* A Python number or constexpr written in the expression is *weak*: it takes the tensor's type if its kind (bool < int <
  float) is not higher, and must fit. `i8 + 300` is refused; `i32 + 1.0` is fp32.
* A name that got a number by plain assignment is a run-time scalar: int32 (or wider where needed), fp32, int1. So with
  an fp16 `h`, `2.5 + h` is fp16, and after `c = 2.5`, `c + h` is fp32. `c: tl.constexpr = 2.5` stays weak.
* `/` and `%` of anything with a float are computed in fp32, or in fp64 if one side is; `/` of integers gives fp32.
* `//` and `%` of integers truncate toward zero, as C does; those of compile-time values are Python's. `//` of floats is
  refused, and so are `/ // %` of a signed and an unsigned tensor. `%` of floats is C's `fmod`.
* `>>` shifts arithmetically if its left operand is signed.
* `not`, and `and`, `or` on tiles, need int1."""

PYTHON = """\
## Python in kernels

`if`, `while`, `for` over `range`, `tl.range`, `tl.static_range` and tuples, with `break`, `continue` and `return`
anywhere; conditional expressions, and `and`, `or`, which leave out a side that touches memory where the other decides;
chained comparisons, `:=`, tuples, named tuples, list comprehensions over tuples, f-strings of compile-time values,
`assert`, `print`. A jit function may call others, with defaults, keywords and `*args`, and itself, if a constexpr ends
the recursion.

* An `if` on a compile-time value compiles one branch. On a run-time scalar both are compiled, and a variable that is
  read afterwards has one type on both.
* A variable that one iteration of a run-time loop hands to the next, or to what follows, exists before the loop and
  keeps its type.
* The index of a run-time loop keeps the value of the last iteration; after a loop without iterations it is what it
  was before, or else the start of the range.
* `&`, `|` and `^` bind tighter than comparisons do, as in Python: a mask is `(i < n) | (i == 7)`. Without the
  parentheses it is a chain of comparisons, which is refused.
* Globals: modules, jit functions, types and `tl.constexpr` values. A changed global recompiles the kernel.
* `x[:, None]`, `x[None, :]` add dimensions to a tile; `x[3]`, `x[:, 4:8]`, `x[::2]`, with bounds known at compile time,
  are parts of it."""

LAUNCH = """\
## Around kernels

`kernel[grid](*args, **options)` launches. `grid` is a tuple of one to three sizes, or a function that makes one of the
arguments by name. Arrays and tensors (NumPy, torch, DLPack) become pointers; an int is int32 if it fits, else int64 or
uint64, a float fp32, a bool int1; tuples of these arrive as tuples, None as None; a `tl.constexpr` parameter takes
whatever is hashable. An int of 1 is compiled in, and whether 16 divides a number or an address is known to the
compiler. Options are `debug`, which turns assertions on, `enable_fp_fusion`, and those of GPUs (`num_warps`,
`num_stages`, ...), which are checked and change nothing on a CPU. `kernel.warmup(*args, grid=grid)` compiles only."""
