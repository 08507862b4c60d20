"""Expressions: compile-time values, decay, short circuits, tuples, f-strings, comprehensions, attributes."""

import collections
import enum
import math

import numpy as np
import pytest

import tilewright.language as tl
from tests.departures import differs
from tests.frontend.running import compiled, jit, op_names, results
from tilewright.language.function import ConstexprFunction

N = tl.constexpr(8)
FLAG = tl.constexpr(True)
SIZES = tl.constexpr((2, 3, 5))
Pair = collections.namedtuple("Pair", "first second")


@ConstexprFunction
def double(x):
    return 2 * x


@jit
def trap(x):
    tl.store(x, 1)
    return 1


def test_constexpr_arithmetic_is_pythons():
    def kernel(out):
        tl.static_assert(-7 // 2 == -4)
        tl.static_assert(-7 % 2 == 1)
        tl.static_assert(7 / 2 == 3.5)
        tl.static_assert(2**5 == 32)
        tl.static_assert((N << 2) | 1 == 33)
        tl.static_assert(N.value == 8 and N.bit_length() == 4)
        tl.static_assert(math.ceil(2.5) == 3 and math.pi > 3)
        tl.static_assert(double(N) == 16)
        tl.static_assert(SIZES[1] == 3 and len(SIZES) == 3 and SIZES[-1] == 5)
        tl.store(out, double(N) + SIZES[2])

    assert results(kernel) == [21.0]


def test_plain_assignment_makes_a_run_time_scalar_and_a_literal_is_weak():
    def kernel(out, h):
        c = 2.5
        tl.static_assert(c.dtype == tl.float32)
        tl.static_assert((c + h).dtype == tl.float32)
        tl.static_assert((2.5 + h).dtype == tl.float16)
        k: tl.constexpr = 2.5
        tl.static_assert((k + h).dtype == tl.float16)
        late: tl.constexpr
        late = 6
        tl.static_assert(late == 6)
        nothing = None
        tl.static_assert(nothing is None)
        kind = tl.int64
        tl.store(out, (h + k).to(kind))

    assert results(kernel, h=("fp16", 1.5)) == [4.0]


def test_constexpr_becomes_a_tensor_by_reassignment():
    def kernel(out):
        n: tl.constexpr = 4
        n += 1
        tl.static_assert(n.dtype == tl.int32)
        tl.store(out, n)

    assert results(kernel) == [5.0]


@pytest.mark.parametrize("value", [True, False, None, 0, 3])
def test_compile_time_if_compiles_one_branch(value):
    def kernel(out, V):
        if V:
            kept = 1
        elif V is None:
            kept = 2
            tl.static_assert(V is None)
        else:
            kept = 3
            tl.static_assert(V is not None and not V)
        tl.store(out, kept)

    module = compiled(kernel, out="*fp32", V=value)
    assert "if" not in op_names(module)
    assert results(kernel, V=value) == [1.0 if value else 2.0 if value is None else 3.0]


def test_names_of_the_branch_that_is_not_taken_do_not_matter():
    def kernel(out, x):
        if N > 100:
            y = undefined_name  # noqa: F821
        else:
            y = 2
        z = y if FLAG else undefined_name  # noqa: F821
        if isinstance(x, tl.tensor) and hasattr(x, "dtype") and x.dtype.is_int():
            z = z + 1
        tl.store(out, z)

    assert results(kernel, x=("i32", 4)) == [3.0]


def test_short_circuits_of_compile_time_operands_return_the_operand():
    def kernel(out):
        tl.static_assert((True and 5) == 5)
        tl.static_assert((0 or 7) == 7)
        tl.static_assert((None or 3) == 3)
        tl.static_assert(not (False and undefined_name))  # noqa: F821
        tl.static_assert(1 < 2 < 3)
        tl.static_assert(not 3 < 2 < undefined_name)  # noqa: F821
        tl.store(out, 1)

    assert results(kernel) == [1.0]


def test_compile_time_operands_decide_behind_run_time_ones_too():
    """Kernels say `if pid == 0 and HAS_BIAS:` of a bias that is None without it."""
    def kernel(out, n, nothing: tl.constexpr, ON: tl.constexpr, COUNT: tl.constexpr):
        v = 1
        if n == 3 and not ON:
            v += tl.load(nothing)
        if n == 3 and nothing and undefined_name:  # noqa: F821
            v += undefined_name  # noqa: F821
        if n == 3 and COUNT and ON:
            v += 2
        if n and "text":
            v += 4
        if n == 4 or not COUNT:
            v += 8
        if not (n == 4 or ON):
            v += undefined_name  # noqa: F821
        tl.store(out, v)

    assert results(kernel, n=("i32", 3), nothing=None, ON=True, COUNT=2) == [7.0]
    assert results(kernel, n=("i32", 4), nothing=None, ON=True, COUNT=2) == [13.0]


def test_a_loop_that_a_compile_time_operand_leaves_out():
    def kernel(out, n, ON: tl.constexpr):
        k = n
        while k < 9 and ON:
            k += 1
        while (j := k + 1) > 0 and not ON:
            k += undefined_name if ON else 5  # noqa: F821
            if k > 20:
                break
        tl.store(out, k + j)

    assert results(kernel, n=("i32", 3), ON=True) == [19.0]
    assert results(kernel, n=("i32", 3), ON=False) == [42.0]


@differs("`and` and `or` do not touch memory in vain", topic="Control flow",
         peer="Both sides are evaluated, unless a compile-time value decides.",
         ours="A side that loads, stores or may fail is evaluated only if the other does not decide.")
def test_a_side_that_touches_memory_is_not_evaluated_when_the_other_decides():
    def kernel(out, n):
        both = (n > 5) and trap(out + 1) == 1
        either = (n < 5) or trap(out + 2) == 1
        tl.store(out, both.to(tl.int32) + 2 * either.to(tl.int32))

    assert results(kernel, 3, n=("i32", 3)) == [2.0, 0.0, 0.0]
    assert results(kernel, 3, n=("i32", 9)) == [3.0, 1.0, 1.0]


def test_a_pure_side_is_simply_evaluated():
    def kernel(out, n):
        tl.store(out, n > 3 and n < 8)

    assert "if" not in op_names(compiled(kernel, out="*fp32", n="i32"))
    assert [results(kernel, n=("i32", n))[0] for n in (3, 4, 7, 8)] == [0.0, 1.0, 1.0, 0.0]


def test_conditional_expression_is_lazy_at_run_time():
    def kernel(out, n):
        v = trap(out + 1) if n > 3 else 5
        tl.store(out, v)

    assert results(kernel, 2, n=("i32", 2)) == [5.0, 0.0]
    assert results(kernel, 2, n=("i32", 4)) == [1.0, 1.0]


def test_conditional_expression_on_literals_of_one_kind():
    def kernel(out, n):
        tl.store(out, 1.5 if n > 3 else 2.5)

    assert [results(kernel, n=("i32", n)) for n in (3, 4)] == [[2.5], [1.5]]


@differs("Python that 3.9 has new")
def test_walrus_assigns_in_the_function():
    def kernel(out, n):
        if (m := n * 2) > 5 and (k := m + 1) > 0:
            tl.store(out, m + k)
        else:
            tl.store(out, m)

    assert [results(kernel, n=("i32", n)) for n in (1, 5)] == [[2.0], [21.0]]


def test_tuples_are_values():
    def kernel(out, n):
        t = (n, 2.5)
        a, b = t
        tl.static_assert(a.dtype == tl.int32 and b.dtype == tl.float32)
        u = t + (3,) + [4]
        tl.static_assert(len(u) == 4)
        (c, d), e = (u[1:3], u[-1])
        v: tl.constexpr = (1, 2) * 2
        tl.static_assert(v == (1, 2, 1, 2))
        none_in_tuple = (None, tl.float32, 1)
        tl.static_assert(none_in_tuple[0] is None)
        tl.store(out, a + b + c + d + e + v[3])

    assert results(kernel, n=("i32", 10)) == [10 + 2.5 + 2.5 + 3 + 4 + 2]


def test_namedtuples():
    def kernel(out, n):
        p = Pair(n, second=3)
        q = Pair(p.second, p.first)
        for _ in range(2):
            q = Pair(q.second, q.first + 1)
        tl.store(out, q.first * 100 + q[1])

    assert results(kernel, n=("i32", 7)) == [4 * 100 + 8]


def test_tuple_parameters():
    def kernel(out, t):
        tl.static_assert(t[1][0] == 5)
        a, (b, c) = t
        tl.store(out, a + b + c)

    module = compiled(kernel, out="*fp32", t=["i32", [5, "fp32"]])
    assert module.entry.param_names == ("out", "t[0]", "t[1][1]")


@differs("Python that 3.9 has new")
def test_list_comprehension_over_compile_time_sequences():
    def kernel(out):
        squares: tl.constexpr = [i * i for i in range(6) if i % 2 == 1]
        tl.static_assert(squares == (1, 9, 25))
        more = [s + i for s in squares]  # noqa: F821  (the name of a comprehension stays)
        tl.store(out, more[0] + more[2])

    assert results(kernel) == [5 + 1 + 5 + 25]


def test_list_comprehension_over_a_static_range():
    def kernel(out):
        numbers: tl.constexpr = [i * i for i in tl.static_range(1, 6, 2)]
        tl.static_assert(numbers == (1, 9, 25))
        a, b = [tl.program_id(i) + i for i in tl.static_range(2)]
        tl.store(out, a + b)

    assert results(kernel) == [1]


@differs("f-strings honour their formats", topic="Compile-time values",
         peer="`{N:04d}` drops the format and gives the bare number.",
         ours="As in Python.")
def test_f_strings_honour_formats(capsys):
    def kernel(out):
        tl.static_print(f"{N:04d} {2.5:.2f} {'a'!r} {N}{'{}'}")
        tl.store(out, 1)

    results(kernel)
    assert capsys.readouterr().out == "0008 2.50 'a' 8{}\n"


def test_attributes_of_tensors_types_and_modules():
    def kernel(out, x):
        t = tl.zeros((4, 8), x.dtype.element_ty)
        tl.static_assert(t.shape[1] == 8 and len(t.shape) == 2 and t.numel == 32)
        tl.static_assert(x.type.element_ty == tl.float16 and t.dtype.primitive_bitwidth == 16)
        tl.static_assert(x.dtype.is_ptr() and t.T.shape[0] == 8)
        tl.store(out, tl.sum(t.to(tl.float32) + 1.0))

    assert results(kernel, x=("*fp16", np.zeros(1, np.float16))) == [32.0]


def test_unary_operators():
    def kernel(out, n):
        tl.store(out, -n + ~n + +n)
        tl.store(out + 1, not n > 3)
        tl.static_assert(-N == -8 and ~N == -9 and (not N) == False)  # noqa: E712

    assert results(kernel, 2, n=("i32", 5)) == [-6.0, 0.0]


def test_indexing_adds_dimensions():
    def kernel(out):
        r = tl.arange(0, 4)
        tile = r[:, None] * 10 + r[None, :]
        tl.static_assert(tile.shape == (4, 4))
        tl.store(out + r[:, None] * 4 + r[None, :], tile)

    assert results(kernel, 16) == [10.0 * i + j for i in range(4) for j in range(4)]


def test_annotations_other_than_constexpr_have_no_effect():
    def kernel(out, n):
        x: tl.int64 = 5
        y: "anything" = n  # noqa: F821, UP037
        tl.static_assert(x.dtype == tl.int32)
        tl.store(out, x + y)

    assert results(kernel, n=("i32", 1)) == [6.0]


class Mode(enum.Enum):
    FAST = "fast"
    EXACT = "exact"


@pytest.mark.parametrize("mode", Mode)
def test_enums_are_compile_time_values(mode):
    def kernel(out, MODE: tl.constexpr):
        fast = MODE == Mode.FAST
        if MODE is Mode.FAST and MODE.value == "fast":
            tl.store(out, 1)
        else:
            tl.store(out, 2 + fast)

    assert results(kernel, MODE=mode) == [1.0 if mode is Mode.FAST else 2.0]
