"""fmod against C's, bit for bit."""

import numpy as np
import pytest

from tests.targets.llvm.harness import MACHINES, compile_map, library_calls, run_map, same_bits
from tilewright.targets.llvm.floatrem import rem_f
from tilewright.targets.llvm.types import Type

FORMATS = {"float": np.float32, "double": np.float64}


def pairs(dtype):
    info = np.finfo(dtype)
    special = np.array([0.0, -0.0, 1, -1, 3, -3, 0.1, np.inf, -np.inf, np.nan, info.max, info.tiny, -info.tiny,
                        info.smallest_subnormal, 5 * info.smallest_subnormal, info.tiny / 3, 1e30, -7.5], dtype)
    rng = np.random.default_rng(6)
    bits = rng.integers(0, 256, (2, 3000 * info.bits // 8), dtype=np.uint8).view(dtype)
    near = rng.uniform(-100, 100, (2, 4000)).astype(dtype)
    whole = np.round(near)
    x = np.concatenate([np.repeat(special, len(special)), bits[0], near[0], whole[0], near[0]])
    y = np.concatenate([np.tile(special, len(special)), bits[1], near[1], whole[1], bits[1][:1].repeat(4000)])
    return x, y


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
@pytest.mark.parametrize("element", FORMATS)
@pytest.mark.parametrize("lanes", [0, 8])
def test_fmod(machine, element, lanes):
    x, y = pairs(FORMATS[element])
    got = run_map(rem_f, [x, y], [Type(element)] * 2, Type(element), x.dtype, machine, lanes)
    with np.errstate(all="ignore"):
        want = np.fmod(x, y)
    bad = np.flatnonzero(~same_bits(got, want))
    assert bad.size == 0, (x[bad[:4]], y[bad[:4]], got[bad[:4]], want[bad[:4]])


def test_no_library():
    for element in FORMATS:
        compiled = compile_map(rem_f, [Type(element)] * 2, Type(element), MACHINES["host"])
        assert [c for c in library_calls(compiled) if "tilewright" not in c] == []
