"""Calls of LLVM's intrinsics and of the device's printf."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from tilewright.targets.nvidia.translate import floats
from tilewright.targets.nvidia.translate.body import BITS, PREFIXES, Body, Operand, UntranslatableError
from tilewright.targets.nvidia.translate.conditions import extremum
from tilewright.targets.nvidia.translate.integers import or_, shift_left, shift_right
from tilewright.targets.nvidia.translate.pointers import generic, symbol

_CALL = re.compile(r"call (?:\w+ )*?(\w+) @([\w.]+)\((.*)\)(?: \w+)*$")
_TYPES = {"f32": "float", "f64": "double", "f16": "half", "bf16": "bfloat"}
_EXTREMA = ("smin", "smax", "umin", "umax")


def call(body: Body, text: str) -> Operand:
    """`call i32 @llvm.smin.i32(i32 %a, i32 %b)`; None without a result."""
    found = _CALL.match(text)
    if found is None:
        raise UntranslatableError(text)
    _, name, listed = found.groups()
    if name == "vprintf":
        return _print(body, listed)
    arguments = [(t, token) for t, _, token in (a.partition(" ") for a in listed.split(", "))] if listed else []
    if name.startswith("llvm.nvvm."):
        return _machine(body, name[10:], arguments)
    _, _, rest = name.partition("llvm.")
    what, _, suffix = rest.rpartition(".")
    t = _TYPES.get(suffix, suffix)
    if t not in PREFIXES:
        raise UntranslatableError(name)
    if what in floats.FUNCTIONS:
        return floats.function(body, what, t, [token for _, token in arguments])
    operands = [body.get(token, kind) for kind, token in arguments]
    if what in _EXTREMA:
        return extremum(body, t, what, *operands)
    handler = _FUNCTIONS.get((what, t))
    if handler is None:
        raise UntranslatableError(name)
    return handler(body, t, operands)


# --- functions of numbers


def _single(opcode: str) -> Callable[[Body, str, Sequence[Operand]], Operand]:
    def handler(body: Body, t: str, operands: Sequence[Operand]) -> Operand:
        return body.pure(PREFIXES[t], opcode, operands[0])

    return handler


def _count(opcode: str) -> Callable[[Body, str, Sequence[Operand]], Operand]:
    """A count of bits: PTX gives it in 32."""
    def handler(body: Body, t: str, operands: Sequence[Operand]) -> Operand:
        count = body.pure("%r", opcode, operands[0])
        body.ones[count] = 2 * BITS[t] - 1
        if t == "i32":
            return count
        wide = body.pure("%rd", "cvt.u64.u32", count)
        body.widened[wide], body.ones[wide] = (count, "n"), 2 * BITS[t] - 1
        return wide

    return handler


def _trailing(body: Body, t: str, operands: Sequence[Operand]) -> Operand:
    bits = BITS[t]
    return _count(f"clz.b{bits}")(body, t, [body.pure(PREFIXES[t], f"brev.b{bits}", operands[0])])


def _funnel(left: bool) -> Callable[[Body, str, Sequence[Operand]], Operand]:
    """fshl, fshr of 64 bits by less than 64, as two shifts; by none the first (or second) operand itself."""
    def handler(body: Body, t: str, operands: Sequence[Operand]) -> Operand:
        high, low, amount = operands
        if type(amount) is not int or not 0 < amount < 64:
            raise UntranslatableError("a funnel shift")
        up, down = (amount, 64 - amount) if left else (64 - amount, amount)
        return or_(body, t, shift_left(body, t, high, up), shift_right(body, t, low, down))

    return handler


_FUNCTIONS: Mapping[tuple[str, str], Callable[[Body, str, Sequence[Operand]], Operand]] = {
    ("abs", "i32"): _single("abs.s32"), ("abs", "i64"): _single("abs.s64"),
    ("bitreverse", "i32"): _single("brev.b32"), ("bitreverse", "i64"): _single("brev.b64"),
    ("ctpop", "i32"): _count("popc.b32"), ("ctpop", "i64"): _count("popc.b64"),
    ("ctlz", "i32"): _count("clz.b32"), ("ctlz", "i64"): _count("clz.b64"),
    ("cttz", "i32"): _trailing, ("cttz", "i64"): _trailing,
    ("fshl", "i64"): _funnel(True), ("fshr", "i64"): _funnel(False),
}


# --- the machine

_SPECIAL = "read.ptx.sreg."
_SHUFFLE = re.compile(r"shfl\.sync\.(\w+)\.i32$")


def _machine(body: Body, name: str, arguments: Sequence[tuple[str, str]]) -> Operand:
    if name.startswith(_SPECIAL):
        return _special(body, name[len(_SPECIAL):])
    operands = [body.get(token, t) for t, token in arguments]
    shuffle = _SHUFFLE.match(name)
    if shuffle is not None:
        mask, value, lane, clamp = operands
        return _effect(body, "%r", f"shfl.sync.{shuffle[1]}.b32 \t%s, %s, %s, %s, %s;", (value, lane, clamp, mask))
    if name == "barrier.cta.sync.aligned.all":
        return _effect(body, "", "bar.sync \t%s;", tuple(operands))
    if name == "bar.warp.sync":
        return _effect(body, "", "bar.warp.sync \t%s;", tuple(operands))
    if name == "barrier.cta.red.and.aligned.all":
        return _effect(body, "%p", "bar.red.and.pred \t%s, %s, %s;", (operands[0], body.register(operands[1], "%p")))
    if name == "vote.all.sync":
        return _effect(body, "%p", "vote.sync.all.pred \t%s, %s, %s;", (body.register(operands[1], "%p"), operands[0]))
    raise UntranslatableError(name)


def _special(body: Body, name: str) -> str:
    result = body.pure("%r", "mov.u32", f"%{name}")
    body.ones[result] = (1 << (body.threads - 1).bit_length()) - 1 if name == "tid.x" else (1 << 31) - 1
    if name.startswith(("nctaid", "ntid")):
        body.positive.add(result)
    return result


def _effect(body: Body, prefix: str, template: str, operands: tuple[Operand, ...]) -> Operand:
    results = (body.fresh(prefix),) if prefix else ()
    body.statement(results, template, results + operands, True, operands)
    return results[0] if results else None


# --- printf

_PRINT = re.compile(r"ptr addrspacecast \(ptr addrspace\(1\) @(\w+) to ptr\), ptr (%\S+)$")
_CALL_OF_PRINT = ("{{ .param .b64 param0; .param .b64 param1; .param .b32 retval0; st.param.b64 [param0], {}; "
                  "st.param.b64 [param1], {}; call.uni (retval0), vprintf, (param0, param1); }}").format("%s", "%s")


def _print(body: Body, listed: str) -> Operand:
    found = _PRINT.match(listed)
    if found is None:
        raise UntranslatableError(listed)
    operands = symbol(body, found[1]), generic(body, body.get(found[2], "ptr"))
    body.statement((), _CALL_OF_PRINT, operands, True, operands)
    return 0


