"""Knobs of triton (3.6 and 3.9) that mean nothing here, by group, with the reason.

They can be asked for with `hasattr` and `getattr(group, name, default)`, which take them for absent; any other use is
an error that says why.  Tests: tests/runtime/test_knobs.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_AMD = "AMD GPUs are out of Tilewright's scope"
_C = "Tilewright compiles no C or C++"
_PROTON = "tilewright.profiler has no such settings; perf sees kernels with TILEWRIGHT_PERF, NVIDIA's tools as any"
_REDIS = "there is no remote cache; `tilewright cache` packs kernels for other machines"
_TEXTS = "stages are inspected with `dump` and `tilewright opt`, not replaced"

_LISTS: tuple[tuple[str, str, str], ...] = (
    ("amd", "buffer_ops_analyze_small_tensor_range codegen_path dump_amdgcn dump_mir libhip_path scalarize_packed_fops "
            "swap_mir swap_mir_enable_misched use_async_copy use_block_pingpong use_buffer_atomics use_buffer_ops "
            "use_coexec_scheduler use_expert_scheduling use_in_thread_transpose", _AMD),
    ("build", "cc cudacrt_path cudart_path impl", _C),
    ("build", "backend_dirs", "its targets are its own; there are no plugins"),
    ("cache", "manager_class remote_manager_class", _REDIS),
    ("cache", "override_dir", _TEXTS),
    ("cache", "get_triton_dir", "its folder is the knob `cache_dir`, or `tilewright` in `cache_home`"),
    ("compilation", "override", _TEXTS),
    ("compilation", "store_binary_only", "the cache keeps what a compiled kernel shows in `asm`"),
    ("compilation", "dump_ir_extract_di_local_variables", "code carries lines, and no variables"),
    ("compilation", "use_ir_loc", "code carries the lines of the Python file, with `debug_info`"),
    ("compilation", "enable_asan", "the checked mode (TILEWRIGHT_CHECK=1) finds what an address sanitizer finds"),
    ("compilation", "front_end_debugging", "an internal error shows the compiler's frames by itself"),
    ("compilation", "instrumentation_mode", "its modes are of triton's own passes; see TILEWRIGHT_CHECK=1"),
    ("compilation", "fpsan_homomorphic_casts", "there is no floating-point sanitizer"),
    ("nvidia", "cuobjdump nvdisasm", "disassemblers are looked for on PATH and in the folder `cuda_home`"),
    ("nvidia", "ptxas_blackwell", "there is one assembler, of the knob `ptxas`"),
    ("nvidia", "dump_nvptx dump_ptxas_log", "the texts are in `asm` of a compiled kernel; `dump` writes them to files"),
    ("nvidia", "disable_ptxas_opt ptxas_options", "the assembler is called in one way, which is in the cache's key"),
    ("nvidia", "mock_ptx_version", "the version of PTX follows from the device"),
    ("nvidia", "libdevice_path", "tl.extra.libdevice needs no library"),
    ("nvidia", "libcuda_path", "the driver's library is found as the dynamic linker finds it"),
    ("proton", "cupti_lib_blackwell_dir cupti_lib_dir disable enable_hw_trace enable_nvtx hsa_runtime_library "
               "hsa_runtime_path profile_buffer_size profile_metric_buffer_size rocprofiler_sdk_include_path "
               "rocprofiler_sdk_lib_path rocprofiler_sdk_library roctracer_lib_path roctracer_library roctx_lib_path "
               "roctx_library", _PROTON),
    ("redis", "host key_format port", _REDIS),
    ("runtime", "override_arch", "code is for the device at hand; triton.compile takes a GPUTarget of any capability"),
)
ABSENT: Mapping[str, Mapping[str, str]] = MappingProxyType({
    group: {name: reason for g, names, reason in _LISTS if g == group for name in names.split()}
    for group in dict.fromkeys(g for g, _, _ in _LISTS)})


class AbsentKnobError(AttributeError, NotImplementedError):
    """A knob of triton's that has no meaning here."""
