"""What a process has once, made when it is first needed: the disk cache, the compilers, the targets.

Importing and decorating make none of it.  Each is made once for the knobs that it depends on.  What loads a kernel
from the disk cache is imported with this module; what compiles one is imported when one is compiled.
Tests: tests/runtime/test_devices.py, tests/runtime/test_import.py.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from tilewright.locks import NO_FORK, ForkSafeLock
from tilewright.runtime.arguments import CPU
from tilewright.runtime.cache import Store, warn
from tilewright.runtime.driver import AHEAD
from tilewright.runtime.fingerprint import compiler_key, llvm_version, processor
from tilewright.targets.base import Target
from tilewright.targets.cpu.target import CpuTarget
from tilewright.targets.llvm.machine import Compiler, Machine, Meanwhile, Request

Settings = Mapping[str, Any]        # the knobs that count for a launch
T = TypeVar("T")


class Devices:
    """Targets, and what they share."""

    def __init__(self) -> None:
        self._made: dict[Any, Any] = {}
        self._lock = ForkSafeLock()

    def cpu(self, settings: Settings) -> Target:
        """The CPU target."""
        own = ("num_threads", "host", "timeout", "cpu", "catch_faults", "perf")
        knobs = (*(settings[name] for name in own), *_compiler_knobs(settings))
        return self._once(("cpu", *knobs), lambda: self._cpu(settings))

    def target(self, device: str, settings: Settings) -> Target:
        """The target of a device: `cpu`, `cuda:0` and so on for NVIDIA GPUs, or `cuda:ahead:90` (`driver.AHEAD`)."""
        if device.startswith(AHEAD):
            return self.cuda_ahead(device.removeprefix(AHEAD), settings)
        return self.cpu(settings) if device == CPU else self.cuda(int(device.partition(":")[2] or 0), settings)

    def cuda(self, index: int, settings: Settings) -> Target:
        """The target of a GPU."""
        knobs = (*_nvidia_knobs(settings), *_compiler_knobs(settings))
        return self._once(("cuda", index, *knobs), lambda: self._cuda(index, settings))

    def cuda_ahead(self, arch: int | str, settings: Settings) -> Target:
        """A target that compiles for GPUs of compute capability `arch`, and loads nothing.  ValueError if no code is
        made for that."""
        knobs = (*_nvidia_knobs(settings), *_compiler_knobs(settings))
        return self._once(("cuda ahead", arch, *knobs), lambda: self._nvidia(arch, None, settings))

    def store(self, settings: Settings) -> Store:
        """The disk cache."""
        return self._once(("store", *_store_knobs(settings)), lambda: _store(settings))

    def compiler(self, settings: Settings) -> Compiler:
        """LLVM, in child processes or in this one."""
        return self._once(("compiler", *_compiler_knobs(settings)), lambda: self._compiler(settings))

    def compiler_key(self, settings: Settings, target: str = "cpu") -> str:
        """The part of a key that stands for the versions and the content of the compiler."""
        return self._once(("key", target, *_store_knobs(settings)),
                          lambda: compiler_key(self.store(settings), target=target))

    def _once(self, key: Any, make: Callable[[], T]) -> T:
        if key not in self._made:
            with self._lock:
                if key not in self._made:
                    self._made[key] = make()
        made: T = self._made[key]
        return made

    def _cpu(self, settings: Settings) -> Target:
        store = self.store(settings)
        compiler = LateCompiler(lambda: self.compiler(settings), store)
        return CpuTarget(threads=settings["num_threads"] or None, compiler=compiler,
                         host=settings["host"], timeout_s=settings["timeout"], store=Objects(store),
                         cpu=settings["cpu"], catches_faults=settings["catch_faults"], perf=settings["perf"])

    def _cuda(self, index: int, settings: Settings) -> Target:
        with NO_FORK:
            from tilewright.targets.nvidia.driver.device import Device
        device = Device(index)
        return self._nvidia(device.capability, device, settings)

    def _nvidia(self, arch: int | str, device: Any, settings: Settings) -> Target:
        with NO_FORK:
            from tilewright.targets.nvidia.target import NvidiaTarget
        compiler = LateCompiler(lambda: self.compiler(settings), self.store(settings))
        return NvidiaTarget(arch, device=device, compiler=compiler, cuda_home=settings["cuda_home"],
                            ptxas=settings["ptxas"], tensor_maps=settings["tensor_maps"],
                            own_ptx=settings["own_ptx"])

    def _compiler(self, settings: Settings) -> Compiler:
        if settings["compile_in_process"]:
            with NO_FORK:
                from tilewright.targets.llvm.inprocess import InProcess
            return InProcess()
        with NO_FORK:
            from tilewright.targets.llvm.client import CompileChildren
        return CompileChildren(settings["compile_processes"], settings["compile_timeout"], self.store(settings).folder)


class Objects:
    """The disk cache as a target sees it that keeps machine code of its own there."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def get(self, key: str) -> bytes | None:
        """What was put under `key`."""
        return (self._store.get("object", key) or {}).get("binary")

    def put(self, key: str, data: bytes) -> None:
        """Keep `data`, if that is possible."""
        self._store.put("object", key, {"binary": data})


class LateCompiler(Compiler):
    """A compiler that is made when it has to compile.

    It is not asked what this machine is where an earlier process has left the answer in the cache.
    """

    def __init__(self, make: Callable[[], Compiler], store: Store) -> None:
        self._compiler = make
        self._store = store

    def prepare(self) -> None:
        self._compiler().prepare()

    def host(self) -> Machine:
        here = processor()
        if here is None:
            return self._compiler().host()
        key = f"{here}\n{llvm_version()}"
        known = self._store.get("machine", key)
        if known is not None:
            return Machine(**{name: value.decode() for name, value in known.items()})
        host = self._compiler().host()
        fields = {"triple": host.triple, "cpu": host.cpu, "features": host.features, "llvm": host.llvm}
        self._store.put("machine", key, {name: value.encode() for name, value in fields.items()})
        return host

    def products(self, request: Request, name: str, meanwhile: Meanwhile = None) -> list[bytes]:
        return self._compiler().products(request, name, meanwhile)


def _store_knobs(settings: Settings) -> tuple[Any, ...]:
    return tuple(settings[name] for name in ("disk_cache", "cache_dir", "cache_home", "cache_size"))


def _nvidia_knobs(settings: Settings) -> tuple[Any, ...]:
    return tuple(settings[name] for name in ("cuda_home", "ptxas", "tensor_maps", "own_ptx"))


def _compiler_knobs(settings: Settings) -> tuple[Any, ...]:
    return (*(settings[name] for name in ("compile_in_process", "compile_processes", "compile_timeout")),
            *_store_knobs(settings))


def _store(settings: Settings) -> Store:
    if not settings["disk_cache"]:
        return Store(None)
    folder = cache_folder(settings)
    if folder is None:
        warn("there is no home folder to keep it in; what is compiled is not kept (TILEWRIGHT_CACHE_DIR names another "
             "folder)")
    return Store(folder, settings["cache_size"] << 20)


def cache_folder(settings: Settings) -> Path | None:
    """The folder of the disk cache: the knob's, or `tilewright` among the user's caches; None without a home."""
    if settings["cache_dir"]:
        return Path(os.path.expanduser(settings["cache_dir"])).absolute()
    if os.path.isabs(settings["cache_home"]):
        return Path(settings["cache_home"]) / "tilewright"
    home = os.path.expanduser("~")
    return Path(home, ".cache", "tilewright") if os.path.isabs(home) and os.path.isdir(home) else None


DEVICES = Devices()     # the machine is one for the whole process
