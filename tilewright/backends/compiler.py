"""A code generator as programs (and torch) see it: the options that it knows, and a text that stands for it in keys.

Tests: tests/compat/test_compile.py.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from tilewright.language.options import Options
from tilewright.runtime import knobs
from tilewright.runtime.devices import DEVICES, Settings
from tilewright.runtime.driver import WARP_SIZE, GPUTarget
from tilewright.runtime.launch_options import NAMES, make_options
from tilewright.targets.base import Target

_DIVISIBLE = [["tt.divisibility", 16]]


@dataclass(frozen=True)
class CpuOptions:
    """What `parse_options` gives: the options under their names, and those that only name the target."""

    num_warps: int = 4
    num_stages: int = 3
    num_ctas: int = 1
    maxnreg: int | None = None
    debug: bool = False
    sanitize_overflow: bool = False
    enable_fp_fusion: bool = False
    default_dot_input_precision: str = "tf32"
    backend_name: str = "cpu"
    warp_size: int = WARP_SIZE

    def hash(self) -> str:
        """A text that is equal for equal options, in every process."""
        text = "_".join(f"{field.name}-{getattr(self, field.name)}" for field in fields(self))
        return hashlib.sha256(text.encode()).hexdigest()

    def compiled_with(self) -> Options:
        """The same for the compiler."""
        given = {name: value for name, value in vars(self).items() if name in NAMES and name != "warp_size"}
        return make_options("compile", given, None, knobs.current())


@dataclass(frozen=True)
class CudaOptions(CpuOptions):
    """The same for NVIDIA GPUs."""

    backend_name: str = "cuda"


def min_dot_size(target: GPUTarget) -> Callable[[Any, Any], tuple[int, int, int]]:
    """What gives the smallest M, N and K of a `tl.dot` for the types of its operands: 1 each, on every target."""
    return lambda lhs_type, rhs_type: (1, 1, 1)


class BaseBackend:
    """What a code generator answers."""

    def __init__(self, target: GPUTarget) -> None:
        self.target = target

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        """Whether the class compiles for `target`."""
        raise NotImplementedError

    supports_native_tensor_specialization = True

    @staticmethod
    def get_int_specialization(value: int, align: bool = False, **facts: Any) -> str:
        """The mark of an integer argument: `D` if it is a multiple of 16."""
        return "D" if align and value % 16 == 0 else ""

    @staticmethod
    def get_tensor_specialization(tensor: Any, align: bool = False, **facts: Any) -> str:
        """The mark of a tensor argument: `D` if its address is a multiple of 16."""
        return "D" if align and tensor.data_ptr() % 16 == 0 else ""

    def hash(self) -> str:
        """Everything of the machine and of the compiler that generated code depends on."""
        raise NotImplementedError(f"{type(self).__name__} does not define hash()")

    def parse_options(self, options: Mapping[str, Any]) -> Any:
        """The options that the target knows."""
        raise NotImplementedError(f"{type(self).__name__} does not define parse_options()")

    def add_stages(self, stages: object, options: object, language: object = None) -> None:
        """Refused: Tilewright's passes are listed by its targets (`tilewright opt --help`)."""
        raise NotImplementedError("stages of code generation cannot be replaced by a table; Tilewright's passes are "
                                  "listed by its targets (`tilewright opt --help`)")

    def load_dialects(self, context: object) -> None:
        """Nothing has to be loaded."""

    def get_module_map(self) -> dict[str, Any]:
        """Modules of the language that a code generator replaces; none by default."""
        return {}

    @staticmethod
    def parse_attr(text: str) -> list[list[Any]]:
        """What a specialisation's mark says of an argument: `D` for a multiple of 16."""
        return list(_DIVISIBLE) if "D" in text else []


class TargetBackend(BaseBackend):
    """A code generator of Tilewright's own."""

    options: type[CpuOptions]

    def code_target(self, settings: Settings) -> Target:
        """What generates the code."""
        raise NotImplementedError

    def hash(self) -> str:
        """Everything of the machine and of the compiler that generated code depends on."""
        settings = knobs.current()
        target = self.code_target(settings)
        text = f"{target.key()} {DEVICES.compiler_key(settings, target.name)}"
        return hashlib.sha256(text.encode()).hexdigest()

    def parse_options(self, options: Mapping[str, Any]) -> CpuOptions:
        """The options that the target knows; others are for other targets."""
        known = {field.name for field in fields(self.options)}
        given = {name: value for name, value in options.items() if name in known and value is not None}
        defaults = {"enable_fp_fusion": knobs.read("default_fp_fusion"), "debug": knobs.read("debug"),
                    "default_dot_input_precision": knobs.read("f32_default") or CpuOptions.default_dot_input_precision}
        return self.options(**{**defaults, **given})

    def get_codegen_implementation(self, options: CpuOptions) -> dict[str, Any]:
        """Functions that a code generator gives to the frontend; ours give none."""
        return {}


class CpuBackend(TargetBackend):
    """The CPU of this machine."""

    options = CpuOptions

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        return target.backend == "cpu"

    def code_target(self, settings: Settings) -> Target:
        return DEVICES.cpu(settings)


class CudaBackend(TargetBackend):
    """NVIDIA GPUs of the target's compute capability (`arch` 90, or "sm_90a"); no GPU is needed to compile."""

    options = CudaOptions

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        return target.backend == "cuda"

    def code_target(self, settings: Settings) -> Target:
        return DEVICES.cuda_ahead(self.target.arch, settings)


__all__ = ["BaseBackend", "CpuBackend", "CpuOptions", "CudaBackend", "CudaOptions", "GPUTarget", "TargetBackend"]
