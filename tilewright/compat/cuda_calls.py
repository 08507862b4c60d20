"""Stand-ins for the functions of `torch.cuda` that programs call around their kernels, on a machine without a GPU.

Work on a CPU is done when a call returns, so streams have nothing to order and `synchronize` nothing to wait for;
events keep the time at which they were recorded.  `patched_cuda` puts the stand-ins in place and takes them back.
Tests: tests/compat/test_on_cpu.py.
"""

from __future__ import annotations

import os
import platform
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any, NoReturn

from tilewright.compat.custom_ops import kernels_on_cpu
from tilewright.runtime.driver import REGISTERS, WARP_SIZE, fast_memory, usable_cores


class Event:
    """`torch.cuda.Event`: a moment."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        self._moment: float | None = None

    def record(self, stream: Any = None) -> None:
        self._moment = time.perf_counter()

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to `end_event`."""
        if self._moment is None or end_event._moment is None:
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        return (end_event._moment - self._moment) * 1000

    def synchronize(self) -> None:
        """Nothing is under way."""

    def wait(self, stream: Any = None) -> None:
        """Nothing is under way."""

    def query(self) -> bool:
        return True


class Stream:
    """`torch.cuda.Stream`: work is done when a call returns, so all streams are one."""

    cuda_stream = 0

    def __init__(self, device: Any = None, priority: int = 0) -> None:
        self.priority = priority

    def synchronize(self) -> None:
        """Nothing is under way."""

    def wait_stream(self, stream: Any) -> None:
        """Nothing is under way."""

    def wait_event(self, event: Event) -> None:
        """Nothing is under way."""

    def query(self) -> bool:
        return True

    def record_event(self, event: Event | None = None) -> Event:
        event = Event() if event is None else event
        event.record()
        return event

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *error: object) -> None:
        """The stream stays what it is."""


class Device:
    """`torch.cuda.device`: the block is on the only device anyway.  torch asks for instances of it."""

    def __init__(self, device: Any) -> None:
        self.idx = 0

    def __enter__(self) -> None:
        """There is nothing to switch."""

    def __exit__(self, *error: object) -> None:
        """There is nothing to switch back."""


def random_numbers(torch: Any) -> dict[str, Any]:
    """The names of `torch.cuda` about random numbers: the CPU's generator makes those of `cuda`, too."""
    generator = torch.default_generator

    def seed() -> None:
        generator.seed()

    def manual_seed(seed: int) -> None:
        generator.manual_seed(int(seed))

    def set_state(new_state: Any, device: Any = None) -> None:
        generator.set_state(new_state)

    return {"seed": seed, "seed_all": seed, "manual_seed": manual_seed, "manual_seed_all": manual_seed,
            "initial_seed": generator.initial_seed, "get_rng_state": lambda device=None: generator.get_state(),
            "get_rng_state_all": lambda: [generator.get_state()], "set_rng_state": set_state,
            "set_rng_state_all": lambda new_states: set_state(new_states[0])}


def device_properties(capability: tuple[int, int]) -> SimpleNamespace:
    """What `torch.cuda.get_device_properties` tells."""
    return SimpleNamespace(
        name=device_name(), major=capability[0], minor=capability[1], total_memory=total_memory(),
        multi_processor_count=usable_cores(), warp_size=WARP_SIZE, regs_per_multiprocessor=REGISTERS,
        max_threads_per_multi_processor=2048, L2_cache_size=fast_memory(), gcnArchName="",
        shared_memory_per_block=fast_memory(), shared_memory_per_block_optin=fast_memory(),
        shared_memory_per_multiprocessor=fast_memory(), is_integrated=1, is_multi_gpu_board=0)


def device_name() -> str:
    """The CPU's name, and that it is one."""
    return f"{platform.processor() or platform.machine()} (CPU, by Tilewright)"


def total_memory() -> int:
    """Bytes of this machine's memory; 0 where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 0


def stand_ins(capability: tuple[int, int]) -> dict[str, Any]:
    """The names of `torch.cuda` that are replaced."""
    stream = Stream()
    free = total_memory()
    constants = {"is_available": True, "is_initialized": False, "device_count": 1, "current_device": 0,
                 "get_device_name": device_name(), "get_device_capability": capability,
                 "get_device_properties": device_properties(capability), "get_arch_list": ["sm_80"],
                 "is_bf16_supported": True, "current_stream": stream, "default_stream": stream,
                 "mem_get_info": (free, free), "memory_allocated": 0, "max_memory_allocated": 0,
                 "memory_reserved": 0, "max_memory_reserved": 0, "is_current_stream_capturing": False}
    nothing_to_do = ("synchronize", "set_device", "set_stream", "empty_cache", "init", "reset_peak_memory_stats",
                     "ipc_collect")
    answers = {**constants, **dict.fromkeys(nothing_to_do)}
    return {**{name: _constant(value) for name, value in answers.items()}, "Event": Event, "Stream": Stream,
            "CUDAGraph": CUDAGraph, "graph": _refuse_graphs, "make_graphed_callables": _refuse_graphs,
            "device": Device, "stream": lambda stream: nullcontext(stream)}  # noqa: PLW0108


def _constant(value: Any) -> Callable[..., Any]:
    """A new function (torch.compile tells functions apart by identity) that answers `value` to everything."""
    return lambda *args, **kwargs: value


class CUDAGraph:
    """`torch.cuda.CUDAGraph`: there is none."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse_graphs()


def _refuse_graphs(*args: Any, **kwargs: Any) -> NoReturn:
    raise RuntimeError("CUDA graphs cannot be captured on a CPU, where `tilewright run --on cpu` runs the program: "
                       "each launch is done when it returns, and there is no stream to record. Call the function "
                       "itself instead of a graph of it (a switch such as use_cuda_graph=False), or run on a GPU")


def run_uncompiled(model: Any = None, **options: Any) -> Any:
    """`torch.compile`, also as a decorator: the function or module as it is.

    torch's compiler would see tensors of the CPU and a GPU that answers, and fail on the first call into the real
    `torch.cuda`.
    """
    warnings.warn("torch.compile compiles nothing where `tilewright run --on cpu` stands in for a GPU: the function "
                  "runs as it is, with its kernels and the same results; to compile it, make its tensors on the CPU "
                  "and use `tilewright run` without --on cpu", stacklevel=2)
    return (lambda function: function) if model is None else model


def cast_as_on_cpu(torch: Any) -> list[tuple[Any, str, Any]]:
    """What makes `torch.autocast("cuda")` that of the CPU: owner, name and stand-in.

    Without a dtype it casts to CUDA's (float16), as on a GPU.
    """
    autocast, is_enabled, dtype_of = torch.autocast, torch.is_autocast_enabled, torch.get_autocast_dtype
    made = autocast.__init__

    def init(self: Any, device_type: str, dtype: Any = None, *args: Any, **kwargs: Any) -> None:
        made(self, _cpu_for(device_type), get_dtype(device_type) if dtype is None else dtype, *args, **kwargs)

    def get_dtype(device_type: str) -> Any:
        return dtype_of("cpu" if device_type == "cuda" and is_enabled("cpu") else device_type)

    def on_cpu(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda device_type="cuda", *args: function(_cpu_for(device_type), *args)

    return [(autocast, "__init__", init), (torch, "get_autocast_dtype", get_dtype),
            (torch, "get_autocast_gpu_dtype", lambda: get_dtype("cuda")),
            (torch, "is_autocast_enabled", on_cpu(is_enabled)),
            (torch, "set_autocast_enabled", lambda *args: torch._C.set_autocast_enabled(*_with_cpu(args))),
            (torch, "set_autocast_dtype", on_cpu(torch.set_autocast_dtype))]


def _cpu_for(device_type: str) -> str:
    return "cpu" if device_type == "cuda" else device_type


def _with_cpu(args: Sequence[Any]) -> tuple[Any, ...]:
    """The arguments of `torch.set_autocast_enabled`: (device, enabled), or (enabled) for CUDA."""
    return ("cpu", *args) if len(args) == 1 else (_cpu_for(args[0]), *args[1:])


def make_generator(torch: Any) -> type:
    """`torch.Generator` for which `device="cuda"` is the CPU."""
    original = torch.Generator

    class IsGenerator(type(original)):         # type: ignore[misc]
        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, original)

    class Generator(original, metaclass=IsGenerator):      # type: ignore[misc, valid-type]
        def __new__(cls, device: Any = "cpu") -> Any:
            return original.__new__(cls, "cpu")

    return Generator


@contextmanager
def patched_cuda(torch: Any, capability: tuple[int, int], set_default_device: Callable[[Any], None],
                 mode: Any) -> Iterator[None]:
    """The stand-ins in place of torch's functions, within the block."""
    run_backward = torch.autograd._engine_run_backward

    def run_backward_in_mode(*args: Any, **kwargs: Any) -> Any:
        with mode:      # torch takes modes off for the time of a call; backward functions are the program's code
            return run_backward(*args, **kwargs)

    replaced = {**stand_ins(capability), **random_numbers(torch)}
    replacements = [(torch.cuda, name, value) for name, value in replaced.items()]
    replacements += [(torch.cuda.nvtx, name, _constant(None)) for name in ("range_push", "range_pop", "mark")]
    replacements += [(torch, "Generator", make_generator(torch)), (torch, "set_default_device", set_default_device),
                     (torch, "compile", run_uncompiled), kernels_on_cpu(mode),
                     (torch.autograd, "_engine_run_backward", run_backward_in_mode), *cast_as_on_cpu(torch)]
    with ExitStack() as stack:
        for owner, name, value in replacements:
            stack.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, value)
        yield
