"""What one element of a tile expression is at a group of neighbouring lanes, and arithmetic on that.

A loop nest evaluates a tile at `width` neighbouring indices at once.  A `Lane` says what the lanes hold:

* UNIFORM: one scalar, `value + offset`;
* AFFINE: lane k holds `value + offset + k * stride` (integers wrap in their width; pointers count bytes);
* VECTOR: `value` is a vector.

Addresses stay scalar as long as they are affine, so an affine tile becomes contiguous vector accesses.  `offset` is
kept apart from `value` so that unrolled copies differ in constants only.  `low` and `high` bound all lanes as exact
integers where that is known; `multiple`, a power of two, divides `value`.
Tests: tests/targets/cpu/test_lanes.py.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from tilewright.ir.types import I1, Element, Pointer, Scalar
from tilewright.targets.cpu.code import Code
from tilewright.targets.llvm import convert
from tilewright.targets.llvm.types import I64 as LLVM_I64
from tilewright.targets.llvm.types import PTR, Value, constant, constant_lanes, integer_value


class Form(enum.IntEnum):
    """How the lanes of a `Lane` relate."""

    UNIFORM = enum.auto()
    AFFINE = enum.auto()
    VECTOR = enum.auto()


class Lane(NamedTuple):
    """One element at a group of lanes (see the module's docstring).

    A tuple, since a kernel makes a thousand, and looks for them in dictionaries.
    """

    element: Element
    form: Form
    value: Value
    offset: int = 0
    stride: int = 0
    multiple: int = 1
    low: int | None = None
    high: int | None = None

    @property
    def is_uniform(self) -> bool:
        return self.form is Form.UNIFORM

    @property
    def is_vector(self) -> bool:
        return self.form is Form.VECTOR

    @property
    def known(self) -> int | None:
        """The integer that all lanes hold, if it is known now (an i1 is 0 or 1)."""
        if self.form is not Form.UNIFORM or (isinstance(self.element, Scalar) and self.element.is_float):
            return None
        base = integer_value(self.value)
        if base is None:
            return None
        if self.element == I1:
            return base & 1
        return wrap(base + self.offset, self.element)


def wrap(value: int, element: Element) -> int:
    """`value` in the signed range of an integer element."""
    half = 1 << (element.bits - 1)
    return (value + half) % (2 * half) - half


def integer(element: Element, value: int) -> Lane:
    """A known integer in all lanes."""
    if element == I1:
        return Lane(element, Form.UNIFORM, constant(convert.register_type(element), value))
    value = wrap(value, element)
    return Lane(element, Form.UNIFORM, constant(convert.register_type(element), 0), value, multiple=1 << 62, low=value,
                high=value)


def uniform(element: Element, value: Value) -> Lane:
    """A scalar in all lanes."""
    known = None if isinstance(element, Pointer) or element == I1 else integer_value(value)
    if known is not None and isinstance(element, Scalar) and element.is_int:
        return integer(element, known)
    return Lane(element, Form.UNIFORM, value)


def vector(element: Element, value: Value) -> Lane:
    """The lanes of an LLVM vector; at width one a scalar."""
    return Lane(element, Form.VECTOR, value) if value.type.lanes else uniform(element, value)


def _within(lane: Lane, low: int | None, high: int | None) -> Lane:
    """`lane` with static bounds, if they do not leave the type's range (then nothing is known)."""
    half = 1 << (lane.element.bits - 1)
    if low is None or high is None or low < -half or high >= half:
        low = high = None
    if (lane.low, lane.high) == (low, high):
        return lane
    return Lane(lane.element, lane.form, lane.value, lane.offset, lane.stride, lane.multiple, low, high)


def index(value: Value, offset: int, stride: int, multiple: int, low: int, high: int) -> Lane:
    """A loop index as i64 lanes."""
    return Lane(Scalar("i64"), Form.AFFINE if stride else Form.UNIFORM, value, offset, stride, multiple, low, high)


class LaneMath:
    """Operations on lanes that keep them scalar and affine; each returns None when it cannot."""

    def __init__(self, code: Code, width: int) -> None:
        self.code = code
        self.width = width

    @property
    def llvm_lanes(self) -> int:
        """Lanes of an LLVM vector type of this width (0: a scalar)."""
        return self.width if self.width > 1 else 0

    def scalar(self, lane: Lane) -> Value:
        """The first lane as a scalar value, offset included (of UNIFORM: every lane)."""
        code = self.code
        if lane.form is Form.VECTOR:
            return code.extract(lane.value, 0)
        if lane.offset == 0:
            return lane.value
        if isinstance(lane.element, Pointer):
            return code.emit(PTR, f"getelementptr i8, {lane.value}, i64 {lane.offset}")
        return code.fold("add", lane.value, constant(lane.value.type, lane.offset))

    def full(self, lane: Lane) -> Value:
        """All lanes as a vector value (a scalar at width one)."""
        code = self.code
        if lane.form is Form.VECTOR or self.width == 1:
            return lane.value if lane.form is Form.VECTOR else self.scalar(lane)
        splat = code.splat(self.scalar(lane), self.width)
        if lane.form is Form.UNIFORM:
            return splat
        pointer = isinstance(lane.element, Pointer)
        t = LLVM_I64.element if pointer else lane.value.type.element
        steps = constant_lanes(t, [wrap(k * lane.stride, lane.element) for k in range(self.width)])
        if pointer:
            return code.emit(splat.type, f"getelementptr i8, {splat}, {steps}")
        return code.op("add", splat, steps)

    def add(self, a: Lane, b: Lane, subtract: bool = False) -> Lane | None:
        """a + b or a - b on integers."""
        if a.is_vector or b.is_vector or a.element == I1:
            return None
        sign = -1 if subtract else 1
        value = self.code.fold("sub" if subtract else "add", a.value, b.value)
        step = a.stride + sign * b.stride
        stride = wrap(step, a.element)
        result = Lane(a.element, Form.AFFINE if stride else Form.UNIFORM, value,
                      wrap(a.offset + sign * b.offset, a.element), stride, _common(a.multiple, b.multiple))
        if None in (a.low, a.high, b.low, b.high) or stride != step:     # then lanes differ by more than `stride`
            return result
        assert a.low is not None and a.high is not None and b.low is not None and b.high is not None
        if subtract:
            return _within(result, a.low - b.high, a.high - b.low)
        return _within(result, a.low + b.low, a.high + b.high)

    def mul(self, a: Lane, b: Lane) -> Lane | None:
        """a * b on integers, when both are uniform or one is known."""
        if a.is_vector or b.is_vector or a.element == I1:
            return None
        if b.known is None:
            a, b = b, a
        factor = b.known
        if factor is None:
            if not (a.is_uniform and b.is_uniform):
                return None
            return uniform(a.element, self.code.fold("mul", self.scalar(a), self.scalar(b)))
        value = self.code.fold("mul", a.value, constant(a.value.type, factor))
        step = a.stride * factor
        stride = wrap(step, a.element)
        result = Lane(a.element, Form.AFFINE if stride else Form.UNIFORM, value, wrap(a.offset * factor, a.element),
                      stride, min(a.multiple * (factor & -factor or 1), 1 << 62))
        if a.low is None or a.high is None or stride != step:
            return result
        return _within(result, min(a.low * factor, a.high * factor), max(a.low * factor, a.high * factor))

    def advance(self, pointer: Lane, offset: Lane, size: int) -> Lane:
        """`pointer` plus `offset` (i64) elements of `size` bytes."""
        code = self.code
        if pointer.is_vector or offset.is_vector:
            base, steps = self.full(pointer), self.full(offset)
            return vector(pointer.element, code.emit(base.type, f"getelementptr [{size} x i8], {base}, {steps}"))
        value = pointer.value
        if integer_value(offset.value) != 0:
            value = code.emit(PTR, f"getelementptr [{size} x i8], {value}, {offset.value}")
        stride = pointer.stride + size * offset.stride
        return Lane(pointer.element, Form.AFFINE if stride else Form.UNIFORM, value,
                    pointer.offset + size * offset.offset, stride)

    def widen(self, lane: Lane, element: Element, signed: bool = True, trusted: bool = False) -> Lane | None:
        """Sign or zero extension to `element`.

        Exact: affine lanes need bounds that show that no lane wraps.  `trusted` asks for none: the caller has the
        launch's promise that offsets do not wrap (docs/design.md, Launch facts).
        """
        if lane.is_vector or lane.element == I1:
            return None
        bounded = lane.low is not None and (signed or lane.low >= 0)
        if not (lane.is_uniform or bounded or (trusted and signed)):
            return None
        t, known = convert.register_type(element), lane.known
        if known is not None:
            return integer(element, known if signed else known % (1 << lane.element.bits))
        if integer_value(lane.value) is not None:
            first = wrap((integer_value(lane.value) or 0) + lane.offset, lane.element)
            return lane._replace(element=element, value=constant(t, 0), offset=first)
        # `value` by itself does not wrap either when it is the difference of two numbers of one sign
        apart = lane.offset == 0 or trusted or (bounded and (lane.low or 0) >= 0 and lane.offset >= 0)
        if apart:
            return lane._replace(element=element, value=self.code.cast("sext" if signed or bounded else "zext",
                                                                       lane.value, t))
        value = self.code.cast("sext" if signed else "zext", self.scalar(lane), t)
        return lane._replace(element=element, value=value, offset=0, multiple=1)

    def narrow(self, lane: Lane, element: Element) -> Lane | None:
        """Truncation to a narrower integer (not i1)."""
        if lane.is_vector or element == I1:
            return None
        known = integer_value(lane.value)
        t = convert.register_type(element)
        value = self.code.cast("trunc", lane.value, t) if known is None else constant(t, known)
        stride = wrap(lane.stride, element)
        result = Lane(element, Form.AFFINE if stride else Form.UNIFORM, value, wrap(lane.offset, element), stride,
                      lane.multiple)
        return _within(result, lane.low, lane.high) if stride == lane.stride else result

    def divide(self, lane: Lane, divisor: int) -> tuple[Lane, Lane] | None:
        """Quotient and remainder of lanes known to be >= 0 by a known divisor, when all lanes have one quotient."""
        if divisor <= 0 or lane.is_vector or lane.low is None or lane.high is None or lane.low < 0:
            return None
        if lane.high < divisor:
            return integer(lane.element, 0), lane
        base = integer_value(lane.value)
        span = lane.stride * (self.width - 1) if lane.form is Form.AFFINE else 0
        if base is not None:
            first = wrap(base + lane.offset, lane.element)
            if first // divisor != (first + span) // divisor:
                return None
            quotient = integer(lane.element, first // divisor)
        else:
            whole = _common(lane.multiple, divisor)       # value + offset is offset modulo this
            inside = lane.offset % whole
            if not lane.is_uniform and (span < 0 or inside + span >= whole):
                return None
            first_value = self.scalar(lane)
            number = constant(first_value.type, divisor)
            quotient = uniform(lane.element, self.code.op("udiv", first_value, number))._replace(
                low=lane.low // divisor, high=lane.high // divisor)
        product = self.mul(quotient, integer(lane.element, divisor))
        remainder = self.add(lane, product, subtract=True) if product is not None else None
        if remainder is None:
            return None
        multiple = _common(lane.multiple, divisor) if base is None else remainder.multiple
        return quotient, remainder._replace(low=0, high=divisor - 1, multiple=multiple)


def _common(a: int, b: int) -> int:
    """The largest power of two that divides both (a and b are not 0)."""
    both = a | b
    return both & -both
