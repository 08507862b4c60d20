"""Names of triton that have no meaning here: they can be imported, and say on use why there is nothing behind them.

`REFUSED` is the list, a reason for each group of names of a module.  Names that are not in it and not in the alias
either are an AttributeError, as in triton, so that programs that probe with `hasattr` for names of other versions
take the way they took.
Tests: tests/compat/test_surface.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NoReturn

_CASTS = "it is triton's own way to convert float8e4b15; write x.to(...)"
_AMD = "AMD GPUs are out of Tilewright's scope"
_INSIDE = "it is a part of triton's own compiler, which is made differently here"
_NATIVE = "triton builds C code with it; Tilewright needs no C compiler"
_CACHE = "Tilewright's cache of compiled kernels is its own: `tilewright cache --help`, knob `cache_dir`"
_AOT = "it writes C sources for an ahead-of-time build; compile with tilewright.compiler.compile instead"
_KNOBS = "it is the machinery of triton's knobs; Tilewright's are listed by `tilewright knobs`"

_PROTON = "profiles here have sessions, scopes and trees; see tilewright/profiler"

_COMBINE = ("_argmax_combine _argmax_combine_tie_break_fast _argmax_combine_tie_break_left _argmin_combine "
            "_argmin_combine_tie_break_fast _argmin_combine_tie_break_left _bitonic_merge _bitonic_merge_hypercube "
            "_compare_and_swap _elementwise_max _elementwise_min _get_flip_dim _indicator _is_power_of_two _or_combine "
            "_pick_sum_dtype _prod_combine _sum_combine _xor_combine sort_impl")

# module -> (names, reason); "*" stands for all names of a module that has nothing else
_LISTS: Mapping[str, tuple[tuple[str, str], ...]] = MappingProxyType({
    "triton.language": (("slice tensor_descriptor_type", _INSIDE),),
    "triton.language.core": (
        ("CONSTEXPR_0 binary_op_type_legalization builtin_max builtin_min check_bit_width dispatch extern "
         "is_negative_zero slice slice_type tensor_descriptor_base_type tensor_descriptor_type _tensor_member_fn "
         "_unwrap_iterable _normalize_tuple _wrap_axis _reduce_with_indices _unwrap_shape _shape_check_impl _unsplat",
         _INSIDE),
        ("extern_elementwise", "it calls into a library of GPU code; use tl.extra.libdevice"),
    ),
    "triton.language.standard": ((_COMBINE, _INSIDE),),
    "triton.language.semantic": (("*", _INSIDE),),
    "triton.language.extra": (("is_pkg module module_finder module_from_spec module_name modules spec", _INSIDE),),
    "triton.language.extra.cuda": (("convert_custom_float8_sm70 convert_custom_float8_sm80", _CASTS),),
    "triton.language.extra.cuda.utils": (
        ("convert_custom_float8 convert_custom_float8_sm70 convert_custom_float8_sm80 convert_float16_to_fp8e4b15 "
         "convert_fp8e4b15_to_float16", _CASTS),),
    "triton.language.extra.hip": (("*", _AMD),),
    "triton.language.extra.hip.libdevice": (("*", _AMD),),
    "triton.language.extra.hip.utils": (("*", _AMD),),
    "triton.runtime": (("RedisRemoteCacheBackend RemoteCacheBackend", _CACHE),),
    "triton.runtime.jit": (
        ("BoundConstexprFunction DependenciesFinder GLUON_MODULE JITCallable TRITON_MODULE compute_cache_key "
         "convert_to_tuple_if_list create_function_from_signature get_full_name serialize_specialization_data "
         "type_canonicalisation_dict get_jit_fn_file_line", _INSIDE),),
    "triton.runtime.cache": (
        ("CacheManager FileCacheManager RedisRemoteCacheBackend RemoteCacheBackend RemoteCacheManager get_cache_key "
         "get_cache_manager get_dump_manager get_override_manager make_so_cache_key", _CACHE),),
    "triton.runtime.driver": (("DriverConfig", _INSIDE),),
    "triton.runtime.build": (("*", _NATIVE),),
    "triton.runtime._allocation": (("set_profile_allocator", "there is no memory of a profiler's own"),),
    "triton.runtime.interpreter": (("*", "the interpreter is made differently here; TRITON_INTERPRET=1 turns it on"),),
    "triton.compiler": (("IRSource code_generator get_cache_key", _INSIDE),),
    "triton.compiler.compiler": (
        ("AsmDict CompileTimer IRSource arg_type_pattern convert_type_repr filter_traceback max_shared_mem parse "
         "prototype_pattern ptx_arg_type_pattern ptx_prototype_pattern", _INSIDE),),
    "triton.backends": (("DriverBase", _INSIDE),),
    "triton.backends.compiler": (("Language", _INSIDE),),
    "triton.backends.driver": (("*", _INSIDE),),
    "triton.backends.nvidia.compiler": (
        ("get_ptxas get_ptxas_version", "the assembler is found by the knobs `ptxas` and `cuda_home`"),
        ("ptx_get_version sm_arch_from_capability", _INSIDE),),
    "triton.backends.nvidia.driver": (
        ("CudaLauncher CudaUtils ty_to_cpp", _NATIVE),
        ("libcuda_dirs", "the driver's library is found as the dynamic linker finds it"),),
    "triton.profiler": (("mode specs", _PROTON),),
    "triton.profiler.viewer": (
        ("apply_diff_profile derive_metrics emit_warnings filter_frames format_frames get_min_time_bytes "
         "get_min_time_flops get_raw_metrics main match_available_metrics remove_frames show_metrics", _PROTON),),
    "triton.tools.build_extern": (("*", "it writes bindings of GPU libraries; tl.extra.libdevice has the functions"),),
    "triton.tools.compile": (("*", _AOT),),
    "triton.tools.link": (("*", _AOT),),
    "triton.tools.disasm": (
        ("parseCtrl processSassLines", "get_sass gives the disassembler's own text; there are no control codes"),),
    "triton.tools.ragged_tma": (
        ("to_ragged_indices", "descriptors are the tensor's own here, without two more dimensions; use load_ragged"),),
    "triton.knobs": (
        ("BuildImpl ClassType CompilationListener CompileTimes Env F GetType InitHandleHook JITHook "
         "JITHookCompileInfo LaunchHook NvidiaTool PipelineStagesHook SetType autotuning_knobs base_knobs build_knobs "
         "cache_knobs compilation_knobs env env_base env_bool env_class env_int env_nvidia_tool env_opt_bool "
         "env_opt_str env_str env_str_callable_default knobs_type language_knobs nvidia_knobs proton_knobs "
         "redis_knobs refresh_knobs runtime_knobs setenv toenv", _KNOBS),
        ("amd_knobs", _AMD)),
})
REFUSED: Mapping[str, Mapping[str, str]] = MappingProxyType({
    module: {name: reason for names, reason in lists for name in names.split()} for module, lists in _LISTS.items()})


class RefusedName:
    """What stands for a refused name; whatever is done with it raises NotImplementedError."""

    def __init__(self, name: str, reason: str) -> None:
        self._name, self._reason = name, reason

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(f"{self._name} is not in Tilewright: {self._reason}")

    __call__ = __getitem__ = __enter__ = __mro_entries__ = __instancecheck__ = _refuse

    def __iter__(self) -> Iterator[Any]:
        self._refuse()

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):          # Python's own questions, such as those of `inspect`
            raise AttributeError(attribute)
        self._refuse()

    def __setattr__(self, attribute: str, value: Any) -> None:
        if attribute not in ("_name", "_reason"):
            self._refuse()
        super().__setattr__(attribute, value)

    def __repr__(self) -> str:
        return f"<{self._name}: not in Tilewright>"


def refused_in(module: str, others: Callable[[str], Any] | None = None) -> Callable[[str], Any]:
    """The `__getattr__` of an alias module: `others` first, then the refusals of `module`, else AttributeError."""
    names = REFUSED[module]

    def get(name: str) -> Any:
        if others is not None:
            try:
                return others(name)
            except AttributeError:
                if name not in names:
                    raise
        reason = names.get(name, "" if name.startswith("_") and "*" in names else names.get("*", ""))
        if not reason:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return RefusedName(f"{module}.{name}", reason)

    return get
