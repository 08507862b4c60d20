"""What the calling thread spends on one launch: `kernel[grid](x, y, out, n, BLOCK=1024)` on a GPU.

Beside it the driver alone, which is the least that anybody pays (cuLaunchKernel in a loop of native code, for the same
kernel and arguments), and `torch.add` with `out=`.  Every package launches in three ways: as programs write it, through
`kernel[grid]` that was made before ("bound"), and with a function as grid.
Launches come in bursts that the GPU's queue holds, and take turns; the numbers are medians.
"""

from __future__ import annotations

import ctypes
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

CALLS, BLOCK, N = 150, 1024, 1000
_LOOP = """
declare i32 @cuLaunchKernel(ptr, i32, i32, i32, i32, i32, i32, i32, ptr, ptr, ptr)
define i64 @launches(ptr %function, i32 %threads, ptr %stream, ptr %arguments, i64 %count) {
entry:
  br label %again
again:
  %k = phi i64 [ 0, %entry ], [ %next, %again ]
  %before = phi i32 [ 0, %entry ], [ %codes, %again ]
  %code = call i32 @cuLaunchKernel(ptr %function, i32 1, i32 1, i32 1, i32 %threads, i32 1, i32 1, i32 0, ptr %stream,
                                   ptr %arguments, ptr null)
  %codes = or i32 %before, %code
  %next = add i64 %k, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %again, label %end
end:
  %wide = zext i32 %codes to i64
  ret i64 %wide
}
"""


def launch_times(torch: Any, packages: Mapping[str, Any], turns: int = 41) -> dict[str, float]:
    """Microseconds of one launch, by name."""
    x, y, out = (torch.ones(N, device="cuda") for _ in range(3))
    names = {"x": x, "y": y, "out": out, "n": N, "torch": torch}
    works: dict[str, Callable[[], float]] = {}
    if "tilewright" in packages:
        works["driver alone"] = _driver_alone(torch, packages["tilewright"].add, (x, y, out))
    for name, kernels in packages.items():
        own = {**names, "kernel": kernels.add, "bound": kernels.add[(1,)]}
        works[name] = _looped("kernel[(1,)](x, y, out, n, BLOCK=1024)", own)
        works[f"{name}, bound"] = _looped("bound(x, y, out, n, BLOCK=1024)", own)
        works[f"{name}, function"] = _looped(
            "kernel[lambda meta: (-(-n // meta['BLOCK']),)](x, y, out, n, BLOCK=1024)", own)
    works["torch.add"] = _looped("torch.add(x, y, out=out)", names)
    found: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(turns + 1):
        for name, work in list(works.items())[::1 if turn % 2 else -1]:
            found[name].append(work())
            torch.cuda.synchronize()
    return {name: statistics.median(times[1:]) for name, times in found.items()}


def _looped(statement: str, names: Mapping[str, Any]) -> Callable[[], float]:
    """A function that runs the statement `CALLS` times and gives the microseconds of one."""
    scope: dict[str, Any] = {**names, "clock": time.perf_counter_ns, "CALLS": CALLS}
    exec("def sample():\n  start = clock()\n  for _ in range(CALLS):\n    " + statement
         + "\n  return (clock() - start) / CALLS / 1e3", scope)
    sample: Callable[[], float] = scope["sample"]
    return sample


def _driver_alone(torch: Any, add: Any, tensors: tuple[Any, ...]) -> Callable[[], float]:
    """The same for the driver's function with the arguments of `add`."""
    from tilewright.runtime import knobs
    from tilewright.runtime.devices import DEVICES
    loaded = add[(1,)](*tensors, N, BLOCK=BLOCK).function
    values = [ctypes.c_uint64(value) for value in (*(tensor.data_ptr() for tensor in tensors), N)]
    places = (ctypes.POINTER(ctypes.c_uint64) * 4)(*map(ctypes.pointer, values))      # keeps them alive
    driver = ctypes.cast(ctypes.CDLL("libcuda.so.1").cuLaunchKernel, ctypes.c_void_p).value
    launchers = DEVICES.cpu(knobs.snapshot()).launchers()
    address = launchers.load("launches", f"benchmark {_LOOP}", lambda: _LOOP, {"cuLaunchKernel": driver})
    launches = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p,
                                ctypes.c_int64)(address)

    def sample() -> float:
        stream = torch.cuda.current_stream().cuda_stream
        start = time.perf_counter_ns()
        failed = launches(int(loaded.function), loaded.threads, stream, places, CALLS)
        passed = time.perf_counter_ns() - start
        assert not failed, "the driver has refused a launch"
        return passed / CALLS / 1e3

    return sample
