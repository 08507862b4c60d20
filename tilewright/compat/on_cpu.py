"""Running a program that insists on CUDA on a machine without a GPU.

Inside `cuda_on_cpu()` the device `cuda` is the CPU's memory with another name.  torch's own hook for such things, a
`TorchFunctionMode`, sees every torch function and tensor attribute that the program uses in this thread: a request for
`cuda` becomes one for `cpu`, and a tensor says that it is on `cuda:0` when asked.  Tensors that the program made on
the CPU by saying so, or by naming no device, say `cpu`.  Tilewright's own code gets the true answers, so kernels
compile for the CPU.  `torch.cuda.is_available()` and its neighbours are replaced by `cuda_calls` for the time.

A launch with tensors of both kinds is refused, as on a machine with a GPU.
Not covered: other threads than the one that entered, tensors on several GPUs, CUDA graphs (an error says so),
torch.compile (functions run as they are, with a warning); and autocast of one device is that of both.
Tests: tests/compat/test_on_cpu.py.
"""

from __future__ import annotations

import importlib
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from tilewright.compat.cuda_calls import patched_cuda
from tilewright.runtime.driver import WARP_SIZE, CpuDriver, GPUTarget, driver
from tilewright.runtime.hooks import HOOKS
from tilewright.runtime.launch import refuse_mixed

# The capability that is claimed: Ampere, the oldest for which programs take their plain path (no TMA, no fp8 dot).
CAPABILITY = (8, 0)
# Modules of Tilewright that make tensors for the program, where it asks for them: as if the program's own code did.
_MAKERS = ("tilewright.tools.",)
# Attribute of a tensor that the program put on the CPU; tensors without it are said to be on cuda:0.
_ON_HOST = "_tilewright_on_host"


class CudaNamedCpu(CpuDriver):
    """The CPU driver, answering as a CUDA driver would."""

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", CAPABILITY[0] * 10 + CAPABILITY[1], WARP_SIZE)

    def get_active_torch_device(self) -> Any:
        return importlib.import_module("torch").device("cuda", 0)

    def get_device_interface(self) -> Any:
        return importlib.import_module("torch").cuda


@contextmanager
def cuda_on_cpu() -> Iterator[None]:
    """Within the block, in this thread, the device `cuda` means the CPU.  Needs torch."""
    torch = importlib.import_module("torch")
    places = Places(torch)
    mode = make_mode(torch, places)
    before = driver.active
    with ExitStack() as stack:
        stack.enter_context(patched_cuda(torch, CAPABILITY, places.set_default_device, mode))
        driver.set_active(CudaNamedCpu())
        stack.callback(driver.set_active, before)
        stack.callback(HOOKS.judge_arguments, None)
        stack.enter_context(mode)
        yield


def cuda_is_missing() -> bool:
    """Whether the program has loaded torch, and torch finds no CUDA device."""
    torch = sys.modules.get("torch")
    return torch is not None and not torch.cuda.is_available()


class Places:
    """Where the program believes its tensors to be, and what it is told."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._default_is_host = True
        self._on_host: dict[int, weakref.ref[Any]] = {}     # the tensors that the program has put on the CPU
        tensor = torch.Tensor
        self._answers: Mapping[int, Callable[[Any], Any]] = {
            id(tensor.device): self.device_of,
            id(tensor.is_cuda): lambda t: not on_host(t),
            id(tensor.is_cpu): on_host,
        }
        # These only make a value of a device, or parse one: the name is kept as the program said it.
        self._names_only = frozenset({torch.device, torch._C._nn._parse_to})

    def device_of(self, tensor: Any) -> Any:
        """The device that `tensor` is said to be on."""
        return self._torch.device("cpu") if on_host(tensor) else self._torch.device("cuda", 0)

    def set_default_device(self, device: Any) -> None:
        """`torch.set_default_device`, remembered here: torch's own would ask for real CUDA."""
        self._default_is_host = device is None or not is_cuda(device)

    def answer(self, function: Any, args: Sequence[Any]) -> tuple[bool, Any]:
        """(True, what to say) where `function` asks for a tensor's place."""
        if getattr(function, "__name__", "") == "__get__":
            say = self._answers.get(id(function.__self__))
            if say is not None:
                return True, say(args[0])
        elif function is self._torch.Tensor.get_device:
            return True, -1 if on_host(args[0]) else 0
        elif function is self._torch.Tensor.record_stream:
            return True, None
        elif function is self._torch.Tensor.pin_memory:
            return True, args[0]
        return False, None

    def call(self, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call a torch function with `cuda` read as `cpu`, and note where its result is to be."""
        if function in self._names_only:
            return function(*args, **kwargs)
        if function in (self._torch.Tensor.cuda, self._torch.Tensor.cpu):
            return self._placed(function, args, args[0], host=function is self._torch.Tensor.cpu)
        host = self._requested(function, args, kwargs)
        if host is None:
            host = self._inherited(args, kwargs)
        result = function(*(self._on_cpu(a) for a in args), **self._named_on_cpu(kwargs))
        return self._placed(function, args, result, host)

    def _on_cpu(self, value: Any) -> Any:
        """A device or its name with `cuda` read as `cpu`; anything else as it is."""
        return "cpu" if isinstance(value, str | self._torch.device) and is_cuda(value) else value

    def _named_on_cpu(self, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Keyword arguments with `cuda` read as `cpu`, and without a wish for pinned memory."""
        changed = {name: self._on_cpu(value) for name, value in kwargs.items() if name != "pin_memory"}
        if isinstance(changed.get("device"), int):
            changed["device"] = "cpu"
        return changed

    def _requested(self, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool | None:
        """Whether the call asks for the CPU (True) or for CUDA (False) by name."""
        device = kwargs.get("device")
        if device is None and function is self._torch.Tensor.to and len(args) > 1:
            target = args[1]
            if isinstance(target, self._torch.Tensor):
                return on_host(target)
            device = target if isinstance(target, str | int | self._torch.device) else None
        return None if device is None else not is_cuda(device)

    def _inherited(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """Where a result is when the call does not say: with its inputs; on CUDA if one of them is."""
        inputs = [t for t in (*args, *kwargs.values()) for t in tensors_in(t, self._torch.Tensor)]
        return all(on_host(t) for t in inputs) if inputs else self._default_is_host

    def _placed(self, function: Any, args: Sequence[Any], result: Any, host: bool) -> Any:
        """`result`, its tensors marked; a tensor that has to change its place is copied, as CUDA would."""
        if isinstance(result, self._torch.Tensor):
            if any(result is a for a in args):
                moves = function in (self._torch.Tensor.to, self._torch.Tensor.cpu, self._torch.Tensor.cuda)
                if not moves or on_host(result) == host:
                    return result
                result = result.clone()
            self._mark(result, host)
        else:
            for tensor in tensors_in(result, self._torch.Tensor):
                if not any(tensor is a for a in args):
                    self._mark(tensor, host)
        return result

    def _mark(self, tensor: Any, host: bool) -> None:
        """Note where the program believes `tensor` to be.  While there are tensors on the CPU, launches are judged."""
        mark(tensor, host)
        key, before = id(tensor), len(self._on_host)
        if host:
            self._on_host[key] = weakref.ref(tensor, lambda gone: self._forget(key, gone))
        else:
            self._on_host.pop(key, None)
        if bool(before) != bool(self._on_host):
            HOOKS.judge_arguments(self.judge if self._on_host else None)

    def _forget(self, key: int, gone: weakref.ref[Any]) -> None:
        if self._on_host.get(key) is gone:
            del self._on_host[key]
            if not self._on_host:
                HOOKS.judge_arguments(None)

    def judge(self, kernel: str, names: Sequence[str], values: Sequence[Any]) -> None:
        """ValueError for a launch with tensors on the CPU and on CUDA, as on a machine with a GPU."""
        devices: dict[str, str] = {}
        for name, value in zip(names, values, strict=True):
            for tensor in tensors_in(value, self._torch.Tensor):
                devices.setdefault("cpu" if on_host(tensor) else "cuda:0", name)
        if len(devices) > 1:
            refuse_mixed(kernel, devices)


def make_mode(torch: Any, places: Places) -> Any:
    """The mode of torch that routes what the program calls through `places`."""

    class CudaMeansCpu(torch.overrides.TorchFunctionMode):    # type: ignore[misc]
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if asks_for_itself(sys._getframe(1).f_globals.get("__name__", "")):
                return function(*args, **(kwargs or {}))
            known, answer = places.answer(function, args)
            return answer if known else places.call(function, args, kwargs or {})

    return CudaMeansCpu()


def asks_for_itself(module: str) -> bool:
    """Whether code of `module` is Tilewright's, which gets the true answers."""
    return module.startswith("tilewright.") and not module.startswith(_MAKERS)


def on_host(tensor: Any) -> bool:
    """Whether the program put `tensor` on the CPU, and knows it."""
    return _ON_HOST in tensor.__dict__


def mark(tensor: Any, host: bool) -> None:
    """Note where the program believes `tensor` to be."""
    if host:
        tensor.__dict__[_ON_HOST] = True
    else:
        tensor.__dict__.pop(_ON_HOST, None)


def tensors_in(value: Any, tensor_class: type) -> list[Any]:
    """The tensors of `value`, which may be one, or a list or tuple of some."""
    if isinstance(value, tensor_class):
        return [value]
    if isinstance(value, list | tuple):
        return [item for item in value if isinstance(item, tensor_class)]
    return []


def is_cuda(device: Any) -> bool:
    """Whether `device` (a torch.device, its name, or a GPU's number) is a CUDA device."""
    return isinstance(device, int) or str(device).partition(":")[0] == "cuda"
