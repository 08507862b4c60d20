"""Machines by name, for code that uses less than this machine can do (`TILEWRIGHT_CPU`).

Before: the machine that this is.  After: one of the same architecture with the named features, all of which this one
has.  Tests: tests/targets/cpu/test_machines.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.targets.llvm.machine import Machine

_V2 = "+sse3,+ssse3,+sse4.1,+sse4.2,+popcnt,+cx16"
_V3 = _V2 + ",+avx,+avx2,+fma,+f16c,+bmi,+bmi2,+lzcnt,+movbe"
# name: (LLVM's name of the processor, features); the levels of the x86-64 psABI
NAMED: Mapping[str, tuple[str, str]] = {
    "x86-64": ("x86-64", "+sse2"),
    "x86-64-v2": ("x86-64-v2", _V2),
    "avx2": ("x86-64-v3", _V3),
    "avx512": ("x86-64-v4", _V3 + ",+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl"),
}


def named(name: str, host: Machine) -> Machine:
    """The machine called `name`, on which this one can stand in; the host itself for an empty name."""
    if not name:
        return host
    if name not in NAMED:
        raise ValueError(f"TILEWRIGHT_CPU={name!r}: expected one of {', '.join(NAMED)}, or nothing for this machine")
    cpu, features = NAMED[name]
    missing = set(features.split(",")) - set(host.features.split(","))
    if missing or not host.triple.startswith("x86_64"):
        lacks = ", ".join(sorted(f.removeprefix("+") for f in missing)) or "x86-64 instructions"
        raise ValueError(f"TILEWRIGHT_CPU={name!r}: this machine cannot run such code, it lacks {lacks}")
    return Machine(host.triple, cpu, features, host.llvm)
