"""`compile`: machine code for an `ASTSource`.

Which tensors overlap is known at launches only, so there are two versions of the code: one for launches whose written
arguments overlap nothing and that reach less than 2**30 elements, and one for all others.
Tests: tests/compat/test_compile.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.backends import backends
from tilewright.backends.compiler import BaseBackend, CpuOptions, TargetBackend
from tilewright.compiler.compiled import CompiledKernel
from tilewright.compiler.source import ASTSource
from tilewright.diagnostics import shows_users_frames
from tilewright.frontend.dependencies import dependencies
from tilewright.language.options import ConstantArg, Signature
from tilewright.runtime import knobs
from tilewright.runtime.build import Build
from tilewright.runtime.devices import DEVICES
from tilewright.runtime.driver import GPUTarget, driver
from tilewright.runtime.launch_options import check_names


def make_backend(target: GPUTarget) -> TargetBackend:
    """The code generator for `target`; ValueError says which targets there are."""
    if not (hasattr(target, "backend") and hasattr(target, "arch")):
        hint = f"; write GPUTarget{target!r}" if isinstance(target, tuple) and len(target) == 3 else ""
        raise TypeError("a target is a GPUTarget, such as GPUTarget('cuda', 90, 32) or GPUTarget('cpu', '', 32), not "
                        f"{target!r} of type {type(target).__name__}{hint}")
    for backend in backends.values():
        if issubclass(backend.compiler, TargetBackend) and backend.compiler.supports_target(target):
            return backend.compiler(target)
    raise ValueError(f"no code generator for {target}; this version compiles for: {', '.join(backends)}")


@shows_users_frames
def compile(src: ASTSource, target: GPUTarget | None = None, options: Mapping[str, Any] | None = None,
            _env_vars: object = None) -> CompiledKernel:
    """Machine code for `src`; the target is the machine's own if none is given.

    `GPUTarget("cuda", 90, 32)` needs no GPU.  ValueError for a target that there is no code generator for, TypeError
    for what is no target, KeyError for an option that no target has.
    """
    if not isinstance(src, ASTSource):
        raise TypeError(f"compile takes an ASTSource, not {type(src).__name__}; a kernel's IR as a file is not taken")
    check_names(src.name, options or ())
    backend = make_backend(driver.default.get_current_target() if target is None else target)
    parsed = backend.parse_options({**(options or {}), **src.parse_options()})
    settings = knobs.current()
    code_target = backend.code_target(settings)
    values = [arg.value if isinstance(arg, ConstantArg) else None for arg in src.args().values()]
    build = Build(src.fn, Signature(src.args()), parsed.compiled_with(), dependencies(src.fn, values),
                  code_target, DEVICES.store(settings), lambda: DEVICES.compiler_key(settings, code_target.name),
                  reads=not settings["always_compile"], check=settings["check"])
    fast, safe = build.code(disjoint=True, wide=False), build.code(disjoint=False, wide=True)
    return CompiledKernel(src, parsed, backend, fast, safe, build.written)


__all__ = ["BaseBackend", "CpuOptions", "compile", "make_backend"]
