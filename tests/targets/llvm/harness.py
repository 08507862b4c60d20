"""Run emitted element-wise code on arrays, on several machines: the host, and older ones that it can stand in for."""

from __future__ import annotations

import ctypes
import functools

import numpy as np

from tilewright.targets.llvm import toolchain
from tilewright.targets.llvm.text import ModuleWriter
from tilewright.targets.llvm.types import I64, PTR, Type, constant

ENTRY = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 5, ctypes.c_int64)


def _machines():
    host = toolchain.host_machine()
    found = {"host": host}
    features = set(host.features.split(","))
    if host.triple.startswith("x86_64"):
        if {"+avx2", "+fma", "+f16c", "+bmi2"} <= features:
            v3 = "+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+sse4.1,+sse4.2,+ssse3,+popcnt"
            found["avx2"] = toolchain.Machine(host.triple, "x86-64-v3", v3)
        found["sse2"] = toolchain.Machine(host.triple, "x86-64", "")
    return found


MACHINES = _machines()


@functools.cache
def loader():
    return toolchain.Loader()


def compile_map(emit, operands, result, machine, lanes=16):
    """A module whose function `map(a, b, c, d, out, n)` stores emit(f, *vectors) for n elements; returns its object.

    `operands` and `result` are LLVM scalar types; lanes 0 maps scalars.
    """
    module = ModuleWriter(machine.isa)
    f = module.function("map", [*((name, PTR) for name in ("a", "b", "c", "d", "out")), ("n", I64)])
    *inputs, out, count = f.params

    def body(i, _):
        values = [f.load(f.gep(p, i, t), Type(t.element, lanes), 1) for p, t in zip(inputs, operands)]
        f.store(emit(f, *values), f.gep(out, i, result), 1)
        return ()

    f.loop(constant(I64, 0), count, constant(I64, max(lanes, 1)), body)
    f.ret()
    return toolchain.compile_object(module.text(), machine)


def run_map(emit, arrays, operands, result, dtype, machine, lanes=16):
    """emit applied to every element of `arrays` (all of one length), as an array of `dtype`."""
    loaded = loader().load(compile_map(emit, operands, result, machine, lanes).binary, "map")
    n, step = len(arrays[0]), max(lanes, 1)
    padded = [np.resize(a, -(-n // step) * step) for a in arrays]
    out = np.zeros(len(padded[0]), dtype)
    addresses = [a.ctypes.data for a in padded] + [0] * (4 - len(padded))
    ENTRY(loaded.address)(*addresses, out.ctypes.data, len(out))
    return out[:n]


def library_calls(compiled):
    """Names of external functions that the machine code calls."""
    lines = (line.split() for line in compiled.assembly().splitlines())
    return [words[-1] for words in lines if words and words[0] in ("call", "callq", "bl", "jmp") and "@" in words[-1]]


def same_bits(a, b):
    """Where two float arrays have the same bits, any NaN being like any other."""
    bits = f"u{a.itemsize}"
    return (a.view(bits) == b.view(bits)) | (np.isnan(a) & np.isnan(b))
