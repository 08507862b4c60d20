"""Random straight programs of integers: our PTX and LLVM's give the same on the PTX machine."""

from __future__ import annotations

import random

import pytest

from tests.targets.nvidia.translate.harness import bits_of, both, edges

TYPES = ("i8", "i16", "i32", "i64")
PREDICATES = ("eq", "ne", "slt", "sge", "ult", "ugt", "sle", "uge")


def program(seed: int) -> tuple[str, dict[str, str]]:
    """Lines, and the values of it that are looked at, with their types."""
    rng = random.Random(seed)
    known: dict[str, list[str]] = {"i8": [], "i16": [], "i32": ["%a", "%b", "%tid"], "i64": ["%c", "%place"], "i1": []}
    lines: list[str] = []

    def operand(t: str) -> str:
        if not known[t] or rng.random() < 0.25:
            if t == "i1":
                return rng.choice(("true", "false"))
            return str(rng.choice((0, 1, -1, 2, 4, 7, 12, 16, 63, 96, 100, 127, -5, -128)))
        return rng.choice(known[t][-12:])

    def made(t: str, text: str) -> None:
        name = f"%v{len(lines)}"
        lines.append(f"{name} = {text}")
        known[t].append(name)

    for _ in range(70):
        t = rng.choice(TYPES)
        kind = rng.random()
        if kind < 0.4:
            made(t, f"{rng.choice(('add', 'sub', 'mul', 'and', 'or', 'xor', 'and', 'add'))} {t} {operand(t)}, "
                    f"{operand(t)}")
        elif kind < 0.55:
            made(t, f"{rng.choice(('shl', 'lshr', 'ashr', 'lshr'))} {t} {operand(t)}, {rng.randrange(bits_of(t))}")
        elif kind < 0.6:
            divisor = rng.choice((1, 2, 3, 8, 10, 33, 100, 127))
            made(t, f"{rng.choice(('sdiv', 'udiv', 'srem', 'urem'))} {t} {operand(t)}, {divisor}")
        elif kind < 0.75:
            source = rng.choice((*TYPES, "i1"))
            if source == t:
                continue
            narrower = source != "i1" and bits_of(source) > bits_of(t)
            made(t, f"{'trunc' if narrower else rng.choice(('sext', 'zext'))} {source} {operand(source)} to {t}")
        elif kind < 0.85:
            made("i1", f"icmp {rng.choice(PREDICATES)} {t} {operand(t)}, {operand(t)}")
        elif kind < 0.9:
            made("i1", f"{rng.choice(('and', 'or', 'xor'))} i1 {operand('i1')}, {operand('i1')}")
        else:
            made(t, f"select i1 {operand('i1')}, {t} {operand(t)}, {t} {operand(t)}")
    return "\n".join(lines), {v: t for t in (*TYPES, "i1") for v in known[t][-6:] if v.startswith("%v")}


@pytest.mark.parametrize("seed", range(24))
def test_straight_programs(seed):
    lines, results = program(seed)
    given = {"i32": edges("i32", seed), "i32'": edges("i32", seed + 1), "i64": edges("i64", seed + 2)}
    both(lines, given, results)
