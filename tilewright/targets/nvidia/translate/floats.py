"""Float arithmetic and comparisons: rounded to nearest, nothing fused, nothing flushed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.targets.nvidia.translate.body import PREFIXES, Body, Operand, UntranslatableError
from tilewright.targets.nvidia.translate.casts import written
from tilewright.targets.nvidia.translate.integers import set_flag

_KINDS = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64"}
_ROUNDED = {"fadd": "add.rn", "fsub": "sub.rn", "fmul": "mul.rn", "fdiv": "div.rn"}
_TESTS = {"oeq": "eq", "ogt": "gt", "oge": "ge", "olt": "lt", "ole": "le", "one": "ne", "ord": "num",
          "ueq": "equ", "ugt": "gtu", "uge": "geu", "ult": "ltu", "ule": "leu", "une": "neu", "uno": "nan"}


def operand(body: Body, token: str, t: str) -> Operand:
    """A float operand as PTX writes it; constants of 16 bits are in registers."""
    value = body.get(token, t)
    if type(value) is int and PREFIXES[t] == "%rs":
        return body.register(value, "%rs")
    return written(value, t)


def binary(body: Body, words: Sequence[str]) -> Operand:
    """`%v = fadd float %a, %b`, given as words."""
    t = words[-3]
    if t not in _KINDS or (t in ("half", "bfloat") and words[2] == "fdiv"):
        raise UntranslatableError(" ".join(words))
    a, b = operand(body, words[-2][:-1], t), operand(body, words[-1], t)
    return body.pure(PREFIXES[t], f"{_ROUNDED[words[2]]}.{_KINDS[t]}", a, b)


def negate(body: Body, words: Sequence[str]) -> Operand:
    """`%v = fneg float %a`, given as words."""
    t = words[3]
    if t not in ("float", "double") or len(words) != 5:
        raise UntranslatableError(" ".join(words))
    return body.pure(PREFIXES[t], f"neg.{_KINDS[t]}", operand(body, words[4], t))


def compare(body: Body, words: Sequence[str]) -> Operand:
    """`%v = fcmp olt float %a, %b`, given as words."""
    t = words[-3]
    if t not in ("float", "double"):
        raise UntranslatableError(" ".join(words))
    a, b = operand(body, words[-2][:-1], t), operand(body, words[-1], t)
    return set_flag(body, _TESTS[words[3]], _KINDS[t], a, b)


FUNCTIONS: Mapping[str, str] = {     # of one operand, or several: what follows is the type
    "fabs": "abs", "fma": "fma.rn", "sqrt": "sqrt.rn", "minnum": "min", "maxnum": "max",
    "minimum": "min.NaN", "maximum": "max.NaN", "minimumnum": "min", "maximumnum": "max",
    "floor": "cvt.rmi", "ceil": "cvt.rpi", "trunc": "cvt.rzi", "rint": "cvt.rni", "nearbyint": "cvt.rni",
    "roundeven": "cvt.rni",
}


def function(body: Body, name: str, t: str, tokens: Sequence[str]) -> Operand:
    """An intrinsic of `FUNCTIONS`."""
    opcode = FUNCTIONS[name]
    if t not in ("float", "double") or (t == "double" and opcode.startswith(("min", "max"))):
        raise UntranslatableError(f"{name} {t}")
    kind = _KINDS[t]
    suffix = f"{kind}.{kind}" if opcode.startswith("cvt") else kind
    return body.pure(PREFIXES[t], f"{opcode}.{suffix}", *(operand(body, token, t) for token in tokens))
