"""Options of a launch: which keyword arguments are options, their checks, and the `Options` that the compiler gets.

An option that is not given, or given as None, has its default: of `@jit(debug=...)`, else of the knobs, else of
`Options`.  Names that only a GPU target has a use for are checked and kept in the key.
Tests: tests/runtime/test_launch_options.py.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tilewright.language.options import Options

PRECISIONS = ("ieee", "tf32", "tf32x3", "bf16x3", "bf16x6")
# options of NVIDIA launches without a meaning on other targets, and the types of their values
_GPU_ONLY: Mapping[str, tuple[type, ...]] = {
    "launch_cooperative_grid": (bool,), "launch_pdl": (bool,), "warp_size": (int,), "ptx_version": (int,),
    "max_num_imprecise_acc_default": (int,), "arch": (str, int), "extern_libs": (dict, tuple),
}
NAMES = frozenset({"check", "num_warps", "num_stages", "num_ctas", "maxnreg", "debug", "sanitize_overflow",
                   "enable_fp_fusion", "default_dot_input_precision", *_GPU_ONLY})

# Further ones of triton's targets (`CUDAOptions`, `HIPOptions` of 3.6, and what torch adds): `compile` takes them as
# options for another target.
_OF_OTHERS = frozenset({
    "allow_flush_denorm", "allowed_dot_input_precisions", "backend_name", "deprecated_fp8_dot_operand_dtypes",
    "enable_reflect_ftz", "instrumentation_mode", "ir_override", "kpack", "matrix_instr_nonkdim", "ptx_options",
    "schedule_hint", "supported_fp8_dtypes", "waves_per_eu", "num_consumer_groups", "num_buffers_warp_spec"})


def unknown_keyword(kernel: str, name: str, parameters: Iterable[str]) -> KeyError:
    """The error for a keyword that is neither a parameter nor an option, with the names that look like it."""
    hint = _names_like(name, [*parameters, *sorted(NAMES)], "parameters and options")
    return UnknownKeywordError(f"Keyword argument {name} was specified but unrecognised (in a launch of {kernel}); "
                               f"{hint}")


def check_names(kernel: str, given: Iterable[str]) -> None:
    """KeyError for an option of `compile` that neither Tilewright nor triton, for any of its targets, has."""
    for name in given:
        if name not in NAMES and name not in _OF_OTHERS:
            hint = _names_like(name, sorted(NAMES), "options")
            raise UnknownKeywordError(f"option {name} was specified but unrecognised (in `options` of compile, for "
                                      f"{kernel}); {hint}")


def _names_like(name: str, known: Sequence[str], what: str) -> str:
    near = difflib.get_close_matches(name, known, 3, 0.6)
    return f"did you mean {' or '.join(map(repr, near))}?" if near else f"{what}: {', '.join(known)}"


def is_checked(given: Mapping[str, Any], setting: bool) -> bool:
    """Whether a launch with these options runs in checked mode; `setting` is the knob's."""
    check = given.get("check")
    return setting if check is None else bool(check)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """"; did you mean 'x'?" with the name that is most like `name`, or nothing."""
    near = difflib.get_close_matches(name, list(known), 1)
    return f"; did you mean {near[0]!r}?" if near else ""


class UnknownKeywordError(KeyError):
    """A keyword of a launch that means nothing; shown without the quotes that a KeyError has."""

    def __str__(self) -> str:
        return str(self.args[0])


def _power_of_two(value: Any) -> bool:
    return type(value) is int and value > 0 and value & (value - 1) == 0


def _check(kernel: str, name: str, value: Any) -> None:
    """TypeError or ValueError for an option's value that no target accepts."""
    if name in ("num_warps", "num_ctas"):
        if not _power_of_two(value):
            raise ValueError(f"{kernel}: {name} must be a power of 2, not {value!r}")
    elif name in ("num_stages", "maxnreg"):
        if type(value) is not int or value < 0:
            raise ValueError(f"{kernel}: {name} must be an int >= 0, not {value!r}")
    elif name in ("debug", "sanitize_overflow", "enable_fp_fusion"):
        if not isinstance(value, bool | int):
            raise TypeError(f"{kernel}: {name} must be a bool, not {value!r}")
    elif name == "default_dot_input_precision":
        if value not in PRECISIONS:
            raise ValueError(f"{kernel}: {name} must be one of {', '.join(PRECISIONS)}, not {value!r}")
    elif not isinstance(value, _GPU_ONLY[name]):
        kinds = " or ".join(t.__name__ for t in _GPU_ONLY[name])
        raise TypeError(f"{kernel}: {name} must be {kinds}, not {value!r}")


def make_options(kernel: str, given: Mapping[str, Any], debug: bool | None, settings: Mapping[str, Any]) -> Options:
    """The options of a launch; `debug` is the decorator's, `settings` are the knobs that count for it."""
    values: dict[str, Any] = {
        "debug": bool(settings["debug"] if debug is None else debug),
        "enable_fp_fusion": settings["default_fp_fusion"],
        "check_bounds": settings["check_bounds"],
        "line_info": settings["debug_info"] and not settings["disable_line_info"],
    }
    if settings["f32_default"]:
        values["default_dot_input_precision"] = settings["f32_default"]
    extra: list[tuple[str, Any]] = []
    if settings["allow_non_constexpr_globals"]:
        extra.append(("allow_non_constexpr_globals", True))
    for name, value in given.items():
        if value is None or name == "check":        # how to run, not what to compile: runtime/checked.py
            continue
        _check(kernel, name, value)
        if name in _GPU_ONLY:
            extra.append((name, _frozen(value)))
        else:
            values[name] = bool(value) if name in ("debug", "sanitize_overflow", "enable_fp_fusion") else value
    if settings["force_disable_fp_fusion"]:
        values["enable_fp_fusion"] = False
    _check(kernel, "default_dot_input_precision", values.get("default_dot_input_precision", PRECISIONS[0]))
    return Options(**values, extra=tuple(sorted(extra)))


def _frozen(value: Any) -> Any:
    return tuple(sorted(value.items())) if isinstance(value, dict) else value
