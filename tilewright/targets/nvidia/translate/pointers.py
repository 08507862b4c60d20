"""Addresses, and LLVM's own loads and stores: places on the stack, and constants.

An address of 64 bits is a register plus a constant (`Body.sums`), which memory instructions take as one operand.
A place on the stack is known by its address in local memory; who else asks gets its generic one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tilewright.targets.nvidia.translate.body import BITS, PREFIXES, Body, Operand, UntranslatableError
from tilewright.targets.nvidia.translate.integers import add, plus, times

DEPOT = "__local_depot"
# ptxas makes registers of smaller arrays, and comparisons with each number of an index (13.5.37, 2026-11-30).
_NOT_IN_REGISTERS = 128
_ALLOCA = re.compile(r"alloca (\w+), i64 (\d+), align (\d+)$")
_LOAD = re.compile(r"load (\w+), ptr (\S+), align (\d+)$")
_STORE = re.compile(r"store (\w+) (\S+), ptr (\S+), align (\d+)$")
_OFFSETS = range(-1 << 31, 1 << 31)


def element_pointer(body: Body, words: Sequence[str]) -> Operand:
    """`%v = getelementptr float, ptr %a, i64 %b`, given as words."""
    element, t, base, kind, index = words[-5:]
    if t != "ptr" or kind != "i64" or len(words) > 9:
        raise UntranslatableError(" ".join(words))
    size = max(1, BITS[element[:-1]] // 8)
    return moved(body, address_of(body, base[:-1]), body.get(index, "i64"), size)


def moved(body: Body, base: Operand, index: Operand, size: int) -> Operand:
    """`base` plus `index` times `size`."""
    if type(index) is str:
        inner, number = body.sums.get(index) or (index, 0)
        scaled = times(body, "i64", inner, size)
        total = add(body, "i64", base, scaled)
        if type(base) is str and base in body.local:
            body.local.add(total)
        number *= size
    else:
        total, number = base, index * size
    if type(total) is int:
        return total + number
    result = plus(body, "i64", total, number) if number else total
    if total in body.local:
        body.local.add(result)
    return result


def address_of(body: Body, token: str) -> Operand:
    """What a pointer operand is, a global variable's name included."""
    if not token.startswith("@"):
        return body.get(token, "ptr")
    return symbol(body, token[1:])


def symbol(body: Body, name: str) -> str:
    """The generic address of a global variable."""
    if name not in body.symbols:
        raise UntranslatableError(f"@{name}")
    return body.pure("%rd", "cvta.global.u64", body.pure("%rd", "mov.b64", name))


def spelled(body: Body, address: Operand) -> tuple[str, str]:
    """What stands between the brackets of a memory instruction, and the register in it."""
    if type(address) is not str:
        raise UntranslatableError(f"an access at {address!r}")
    base, number = body.sums.get(address) or (address, 0)
    return (f"{base}+{number}", base) if number and number in _OFFSETS else (address, address)


# --- the stack


def allocate(body: Body, line: str) -> Operand:
    """`alloca float, i64 4, align 4`."""
    found = _ALLOCA.match(line)
    if found is None:
        raise UntranslatableError(line)
    align = max(int(found[3]), 1)
    if align > 8:
        raise UntranslatableError(line)
    name = f"{DEPOT}{len(body.stack)}"
    size = max(int(found[2]) * max(1, BITS[found[1]] // 8), _NOT_IN_REGISTERS)
    body.stack.append(f".local .align {align} .b8 {name}[{size}];")
    place = body.pure("%rd", "mov.b64", name)
    body.local.add(place)
    return place


def generic(body: Body, operand: Operand) -> Operand:
    """An operand that leaves this module's hands."""
    if type(operand) is str and operand in body.local:
        return body.pure("%rd", "cvta.local.u64", operand)
    return operand


def load(body: Body, line: str) -> Operand:
    """`load float, ptr %p, align 4`."""
    found = _LOAD.match(line)
    if found is None or found[1] not in PREFIXES:
        raise UntranslatableError(line)
    address, space = _where(body, found[2])
    text, base = spelled(body, address)
    t = found[1]
    prefix = PREFIXES[t] if t != "i1" else "%rs"
    result = body.fresh(prefix)
    bits = max(8, BITS[t])
    body.statement((result,), f"ld{space}.b{bits} \t%s, [%s];", (result, text), False, (base,))
    if bits == 8:
        body.ones[result] = 255
    if t == "i1":
        flag = body.pure("%p", "setp.ne.b16", body.pure("%rs", "and.b16", result, 1), 0)
        return flag
    return result


def store(body: Body, line: str) -> None:
    """`store float %v, ptr %p, align 4`."""
    found = _STORE.match(line)
    if found is None or found[1] not in PREFIXES:
        raise UntranslatableError(line)
    address, space = _where(body, found[3])
    text, base = spelled(body, address)
    t = found[1]
    value = generic(body, body.get(found[2], t))
    if t == "i1":
        value = body.pure("%rs", "selp.b16", 1, 0, value) if type(value) is str else value & 1
    value = body.register(value, "%rs" if t == "i1" else PREFIXES[t])
    bits = max(8, BITS[t])
    body.statement((), f"st{space}.b{bits} \t[%s], %s;", (text, value), True, (base, value))


def _where(body: Body, token: str) -> tuple[Operand, str]:
    address = address_of(body, token)
    return address, ".local" if type(address) is str and address in body.local else ""


