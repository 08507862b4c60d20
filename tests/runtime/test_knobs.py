"""The table of knobs: environment, precedence, scoped override."""

import threading

import pytest

import tilewright as triton
import tilewright.language as tl
from tilewright.diagnostics import KernelAssertionError
from tilewright.runtime import knobs
from tilewright.runtime.absent_knobs import ABSENT


def test_default_without_environment(monkeypatch):
    for variable in knobs.TABLE["num_threads"].variables:
        monkeypatch.delenv(variable, raising=False)
    assert knobs.read("num_threads") == 0
    assert knobs.num_threads == 0


def test_own_variable_wins_over_tritons(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert knobs.read("interpret") is True
    monkeypatch.setenv("TILEWRIGHT_INTERPRET", "0")
    assert knobs.read("interpret") is False


@pytest.mark.parametrize("text, value", [("1", True), ("ON", True), ("yes", True), ("0", False), ("off", False),
                                         ("", False)])
def test_bool_words(monkeypatch, text, value):
    monkeypatch.setenv("TILEWRIGHT_DEBUG", text)
    assert knobs.read("debug") is value


@pytest.mark.parametrize("variable, text, name", [("TILEWRIGHT_DEBUG", "maybe", "debug"),
                                                  ("TILEWRIGHT_NUM_THREADS", "two", "num_threads")])
def test_a_value_that_means_nothing_names_the_variable(monkeypatch, variable, text, name):
    monkeypatch.setenv(variable, text)
    with pytest.raises(ValueError, match=f"{variable}='{text}'"):
        knobs.read(name)


def test_scope_overrides_and_ends(monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_VERIFY", "0")
    with knobs.scope(verify=2):
        assert knobs.read("verify") == 2
        with knobs.scope(interpret=True):
            assert (knobs.read("verify"), knobs.read("interpret")) == (2, True)
    assert knobs.read("verify") == 0


def test_scope_ends_after_an_error():
    with pytest.raises(RuntimeError, match="inside"), knobs.scope(verify=2):
        raise RuntimeError("inside")
    assert "verify" not in knobs.overrides()


def test_scope_does_not_reach_other_threads():
    seen = []
    with knobs.scope(num_threads=7):
        thread = threading.Thread(target=lambda: seen.append(knobs.overrides()))
        thread.start()
        thread.join()
    assert "num_threads" not in seen[0]


def test_scope_refuses_unknown_names_and_wrong_kinds():
    with pytest.raises(KeyError, match="no knob 'intepret'"), knobs.scope(intepret=True):
        pass
    with pytest.raises(TypeError, match="takes int, not bool"), knobs.scope(num_threads=True):
        pass


def test_unknown_attribute():
    with pytest.raises(AttributeError, match="no knob 'nothing'"):
        knobs.nothing  # noqa: B018


def test_every_row_is_complete():
    for name, knob in knobs.TABLE.items():
        assert knob.name == name and knob.doc.endswith(".") and knob.variables
        assert all(v.startswith(("TILEWRIGHT_", "TRITON_", "XDG_", "CUDA_")) for v in knob.variables)
        assert knob.variables[0].startswith("TILEWRIGHT_"), "the own name has to win"
        assert isinstance(knob.default, knob.kind)


def test_names_of_triton():
    assert knobs.runtime.debug is knobs.read("debug") and knobs.language.fp32_default == knobs.read("f32_default")
    assert {k.triton for k in knobs.TABLE.values() if k.triton} >= {
        "runtime.interpret", "compilation.always_compile", "cache.dir"}
    assert "debug" in dir(knobs.runtime)
    with pytest.raises(AttributeError, match=r"no knob runtime\.nothing; there are runtime\.interpret"):
        knobs.runtime.nothing  # noqa: B018
    with pytest.raises(AttributeError, match=r"no knob cache\.nothing"):
        knobs.cache.nothing = 1


def test_assigning_counts_until_the_scope_ends(monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_DEBUG", "0")
    with knobs.runtime.scope():
        knobs.runtime.debug = True
        assert knobs.read("debug") is True and knobs.overrides()["debug"] is True
        del knobs.runtime.debug
        assert knobs.read("debug") is False
        knobs.runtime.debug = True
        with pytest.raises(TypeError, match="takes bool"):
            knobs.runtime.debug = "yes"
    assert knobs.read("debug") is False and "debug" not in knobs.overrides()


def test_knobs_are_assigned_on_the_module_too(monkeypatch):
    for variable in ("TILEWRIGHT_DEBUG", "TRITON_DEBUG", "TILEWRIGHT_NUM_THREADS"):
        monkeypatch.delenv(variable, raising=False)
    with knobs.scope():
        triton.knobs.debug = True
        assert knobs.read("debug") is triton.knobs.debug is True and knobs.overrides()["debug"] is True
        triton.knobs.num_threads = 1
        assert knobs.read("num_threads") == 1
        del triton.knobs.debug
        assert knobs.read("debug") is False
        with pytest.raises(TypeError, match="knob debug takes bool, not str"):
            triton.knobs.debug = "x"
        with pytest.raises(AttributeError, match="no knob 'debgu'; there are interpret, debug"):
            triton.knobs.debgu = True
        with pytest.raises(AttributeError, match=r"knobs\.runtime is a group of knobs; .* knobs\.runtime\.interpret"):
            triton.knobs.runtime = True
        with pytest.raises(AttributeError, match="no knob 'debgu'"):
            del triton.knobs.debgu
    assert "num_threads" not in knobs.overrides()


def test_an_assigned_knob_counts_for_launches():
    @triton.jit
    def says_no(n):
        tl.device_assert(n < 0, "never")

    with knobs.scope():
        triton.knobs.debug = True
        with pytest.raises(KernelAssertionError, match="never"):
            says_no[(1,)](1)


# the groups of triton.knobs and their names, of releases 3.6 and 3.9
OF_TRITON = """
amd: buffer_ops_analyze_small_tensor_range codegen_path dump_amdgcn dump_mir libhip_path scalarize_packed_fops
    swap_mir swap_mir_enable_misched use_async_copy use_block_pingpong use_buffer_atomics use_buffer_ops
    use_coexec_scheduler use_expert_scheduling use_in_thread_transpose
autotuning: cache listener print
build: backend_dirs cc cudacrt_path cudart_path impl
cache: dir dump_dir get_triton_dir home_dir manager_class override_dir remote_manager_class
compilation: allow_non_constexpr_globals always_compile disable_line_info dump_ir dump_ir_extract_di_local_variables
    enable_asan fpsan_homomorphic_casts front_end_debugging instrumentation_mode listener override store_binary_only
    use_ir_loc
language: default_fp_fusion force_disable_fp_fusion fp32_default fp_fusion_enabled
nvidia: cuobjdump disable_ptxas_opt dump_nvptx dump_ptxas_log libcuda_path libdevice_path mock_ptx_version nvdisasm
    ptxas ptxas_blackwell ptxas_options
proton: cupti_lib_blackwell_dir cupti_lib_dir disable enable_hw_trace enable_nvtx hsa_runtime_library
    hsa_runtime_path profile_buffer_size profile_metric_buffer_size rocprofiler_sdk_include_path
    rocprofiler_sdk_lib_path rocprofiler_sdk_library roctracer_lib_path roctracer_library roctx_lib_path
    roctx_library
redis: host key_format port
runtime: add_stages_inspection_hook debug interpret jit_cache_hook jit_post_compile_hook kernel_load_end_hook
    kernel_load_start_hook kernel_unload_hook launch_enter_hook launch_exit_hook override_arch
"""


def test_every_knob_of_triton_is_there_or_says_why_not():
    lines = OF_TRITON.replace("\n    ", " ").strip().splitlines()
    found = {(group, name) for group, _, names in (line.partition(":") for line in lines) for name in names.split()}
    for group, name in found:
        if name in ABSENT.get(group, {}):
            assert not hasattr(knobs.GROUPS[group], name) and ABSENT[group][name]
            with pytest.raises(NotImplementedError, match=rf"knobs.{group}.{name} is not in Tilewright: "):
                setattr(knobs.GROUPS[group], name, True)
        else:
            getattr(knobs.GROUPS[group], name)
    assert {(group, name) for group, names in ABSENT.items() for name in names} <= found


def test_groups_tell_and_reset_their_knobs():
    with knobs.language.scope():
        knobs.language.default_fp_fusion = True
        assert knobs.language.knobs["default_fp_fusion"] is True
        assert knobs.language.fp_fusion_enabled() and not knobs.language.fp_fusion_enabled(False)
        knobs.language.force_disable_fp_fusion = True
        assert not knobs.language.fp_fusion_enabled(True)
        assert knobs.language.reset() is knobs.language
        assert not knobs.language.knobs["default_fp_fusion"]


@pytest.mark.parametrize("variable, name", [
    ("TILEWRIGHT_NUM_THREADS", "num_threads"), ("TILEWRIGHT_TIMEOUT", "timeout"),
    ("TILEWRIGHT_CACHE_SIZE", "cache_size")])
@pytest.mark.parametrize("text", ["-1", "-0.5", "nan", "inf", ""])
def test_numbers_are_0_or_more(monkeypatch, variable, name, text):
    monkeypatch.setenv(variable, text)
    with pytest.raises(ValueError, match=f"{variable}='{text}': expected a .*number, 0 or more"):
        knobs.read(name)


@pytest.mark.parametrize("value", [-1, -(1 << 40)])
def test_numbers_of_a_scope_are_0_or_more(value):
    with pytest.raises(ValueError, match="num_threads takes a whole number, 0 or more, not -"), \
            knobs.scope(num_threads=value):
        pass


@pytest.fixture
def untold():
    knobs.tell_of_unknown_variables.cache_clear()
    yield
    knobs.tell_of_unknown_variables.cache_clear()


def test_a_variable_that_sets_nothing_is_told_of_once(monkeypatch, untold):
    monkeypatch.setenv("TILEWRIGHT_DEBUGG", "1")
    monkeypatch.setenv("TILEWRIGHT_WHATEVER_XYZ", "1")
    with pytest.warns(RuntimeWarning) as seen:
        knobs.snapshot()
        knobs.snapshot()
    told = [str(w.message) for w in seen]
    assert told == ["the environment has TILEWRIGHT_DEBUGG, which sets nothing; did you mean TILEWRIGHT_DEBUG?",
                    "the environment has TILEWRIGHT_WHATEVER_XYZ, which sets nothing; `tilewright knobs` lists what "
                    "there is"]
    assert all(w.filename == __file__ for w in seen)


def test_decorating_tells_of_it(monkeypatch, untold):
    monkeypatch.setenv("TILEWRIGHT_INTERPRT", "1")
    with pytest.warns(RuntimeWarning, match="did you mean TILEWRIGHT_INTERPRET") as seen:
        triton.jit(test_decorating_tells_of_it)
    assert seen[0].filename == __file__


def test_known_variables_are_not_told_of(monkeypatch, untold, recwarn):
    for knob in knobs.TABLE.values():
        for variable in knob.variables:
            monkeypatch.setenv(variable, "1")
    monkeypatch.setenv("TILEWRIGHT_TEST_ON_GPU", "1")
    knobs.tell_of_unknown_variables()
    assert not recwarn.list
