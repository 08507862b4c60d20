"""Transfer rules of the axis analysis, one an op (`axis_info` says what the facts mean, `axis` what wrapping does).

A rule gets the analysis, which knows the facts of operands and their intervals, and the op.  None: nothing is known.
Tests: tests/analysis/, which also checks the facts against values that the interpreter computes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from math import gcd, lcm
from typing import Protocol

from tilewright.analysis.axis_info import AxisInfo, join, of_scalar, power_of_two_in, stride_of
from tilewright.ir.node import Op, Value
from tilewright.ir.types import element_of, shape_of


class Facts(Protocol):
    """What a rule may ask of the analysis."""

    def fact(self, value: Value) -> AxisInfo: ...
    def relevant(self, value: Value) -> bool: ...
    def no_wrap(self, value: Value) -> bool: ...
    def not_negative(self, value: Value) -> bool: ...
    def bounds(self, value: Value) -> tuple[int, int]: ...
    def widened_runs(self, value: Value, as_unsigned: bool) -> tuple[int, ...]: ...
    def address_runs(self, offset: Value) -> tuple[int, ...]: ...


Rule = Callable[[Facts, Op], AxisInfo | None]


def pointwise(facts: Sequence[AxisInfo], stride: int = 1, divisor: int = 1) -> AxisInfo:
    """Equal operands give equal results, all that is known of any elementwise op; `divisor` divides all of them."""
    rank = facts[0].rank
    constancy = tuple(gcd(*(f.constancy[d] for f in facts)) for d in range(rank))
    return AxisInfo((1,) * rank, (divisor,) * rank, constancy, None, stride)


def _wrapped(facts: Facts, op: Op, divisor: int) -> int:
    """A divisor of the exact result as one of the result in its type."""
    return divisor if facts.no_wrap(op.result) else power_of_two_in(divisor)


def _operands(facts: Facts, op: Op) -> list[AxisInfo]:
    return [facts.fact(v) for v in op.operands]


# Sources


def _constant(facts: Facts, op: Op) -> AxisInfo:
    value = int(op.attrs["value"])
    return of_scalar(abs(value), op.result.type, value)


def _iota(facts: Facts, op: Op) -> AxisInfo:
    start, end = op.attrs["start"], op.attrs["end"]
    return AxisInfo((end - start,), (abs(start),), (1,))


def _hint(facts: Facts, op: Op) -> AxisInfo:
    """The promise of a multiple speaks of the first value of each contiguous run, as the facts do."""
    fact = facts.fact(op.operands[0])
    ones = (1,) * fact.rank
    fact = fact.with_runs(tuple(map(max, fact.contiguity, op.attrs["contiguous"] or ones)))
    return AxisInfo(fact.contiguity, tuple(map(lcm, fact.divisibility, op.attrs["divisible"] or ones)),
                    tuple(map(max, fact.constancy, op.attrs["constant"] or ones)), fact.constant, fact.stride)


def _load(facts: Facts, op: Op) -> AxisInfo | None:
    """Equal addresses give equal values: all lanes of a load are read at one time."""
    if not all(facts.relevant(v) for v in op.operands):
        return None
    return pointwise(_operands(facts, op), stride_of(op.result.type))


# Sums


def _sum(facts: Facts, op: Op, may_swap: bool) -> AxisInfo:
    """a + b, or a - b with `may_swap` false.  Along a run one operand advances and the other stays."""
    a, b = _operands(facts, op)
    runs, divisors = [], []
    for d in range(a.rank):
        run = gcd(a.contiguity[d], b.constancy[d])
        if may_swap:
            run = max(run, gcd(a.constancy[d], b.contiguity[d]))
        runs.append(run)
        divisors.append(_wrapped(facts, op, gcd(a.first_divisor(d, run), b.first_divisor(d, run))))
    return AxisInfo(tuple(runs), tuple(divisors), tuple(map(gcd, a.constancy, b.constancy)))


def _pointer_sum(facts: Facts, op: Op) -> AxisInfo:
    """As a sum; the offset counts elements, divisors of pointers bytes."""
    pointer, offset = facts.fact(op.operands[0]), facts.fact(op.operands[1])
    offset = offset.with_runs(facts.address_runs(op.operands[1]))
    runs, divisors = [], []
    for d in range(pointer.rank):
        run = max(gcd(pointer.contiguity[d], offset.constancy[d]), gcd(pointer.constancy[d], offset.contiguity[d]))
        runs.append(run)
        divisors.append(gcd(pointer.first_divisor(d, run), offset.first_divisor(d, run) * pointer.stride))
    constancy = tuple(map(gcd, pointer.constancy, offset.constancy))
    return AxisInfo(tuple(runs), tuple(divisors), constancy, None, pointer.stride)


def _or(facts: Facts, op: Op) -> AxisInfo:
    """A sum where one operand has no bit in common with the other; else both divisors' powers of two."""
    a, b = op.operands
    for low, high in ((a, b), (b, a)):
        least, most = facts.bounds(low)
        bit = power_of_two_in(facts.fact(high).divisor)
        if least >= 0 and (bit == 0 or most < bit):
            return _sum(facts, op, True)
    return pointwise(_operands(facts, op), 1, power_of_two_in(gcd(facts.fact(a).divisor, facts.fact(b).divisor)))


def _xor(facts: Facts, op: Op) -> AxisInfo:
    a, b = _operands(facts, op)
    return pointwise([a, b], 1, power_of_two_in(gcd(a.divisor, b.divisor)))


# Products and quotients


def _product(facts: Facts, op: Op) -> AxisInfo:
    a, b = _operands(facts, op)
    return pointwise([a, b], 1, _wrapped(facts, op, a.divisor * b.divisor))


def _shift_left(facts: Facts, op: Op) -> AxisInfo:
    a, b = _operands(facts, op)
    bits = element_of(op.result.type).bits
    scale = 1 << b.constant if b.constant is not None and 0 <= b.constant < bits else 1
    return pointwise([a, b], 1, _wrapped(facts, op, a.divisor * scale))


def _quotient(fact: AxisInfo, d: int, other: AxisInfo) -> AxisInfo:
    """Of x / d for a constant d > 0 and a division that rounds down where it is used.

    Runs of r values that start at a multiple of r, where r divides d, have one quotient.
    """
    plain = pointwise([fact, other], 1, fact.divisor // d if fact.divisor % d == 0 else 1)
    runs = tuple(gcd(c, g, d) for c, g in zip(fact.contiguity, fact.divisibility, strict=True))
    return AxisInfo(plain.contiguity, plain.divisibility, tuple(map(max, plain.constancy, runs)))


def _divide(facts: Facts, op: Op) -> AxisInfo:
    x, y = _operands(facts, op)
    d = y.constant
    if d is not None and d > 0 and facts.not_negative(op.operands[0]):
        return _quotient(x, d, y)
    return pointwise([x, y])


def _shift_right(facts: Facts, op: Op) -> AxisInfo:
    """Rounds down, signed (arithmetic) and unsigned (logical) alike; runs of a power of two do not cross a wrap."""
    x, y = _operands(facts, op)
    bits = element_of(op.result.type).bits
    if y.constant is None or not 0 <= y.constant < bits:
        return pointwise([x, y])
    found = _quotient(x, 1 << y.constant, y)
    if op.name == "shr_s" or facts.not_negative(op.operands[0]):
        return found
    # A negative number grows by a power of two before it is shifted.
    return AxisInfo(found.contiguity, tuple(map(power_of_two_in, found.divisibility)), found.constancy)


def _remainder_of(fact: AxisInfo, d: int, other: AxisInfo) -> AxisInfo:
    """Of x mod d, x not negative or d a power of two: runs that do not cross a multiple of d stay runs."""
    runs = tuple(gcd(c, g, d) for c, g in zip(fact.contiguity, fact.divisibility, strict=True))
    divisors = tuple(gcd(fact.first_divisor(i, r), d) for i, r in enumerate(runs))
    return AxisInfo(runs, divisors, tuple(map(gcd, fact.constancy, other.constancy)))


def _remainder(facts: Facts, op: Op) -> AxisInfo:
    """Of x by y: where y is one number (0, too: x remains), runs within what divides it stay runs."""
    x, y = _operands(facts, op)
    d = y.divisor if y.constant is None else y.constant
    if d > 0 and y.is_uniform(op.operands[1].type) and facts.not_negative(op.operands[0]):
        return _remainder_of(x, d, y)
    return pointwise([x, y])


def _and(facts: Facts, op: Op) -> AxisInfo:
    """With 2**k - 1 the remainder by 2**k; a mask with k low zeros clears those bits."""
    a, b = _operands(facts, op)
    if a.constant is not None:
        a, b = b, a
    mask = b.constant
    if mask is not None and mask > 0 and mask & (mask + 1) == 0 and element_of(op.result.type).bits > 1:
        return _remainder_of(a, mask + 1, b)
    powers = [power_of_two_in(a.divisor), power_of_two_in(b.divisor)]
    divisor = 0 if 0 in powers else max(powers)
    plain = pointwise([a, b], 1, divisor)
    if mask is None or mask == 0:
        return plain
    runs = tuple(gcd(c, g, power_of_two_in(mask)) for c, g in zip(a.contiguity, a.divisibility, strict=True))
    return AxisInfo(plain.contiguity, plain.divisibility, tuple(map(max, plain.constancy, runs)))


def _extreme(facts: Facts, op: Op) -> AxisInfo:
    """Minimum and maximum are one of the operands."""
    a, b = _operands(facts, op)
    return pointwise([a, b], 1, gcd(a.divisor, b.divisor))


def _negligible_sign(facts: Facts, op: Op) -> AxisInfo:
    """|x| (INT_MIN is a power of two and keeps only that part)."""
    fact = facts.fact(op.operands[0])
    return pointwise([fact], 1, _wrapped(facts, op, fact.divisor))


# Comparisons


def _compare(rising: int) -> Rule:
    """`x < n` and `x >= n` change only between runs of r, if x advances in them and r divides their first and n.

    `rising` is the operand that may advance: 0 for `<` and `>=`, 1 for `>` and `<=`.
    """

    def rule(facts: Facts, op: Op) -> AxisInfo:
        both = _operands(facts, op)
        x, n = both[rising], both[1 - rising]
        plain = pointwise(both)
        keeps_order = facts.no_wrap(op.operands[rising]) if op.name.endswith("_s") else all(
            map(facts.not_negative, op.operands))
        runs = []
        for d in range(x.rank):
            run = gcd(x.contiguity[d], x.divisibility[d], n.constancy[d], n.first_divisor(d, 1))
            # A run of a power of two, which starts at a multiple of it, does not cross a wrap.
            runs.append(run if keeps_order else power_of_two_in(run))
        return AxisInfo(plain.contiguity, plain.divisibility, tuple(map(max, plain.constancy, runs)))

    return rule


def _select(facts: Facts, op: Op) -> AxisInfo | None:
    condition, a, b = _operands(facts, op)
    if not facts.relevant(op.operands[1]):
        return None
    either = join(a, b)
    either = either.with_runs(tuple(map(gcd, either.contiguity, condition.constancy)))
    constancy = tuple(map(gcd, either.constancy, condition.constancy))
    return AxisInfo(either.contiguity, either.divisibility, constancy, either.constant, either.stride)


# Casts


def _is_flag(value: Value) -> bool:
    return element_of(value.type).bits == 1


def _extend(facts: Facts, op: Op) -> AxisInfo:
    x = op.operands[0]
    fact = facts.fact(x)
    if _is_flag(x):
        return pointwise([fact])
    as_unsigned = op.name == "ext_u" and not facts.not_negative(x)
    fact = fact.with_runs(facts.widened_runs(x, as_unsigned))
    if not as_unsigned:
        return fact
    # A negative number grows by a power of two.
    divisors = tuple(map(power_of_two_in, fact.divisibility))
    return AxisInfo(fact.contiguity, divisors, fact.constancy)


def _truncate(facts: Facts, op: Op) -> AxisInfo:
    """Modulo a power of two."""
    fact = facts.fact(op.operands[0])
    if _is_flag(op.result):
        return pointwise([fact])
    return AxisInfo(fact.contiguity, tuple(map(power_of_two_in, fact.divisibility)), fact.constancy)


def _same_address(facts: Facts, op: Op) -> AxisInfo | None:
    """A cast that keeps bits: of a pointer, to one, or between integers (floats have no facts)."""
    x = op.operands[0]
    if not facts.relevant(x):
        return None
    fact, stride = facts.fact(x), stride_of(op.result.type)
    if fact.stride != stride:
        fact = fact.with_runs((1,) * fact.rank)
    return AxisInfo(fact.contiguity, fact.divisibility, fact.constancy, fact.constant, stride)


# Rearranging


def _splat(facts: Facts, op: Op) -> AxisInfo:
    fact, shape = facts.fact(op.operands[0]), shape_of(op.result.type)
    ones = (1,) * len(shape)
    return AxisInfo(ones, (fact.divisor,) * len(shape), shape, fact.constant, fact.stride)


def _expand_dims(facts: Facts, op: Op) -> AxisInfo:
    fact, axis = facts.fact(op.operands[0]), op.attrs["axis"]
    if not shape_of(op.operands[0].type):
        return fact

    def inserted(values: tuple[int, ...], value: int) -> tuple[int, ...]:
        return (*values[:axis], value, *values[axis:])

    return AxisInfo(inserted(fact.contiguity, 1), inserted(fact.divisibility, fact.divisor),
                    inserted(fact.constancy, 1), fact.constant, fact.stride)


def _broadcast(facts: Facts, op: Op) -> AxisInfo:
    fact = facts.fact(op.operands[0])
    have, want = shape_of(op.operands[0].type), shape_of(op.result.type)
    grows = [h != w for h, w in zip(have, want, strict=True)]
    fact = fact.with_runs(tuple(1 if g else c for g, c in zip(grows, fact.contiguity, strict=True)))
    constancy = tuple(w if g else k for g, w, k in zip(grows, want, fact.constancy, strict=True))
    return AxisInfo(fact.contiguity, fact.divisibility, constancy, fact.constant, fact.stride)


def _permute(facts: Facts, op: Op) -> AxisInfo:
    fact, order = facts.fact(op.operands[0]), op.attrs["order"]

    def permuted(values: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(values[i] for i in order)

    return AxisInfo(permuted(fact.contiguity), permuted(fact.divisibility), permuted(fact.constancy), fact.constant,
                    fact.stride)


def _reshape(facts: Facts, op: Op) -> AxisInfo:
    """Dimensions stay where only ones come and go; else the last one keeps runs that fit the old and the new rows."""
    x = op.operands[0]
    fact, have, want = facts.fact(x), shape_of(x.type), shape_of(op.result.type)
    if not want or fact.is_uniform(x.type):
        ones = (1,) * max(1, len(want))
        return AxisInfo(ones, (fact.divisor,) * len(ones), want or ones, fact.constant, fact.stride)
    if [s for s in have if s > 1] == [s for s in want if s > 1]:
        return _with_ones(fact, have, want)
    last = len(have) - 1
    run = gcd(fact.contiguity[last], have[last], want[-1])
    constant_run = gcd(fact.constancy[last], have[last], want[-1])
    ones = (1,) * (len(want) - 1)
    return AxisInfo((*ones, run), (*(fact.divisor for _ in ones), fact.first_divisor(last, run)),
                    (*ones, constant_run), fact.constant, fact.stride)


def _with_ones(fact: AxisInfo, have: tuple[int, ...], want: tuple[int, ...]) -> AxisInfo:
    """The dimensions of size > 1 in order, the others with nothing but the divisor of all elements."""
    old = iter([d for d, size in enumerate(have) if size > 1])
    columns = []
    for size in want:
        if size == 1:
            columns.append((1, fact.divisor, 1))
        else:
            d = next(old)
            columns.append((fact.contiguity[d], fact.divisibility[d], fact.constancy[d]))
    runs, divisors, constancy = (tuple(c) for c in zip(*columns, strict=True))
    return AxisInfo(runs, divisors, constancy, fact.constant, fact.stride)


def _split(facts: Facts, op: Op) -> AxisInfo:
    """A slice at one index of the last dimension."""
    fact = facts.fact(op.operands[0])
    if fact.rank == 1:
        return of_scalar(fact.divisor, op.results[0].type, fact.constant)
    return AxisInfo(fact.contiguity[:-1], fact.divisibility[:-1], fact.constancy[:-1], fact.constant, fact.stride)


def _join(facts: Facts, op: Op) -> AxisInfo:
    a, b = op.operands
    either = join(facts.fact(a), facts.fact(b))
    if not shape_of(a.type):
        return AxisInfo((1,), (either.divisor,), (2 if a is b else 1,), either.constant, either.stride)
    return AxisInfo((*either.contiguity, 1), (*either.divisibility, either.divisor),
                    (*either.constancy, 2 if a is b else 1), either.constant, either.stride)


def _cat(facts: Facts, op: Op) -> AxisInfo:
    """Along the axis, runs must also end where the second tile begins."""
    either, axis = reduce(join, _operands(facts, op)), op.attrs["axis"]
    seam = shape_of(op.operands[0].type)[axis]

    def cut(values: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(gcd(v, seam) if d == axis else v for d, v in enumerate(values))

    either = either.with_runs(cut(either.contiguity))
    return AxisInfo(either.contiguity, either.divisibility, cut(either.constancy), either.constant, either.stride)


RULES: Mapping[str, Rule] = {
    "constant": _constant, "iota": _iota, "hint": _hint, "load": _load,
    **dict.fromkeys(("convert", "box"), lambda axis, op: axis.fact(op.operands[0])),
    "add": lambda facts, op: _sum(facts, op, True), "sub": lambda facts, op: _sum(facts, op, False),
    "ptr_add": _pointer_sum, "or": _or, "xor": _xor, "and": _and, "mul": _product, "shl": _shift_left,
    "div_s": _divide, "div_u": _divide, "shr_s": _shift_right, "shr_u": _shift_right,
    "rem_s": _remainder, "rem_u": _remainder, "min_s": _extreme, "max_s": _extreme, "min_u": _extreme,
    "max_u": _extreme, "abs_s": _negligible_sign,
    "cmp_lt_s": _compare(0), "cmp_ge_s": _compare(0), "cmp_lt_u": _compare(0), "cmp_ge_u": _compare(0),
    "cmp_gt_s": _compare(1), "cmp_le_s": _compare(1), "cmp_gt_u": _compare(1), "cmp_le_u": _compare(1),
    "select": _select, "ext_s": _extend, "ext_u": _extend, "trunc": _truncate, "bitcast": _same_address,
    "ptr_to_int": _same_address, "int_to_ptr": _same_address,
    "splat": _splat, "expand_dims": _expand_dims, "broadcast": _broadcast, "permute": _permute, "reshape": _reshape,
    "split": _split, "join": _join, "cat": _cat,
}
