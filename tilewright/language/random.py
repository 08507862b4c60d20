"""`tl.random`: counter-based random numbers, Philox 4x32-10 and 4x64 (semantics §9).

J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.  The same
(seed, offset) gives the same number on every engine.  Tests: tests/lang/test_random.py.
"""

from __future__ import annotations

from typing import Any

from tilewright.language import math, operators
from tilewright.language.broadcasting import broadcast_all
from tilewright.language.builder import Builder
from tilewright.language.builtin import builtin
from tilewright.language.casting import bitcast, cast
from tilewright.language.comparison import compare, where
from tilewright.language.elementwise import maximum_of
from tilewright.language.errors import LanguageTypeError, LanguageValueError
from tilewright.language.tensor import tensor
from tilewright.language.tuples import tuple as language_tuple
from tilewright.language.types import dtype, float32, int32, int64, uint32, uint64
from tilewright.language.values import constant, emit, full_of, known_int, refuse_pointer, shape, to_tensor

N_ROUNDS_DEFAULT = 10
# multipliers of words 0 and 2, increments of the two key words, by the width of a word (Salmon et al., table 2)
_CONSTANTS = {
    32: (0xD2511F53, 0xCD9E8D57, 0x9E3779B9, 0xBB67AE85),
    64: (0xD2E7470EE14C6C93, 0xCA5A826395121157, 0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B),
}
# the largest scale by which every signed int32 magnitude gives a float below 1 (2**-31, rounded down a little)
_UNIFORM_SCALE_32 = 4.6566127342e-10
_UNIFORM_SCALE_64 = 1.0842020432385337e-19


def _rounds(value: Any) -> int:
    rounds = known_int(value, "n_rounds")
    if rounds < 1:
        raise LanguageValueError(f"n_rounds must be 1 or more, not {rounds}")
    return rounds


def philox_rounds(builder: Builder, counters: list[tensor], keys: list[tensor], rounds: int) -> list[tensor]:
    """`rounds` rounds of Philox on four words of one unsigned type, under two key words."""
    counters = broadcast_all(builder, [*counters, *keys])[:4]
    c0, c1, c2, c3 = counters
    k0, k1 = broadcast_all(builder, [*keys, c0])[:2]
    word = c0.dtype
    assert isinstance(word, dtype)
    multiplier_a, multiplier_b, step_a, step_b = (
        full_of(builder, value, word, shape(c0)) for value in _CONSTANTS[word.int_bitwidth])

    def op(name: str, a: tensor, b: tensor) -> tensor:
        return emit(builder, name, (a, b), a.type)

    for _ in range(rounds):
        high_b, low_b = op("mulhi_u", c2, multiplier_b), op("mul", c2, multiplier_b)
        high_a, low_a = op("mulhi_u", c0, multiplier_a), op("mul", c0, multiplier_a)
        c0, c1, c2, c3 = op("xor", op("xor", high_b, c1), k0), low_b, op("xor", op("xor", high_a, c3), k1), low_a
        k0, k1 = op("add", k0, step_a), op("add", k1, step_b)
    return [c0, c1, c2, c3]


@builtin
def philox_impl(c0: Any, c1: Any, c2: Any, c3: Any, k0: Any, k1: Any, n_rounds: Any = N_ROUNDS_DEFAULT, *,
                _builder: Builder) -> Any:
    """Rounds of Philox on the counter (c0, c1, c2, c3) under the key (k0, k1); the words' width is that of c0."""
    first = to_tensor(_builder, c0)
    word = _word_type(first)
    words = [cast(_builder, to_tensor(_builder, v), word) for v in (c0, c1, c2, c3, k0, k1)]
    return language_tuple(philox_rounds(_builder, words[:4], words[4:], _rounds(n_rounds)))


def _word_type(x: tensor) -> dtype:
    element = x.dtype
    if not (isinstance(element, dtype) and element.is_int() and element.int_bitwidth in (32, 64)):
        raise LanguageTypeError(f"a Philox counter is an integer of 32 or 64 bits, not {x}; cast the offsets to "
                                "tl.int32")
    return uint32 if element.int_bitwidth == 32 else uint64


@builtin
def philox(seed: Any, c0: Any, c1: Any, c2: Any, c3: Any, n_rounds: Any = N_ROUNDS_DEFAULT, *,
           _builder: Builder) -> Any:
    """Four random words of the counter (c0, c1, c2, c3): 32-bit words under the 64-bit `seed`, or 64-bit words."""
    words = [to_tensor(_builder, v) for v in (c0, c1, c2, c3)]
    word = _word_type(words[0])
    keys = _key(_builder, seed, word)
    return language_tuple(philox_rounds(_builder, [cast(_builder, w, word) for w in words], keys, _rounds(n_rounds)))


def _key(builder: Builder, seed: Any, word: dtype) -> list[tensor]:
    """The seed as key words: its low and high half, or itself and 0 for words of 64 bits."""
    wide = cast(builder, _integer(builder, seed, "seed"), uint64)
    if word == uint64:
        return [wide, full_of(builder, 0, uint64, shape(wide))]
    high = operators.bitwise(builder, "RShift", wide, 32)
    return [cast(builder, wide, uint32), cast(builder, high, uint32)]


def _integer(builder: Builder, value: Any, what: str) -> tensor:
    x = to_tensor(builder, value)
    refuse_pointer(x, f"`{what}`", "")
    if not (isinstance(x.dtype, dtype) and x.dtype.is_int()):
        raise LanguageTypeError(f"{what} must be an integer, not {x}")
    return x


def _random_words(builder: Builder, seed: Any, offset: Any, n_rounds: Any) -> list[tensor]:
    """Four uint32 words an offset; an offset wider than 32 bits fills two words of the counter."""
    x = _integer(builder, offset, "offset")
    assert isinstance(x.dtype, dtype)
    low = cast(builder, x, uint32)
    zero = full_of(builder, 0, uint32, shape(x))
    high = zero
    if x.dtype.int_bitwidth > 32:
        high = cast(builder, operators.bitwise(builder, "RShift", x, 32), uint32)
    return philox_rounds(builder, [low, high, zero, zero], _key(builder, seed, uint32), _rounds(n_rounds))


@builtin
def randint4x(seed: Any, offset: Any, n_rounds: Any = N_ROUNDS_DEFAULT, *, _builder: Builder) -> Any:
    """Four tiles of random uint32 for one tile of offsets, a tuple: the cheapest way to get random numbers.

    `seed` is an integer scalar, `offset` integers of 32 or 64 bits, in any shape, which the results have.  Philox4x32
    under the key `seed` (64 bits), the counter being the offset.
    """
    return language_tuple(_random_words(_builder, seed, offset, n_rounds))


@builtin
def randint(seed: Any, offset: Any, n_rounds: Any = N_ROUNDS_DEFAULT, *, _builder: Builder) -> tensor:
    """Random uint32, one an offset: the first result of `tl.randint4x`."""
    return _random_words(_builder, seed, offset, n_rounds)[0]


def uniform(builder: Builder, x: tensor) -> tensor:
    """Random bits of 32 or 64 as fp32 in [0, 1): the magnitude of the signed number, scaled."""
    word = _word_type(x)
    signed, scale = (int32, _UNIFORM_SCALE_32) if word == uint32 else (int64, _UNIFORM_SCALE_64)
    bits = bitcast(builder, x, signed)
    zero = constant(builder, 0, signed)
    magnitude = where(builder, compare(builder, "Lt", bits, zero), operators.invert(builder, bits), bits)
    return operators.add_sub_mul(builder, "Mult", cast(builder, magnitude, float32), scale)


@builtin
def uint_to_uniform_float(x: Any, *, _builder: Builder) -> tensor:
    """Random integers of 32 or 64 bits as fp32, uniform in [0, 1)."""
    return uniform(_builder, to_tensor(_builder, x))


@builtin
def rand(seed: Any, offset: Any, n_rounds: Any = N_ROUNDS_DEFAULT, *, _builder: Builder) -> tensor:
    """fp32, uniform in [0, 1), one an offset."""
    return uniform(_builder, _random_words(_builder, seed, offset, n_rounds)[0])


@builtin
def rand4x(seed: Any, offsets: Any, n_rounds: Any = N_ROUNDS_DEFAULT, *, _builder: Builder) -> Any:
    """Four tiles of fp32, uniform in [0, 1), for one tile of offsets."""
    return language_tuple(uniform(_builder, w) for w in _random_words(_builder, seed, offsets, n_rounds))


def normal_pair(builder: Builder, u1: tensor, u2: tensor) -> tuple[tensor, tensor]:
    """Two independent normal numbers of two uniform ones (Box and Muller, 1958)."""
    safe = maximum_of(builder, "max", 1.0e-7, u1)
    angle = operators.add_sub_mul(builder, "Mult", u2, 6.283185307179586)
    log = math.log.call(builder, (safe,))
    radius = math.sqrt.call(builder, (operators.add_sub_mul(builder, "Mult", log, -2.0),))
    cosine, sine = math.cos.call(builder, (angle,)), math.sin.call(builder, (angle,))
    return (operators.add_sub_mul(builder, "Mult", radius, cosine),
            operators.add_sub_mul(builder, "Mult", radius, sine))


@builtin
def pair_uniform_to_normal(u1: Any, u2: Any, *, _builder: Builder) -> Any:
    """Two tiles of uniform fp32 in [0, 1) as two tiles of normal numbers of mean 0 and deviation 1."""
    return language_tuple(normal_pair(_builder, to_tensor(_builder, u1), to_tensor(_builder, u2)))


@builtin
def randn(seed: Any, offset: Any, n_rounds: Any = N_ROUNDS_DEFAULT, *, _builder: Builder) -> tensor:
    """Normal fp32 of mean 0 and deviation 1, one an offset (Box and Muller, of the first two words)."""
    first, second, *_ = _random_words(_builder, seed, offset, n_rounds)
    return normal_pair(_builder, uniform(_builder, first), uniform(_builder, second))[0]


@builtin
def randn4x(seed: Any, offset: Any, n_rounds: Any = N_ROUNDS_DEFAULT, *, _builder: Builder) -> Any:
    """Four tiles of normal fp32 of mean 0 and deviation 1 for one tile of offsets."""
    words = [uniform(_builder, w) for w in _random_words(_builder, seed, offset, n_rounds)]
    return language_tuple((*normal_pair(_builder, words[0], words[1]), *normal_pair(_builder, words[2], words[3])))
