"""Every elementwise row at every type: against exact arithmetic, and every engine against the row's meaning.

One module for a case computes a scalar and tiles of 1, 7, 16 and 17 lanes in each program, so that one compilation
sees all lane counts.  Operands are combinations of edge values, then random patterns (`edges.operand_lists`).
"""

import functools

import numpy as np
import pytest

from tests.conform import compare, edges, engines, expected
from tests.conform.cases import elementwise_cases
from tests.conform.modules import module, ptr
from tests.conform.rows import bits_of, evaluate
from tilewright.diagnostics import CompilationError
from tilewright.ir import fp
from tilewright.ir.ops import TABLE, Call
from tilewright.ir.types import F32, I32, Pointer, storage_dtype

CASES = elementwise_cases()
SHAPES = ((), (1,), (7,), (16,), (17,))
PER_PROGRAM = 42

# arguments at which elementary functions are hard: limits of the range, multiples of pi, near a zero
EXTRA = {
    "exp": (88.72, 88.73, -87.3, -103.9, -104.1, 709.78, 709.79, -708.4, -745.1, -745.2, 1e-8),
    "exp2": (127.9, 128.0, -126.5, -149.0, -149.6, -150.1, 1023.9, -1074.0, -1075.1, 1e-9),
    "log": (0.99, 1.01, 1 - 2.0**-24, 1 + 2.0**-23, 1e-40, 2.718281828), "log2": (0.99, 1.01, 1 - 2.0**-24, 8.0, 1e-40),
    "sin": (3.1415927, 6.2831855, 1.5707964, 355.0, 710.0, 1048576.0, 1e5, 12.566371, 0.78539816),
    "cos": (3.1415927, 6.2831855, 1.5707964, 355.0, 52174.0, 1048576.0, 1e5, 4.712389, 0.78539816),
    # next to a tie of every narrower format, in the low bits and far from them
    **dict.fromkeys(("int_to_fp_s", "int_to_fp_u"), tuple(
        sign * ((1 << top) + (1 << half) + low) for top in (62, 53, 40, 30, 24, 15) for low in (-1, 0, 1)
        for half in (top - 53, top - 24, top - 11, top - 8, top - 4) if half >= 0 for sign in (1, -1)) + tuple(
        -(1 << 63) + (1 << half) + low for half in (10, 11, 39, 52, 55, 59) for low in (-1, 0, 1))),
    **dict.fromkeys(("fp_to_int_s", "fp_to_int_u"), tuple(
        sign * (2.0**bits + off) for bits in (7, 8, 15, 16, 31, 32) for off in (-1.0, -0.5, 0.5, 1.0)
        for sign in (1, -1)) + (2.0**63 - 1024, 2.0**64 - 2048, -(2.0**63) - 2048)),
    "tan": (3.1415927, 1.5707964, 355.0, 1048576.0, 0.78539816), "asin": (0.5, 0.50000006, 0.99999994, 1e-5),
    "acos": (0.5, 0.50000006, 0.99999994, 1e-5, -0.99999994), "atan": (0.41421357, 2.4142137, 1e-5, 1e8),
    "sinh": (22.0, 88.8, 89.5, 710.4, 1e-5), "cosh": (22.0, 88.8, 89.5, 710.4, 1e-5), "asinh": (2.0**28, 1e-5, 1e19),
    "acosh": (1.0000001, 2.0**28, 1e19), "atanh": (0.99999994, 1e-5, 0.5), "expm1": (-0.3, 0.35, 1.05, 1e-5, 41.0),
    "exp10": (38.5, -38.0, -45.1, 308.3, -323.4, 2.0), "log10": (1000.0, 1e-40, 0.99, 1.01), "log1p": (1e-5, -0.9999),
    "cbrt": (27.0, 1e-40, 1e30), "pow": (0.99, 1.01, 2.0**24, -3.0, 0.33), "hypot": (1e30, 1e-30, 1e200, 1e-200),
    "tanh": (1e-4, 0.25, 0.55, 4.9, 9.01, 19.1, 22.0), "erf": (1e-4, 0.25, 0.84375, 1.25, 2.85, 3.92, 5.9, 6.1),
}


@functools.cache
def operands(case):
    """Storage arrays of one length, a multiple of PER_PROGRAM."""
    arrays = edges.operand_lists(case.elements, extra=EXTRA.get(case.row, ()))
    if case.row in expected.ELEMENTARY:
        spread = np.random.default_rng(5).normal(0, 10, 80)
        arrays = [np.concatenate([a, fp.encode(spread, e)]) for a, e in zip(arrays, case.elements, strict=True)]
    padding = -len(arrays[0]) % PER_PROGRAM
    return [np.concatenate([a, a[:padding]]) for a in arrays]


def program(case):
    """A kernel that applies the row to all elements, PER_PROGRAM of them in each program."""
    def body(k, *pointers):
        start = k.one("mul", k.pid(), k.const(PER_PROGRAM))
        for shape in SHAPES:
            lanes = shape[0] if shape else 1
            at = k.one("add", k.splat(start, shape), k.iota(lanes)) if shape else start
            where = [k.one("ptr_add", k.splat(p, shape) if shape else p, at) for p in pointers]
            k.store(where[-1], k.one(case.row, *(k.load(w) for w in where[:-1]), **case.attrs))
            start = k.one("add", start, k.const(lanes))

    return module([ptr(t) for t in (*case.elements, case.result)], body)


def outcome(case, engine):
    arrays = operands(case)
    out = np.zeros(len(arrays[0]), storage_dtype(case.result))
    engines.ENGINES[engine](program(case), (len(out) // PER_PROGRAM,), [*arrays, out])
    return out


@functools.cache
def meaning(case):
    """The row's own meaning on the operands, as one program."""
    return evaluate(case.row, case.elements, [a[None] for a in operands(case)], **case.attrs)[0]


@functools.cache
def domain(case):
    """Where the row's result is defined; elsewhere engines may differ."""
    row, arrays = TABLE[case.row], operands(case)
    if row.domain is None:
        return np.ones(len(arrays[0]), bool)
    return row.domain(Call(arrays, case.elements, [case.result], case.attrs, (), None))


def python_values(array, element):
    return (fp.decode(array, element) if compare.is_float(element) else array).tolist()


def by_bits(case):
    """The result's bit patterns of a row that moves bits, by integer arithmetic on patterns."""
    patterns = [bits_of(a).tolist() for a in operands(case)]
    sign = 1 << (8 * operands(case)[0].itemsize - 1)
    rule = {"select": lambda c, a, b: a if c else b, "bitcast": lambda a: a, "neg_f": lambda a: a ^ sign,
            "abs_f": lambda a: a & (sign - 1)}[case.row]
    return np.array([rule(*p) for p in zip(*patterns, strict=True)], f"u{storage_dtype(case.result).itemsize}")


def show_first(case, bad, got, want):
    i = int(np.flatnonzero(bad)[0])
    given = [python_values(a[i:i + 1], e)[0] for a, e in zip(operands(case), case.elements, strict=True)]
    return f"{int(bad.sum())} of {len(bad)} differ, first {case}({given}): {got[i]!r}, not {want[i]!r}"


@pytest.mark.parametrize("case", CASES, ids=str)
def test_meaning_is_exact(case):
    got = meaning(case)
    if case.row in expected.MOVES_BITS:
        want = by_bits(case)
        bad = bits_of(got) != want
        assert not bad.any(), show_first(case, bad, bits_of(got), want)
        return
    values = exact_values(case)
    if case.row in expected.ELEMENTARY:
        check_elementary(case, got, values)
        return
    want = [expected.rounded(v, case.result, case.attrs) for v in values]
    have = python_values(got, case.result)
    bad = np.array([not same_number(a, b) for a, b in zip(have, want, strict=True)])
    assert not bad.any(), show_first(case, bad, have, want)


def same_number(a, b):
    if isinstance(a, float):
        return (a != a and b != b) or (a == b and np.signbit(a) == np.signbit(b))
    return a == b


def exact_values(case):
    """The exact results, not yet rounded."""
    if case.row in expected.ELEMENTARY:
        pytest.importorskip("mpmath")
    rule = expected.statement(case.row, case.elements, case.result, case.attrs)
    assert rule is not None, f"tests/conform/expected.py says nothing of {case.row}"
    columns = [python_values(a, e) for a, e in zip(operands(case), case.elements, strict=True)]
    return [rule(*v) for v in zip(*columns, strict=True)]


def ulps_from_exact(case, got, values):
    return np.array([compare.ulps_from_exact(g, v, case.result.name)
                     for g, v in zip(python_values(got, case.result), values, strict=True)])


def check_elementary(case, got, values):
    """f32 is correctly rounded; f64 within half a unit plus what the C library's widest format leaves."""
    wide = np.finfo(np.longdouble).nmant > 60 and case.row != "erf"
    apart = ulps_from_exact(case, got, values)
    bad = apart > {"f32": 0.5 + 2.0**-20, "f64": 0.51 if wide else 1.5}[case.result.name]
    assert not bad.any(), show_first(case, bad, got, values) + f" ({max(apart)} ulp)"


@pytest.mark.parametrize("engine", engines.ENGINES)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_engine_gives_the_meaning(case, engine):
    refusal = engines.REFUSALS[engine].get(case.row)
    if refusal is not None:
        with pytest.raises(CompilationError, match=refusal):
            outcome(case, engine)
        return
    got, want, inside = outcome(case, engine), meaning(case), domain(case)
    row = TABLE[case.row]
    if engine == "batched":
        inside = np.ones_like(inside)       # it is the meaning, wherever it is defined or not
    if row.bound.exact or engine == "batched":
        bad = inside & ~compare.same(got, want, case.result, case.row in expected.MOVES_BITS)
    else:
        apart = ulps_from_exact(case, got, exact_values(case))
        bad = inside & (apart > engines.BOUNDS.get(engine, {}).get(case.row, row.bound.ulp))
        if case.row in engines.FLUSHES.get(engine, ()) and case.result == F32:
            bad &= ~((got == 0) & (np.abs(want) < np.finfo(np.float32).tiny))
    assert not bad.any(), show_first(case, bad, got, want)


def test_the_operands_hold_what_matters():
    """Both orders of the two zeros, infinities against NaN, and the limits of integers occur in the lists."""
    a, b = edges.operand_lists((F32, F32))
    pairs = set(zip(bits_of(a).tolist(), bits_of(b).tolist(), strict=True))
    zero, minus, inf, nan = 0, 1 << 31, 0x7F800000, 0x7FC00000
    assert {(zero, minus), (minus, zero), (inf, nan), (nan, inf), (inf, inf | minus), (zero, inf)} <= pairs
    a, b = edges.operand_lists((I32, I32))
    assert {(-2**31, -1), (-2**31, 0), (2**31 - 1, 2**31 - 1), (1, 32)} <= set(zip(a.tolist(), b.tolist(), strict=True))


def test_every_elementwise_row_has_a_case():
    assert {c.row for c in CASES} == {name for name, row in TABLE.items() if row.elementwise}
    assert len({str(c) for c in CASES}) == len(CASES) and len(CASES) > 400
    assert any(isinstance(c.result, Pointer) for c in CASES)
