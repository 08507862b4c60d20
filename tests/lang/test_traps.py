"""The public bug reports that this project answers, and the tests that do: none without one, none without an engine.

Numbers are issues at triton-lang/triton, or of the repository that stands before them.  A test either takes the
fixture `launch`, so that it runs on every engine and in checked mode, or is about what happens before any engine.
"""

import importlib
import inspect
from dataclasses import replace

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tilewright.targets.cpu.target import CpuTarget
from tilewright.targets.llvm.toolchain import host_machine

REDUCTIONS, NUMBERS = "tests.lang.test_traps_reductions", "tests.lang.test_traps_numbers"
MEMORY, TILES = "tests.lang.test_traps_memory", "tests.lang.test_traps_tiles"
DOT, TUNING = "tests.lang.test_values_dot", "tests.runtime.test_autotune"

ANSWERS = {
    # reductions
    "359": (REDUCTIONS, "test_359_a_sum_is_counted_once"),
    "429": (REDUCTIONS, "test_429_sum_over_sum"),
    "1883": (REDUCTIONS, "test_1883_small_tiles_all_axes"),
    "5327": (REDUCTIONS, "test_5327_num_warps_does_not_change_a_sum"),
    "3013": (REDUCTIONS, "test_3013_reduced_axis_of_size_one"),
    "9022": (TILES, "test_9022_and_7349_extremes_with_nan"),
    "6635": (REDUCTIONS, "test_6635_repeated_argmax_is_top_k"),
    "7349": (TILES, "test_7349_one_nan_among_infinities"),
    "7264": (REDUCTIONS, "test_7264_replicas_have_the_same_bits"),
    # scans, sorting
    "2361": (REDUCTIONS, "test_2361_cumsum_in_a_loop"),
    "2359": (REDUCTIONS, "test_2359_a_scan_keeps_the_order_of_its_operands"),
    "8412": (REDUCTIONS, "test_8412_axes_of_a_scan"),
    "2298": (TILES, "test_2298_asserts_and_prints_see_each_element_once"),
    "5999": (REDUCTIONS, "test_5999_sort_is_a_permutation_with_nan"),
    # atomics
    "6376": (MEMORY, "test_6376_atomic_max_of_minus_zero"),
    "2355": (MEMORY, "test_2355_atomics_of_all_types"),
    "10896": (MEMORY, "test_10896_atomics_broadcast_as_loads_do"),
    "9116": (MEMORY, "test_9116_compare_and_swap_of_floats"),
    # products
    "5669": (DOT, "test_accumulate_int8"),
    "3566": (NUMBERS, "test_3566_int8_dot_is_int32"),
    "6157": (TILES, "test_6157_products_of_batches"),
    "3382": (TILES, "test_3382_a_product_broadcast_into_a_batched_one"),
    "10143": (TILES, "test_10143_products_of_other_types_are_refused"),
    "3435": (TILES, "test_10143_products_of_other_types_are_refused"),
    "9349": (TILES, "test_9349_a_product_of_int8_needs_no_special_machine"),
    "10590": (TILES, "test_10590_a_recurrence_has_the_same_bits_in_every_run"),
    # masks and padding
    "737": (MEMORY, "test_737_masked_lanes_do_not_leak"),
    "9917": (MEMORY, "test_737_masked_lanes_do_not_leak"),
    "10448": (MEMORY, "test_737_masked_lanes_do_not_leak"),
    "2138": (TILES, "test_2138_padding_of_block_pointers"),
    "intel 6513": (TILES, "test_intel_6513_boundary_of_a_column_major_block"),
    "10336": (TILES, "test_10336_a_view_that_is_read_beyond_its_elements"),
    # broadcasting, order of memory, shapes
    "7957": (MEMORY, "test_7957_a_row_through_memory"),
    "2499": (MEMORY, "test_7957_a_row_through_memory"),
    "8259": (MEMORY, "test_8259_load_of_what_was_stored_in_a_pipelined_loop"),
    "11870": (TILES, "test_11870_what_was_stored_beside_a_load_of_fp16"),
    "10924": (TILES, "test_11870_what_was_stored_beside_a_load_of_fp16"),
    "3071": (TILES, "test_3071_a_sum_of_a_broadcast_product"),
    "6154": (TILES, "test_6154_repeated_joins"),
    "8854": (TILES, "test_8854_cat_keeps_the_order"),
    "4371": (TILES, "test_4371_interleaving_a_pointer_is_an_error"),
    # integers
    "619": (NUMBERS, "test_619_division_truncates"),
    "954": (NUMBERS, "test_954_cdiv_of_negatives"),
    "4676": (NUMBERS, "test_4676_division_by_zero_is_one_value"),
    # control flow
    "10950": (NUMBERS, "test_10950_negative_run_time_step"),
    "11242": (NUMBERS, "test_11242_a_zero_step_is_an_error"),
    "2567": (NUMBERS, "test_2567_return_in_a_loop_of_a_callee"),
    "2576": (TILES, "test_2576_return_out_of_a_while_loop"),
    "5768": (NUMBERS, "test_5768_a_result_may_be_ignored"),
    "2672": (NUMBERS, "test_2672_any_trip_count"),
    "8139": (MEMORY, "test_8139_data_dependent_stores_in_a_pipelined_loop"),
    "11153": (MEMORY, "test_11153_stores_of_one_program_beside_a_sum"),
    # compile-time values, caches
    "10451": (NUMBERS, "test_10451_tuples_as_constexpr"),
    "10279": (NUMBERS, "test_10451_tuples_as_constexpr"),
    "2001": (TILES, "test_2001_offsets_chosen_at_compile_time"),
    "vllm 41871": (__name__, "test_vllm_41871_code_of_another_machine_is_not_loaded"),
    # tuning
    "6547": (MEMORY, "test_6547_a_tuned_kernel_in_place_is_applied_once"),
    "781": (MEMORY, "test_6547_a_tuned_kernel_in_place_is_applied_once"),
    "54": (MEMORY, "test_6547_a_tuned_kernel_in_place_is_applied_once"),
    "7181": (TILES, "test_7181_and_3004_accumulation_under_tuning"),
    "3004": (TILES, "test_7181_and_3004_accumulation_under_tuning"),
    # types and rounding
    "10730": (NUMBERS, "test_10730_literals_keep_fp16"),
    "1891": (TILES, "test_1891_and_1441_types_of_fp16"),
    "1441": (TILES, "test_1891_and_1441_types_of_fp16"),
    "5466": (NUMBERS, "test_5466_literal_and_variable_compare_equal"),
    "4697": (TILES, "test_4697_bf16_times_fp8"),
    "11753": (NUMBERS, "test_11753_fp8_rounds_to_even"),
    "11897": (NUMBERS, "test_11753_fp8_rounds_to_even"),
    "11784": (NUMBERS, "test_11784_all_fp8_codes_widen"),
    "8322": (TILES, "test_8322_every_fp16_narrows_to_e5m2"),
    # prints, offsets, descriptors
    "2486": (TILES, "test_2486_and_4353_prints_are_whole"),
    "4353": (TILES, "test_2486_and_4353_prints_are_whole"),
    "6748": (NUMBERS, "test_6748_offsets_beyond_int32"),
    "1058": (NUMBERS, "test_6748_offsets_beyond_int32"),
    "832": (NUMBERS, "test_6748_offsets_beyond_int32"),
    "dion 103": (NUMBERS, "test_6748_offsets_beyond_int32"),
    "10474": (TILES, "test_10474_descriptors_made_in_a_pipelined_loop"),
    "11148": (MEMORY, "test_11148_conditional_masked_store"),
}
WITHOUT_ENGINE = {"vllm 41871", "6547", "781", "54", "7181", "3004"}       # caches and tuning


@pytest.mark.parametrize("report", ANSWERS)
def test_a_report_has_a_test_on_every_engine(report):
    module, name = ANSWERS[report]
    test = getattr(importlib.import_module(module), name)
    assert ("launch" in inspect.signature(test).parameters) != (report in WITHOUT_ENGINE)


def test_every_test_of_a_report_is_named():
    named = {name for _, name in ANSWERS.values()}
    for module in (REDUCTIONS, NUMBERS, MEMORY, TILES):
        for name in vars(importlib.import_module(module)):
            if name.startswith("test_") and any(c.isdigit() for c in name.split("_")[1]):
                assert name in named or name in {"test_8412_the_error_names_the_range"}, name


@triton.jit
def doubles(x, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(x + i, tl.load(x + i) * 2)


def test_vllm_41871_code_of_another_machine_is_not_loaded(tmp_path):
    """The whole description of the machine is in the key, with LLVM's version; a cache that is warm for one is cold
    for every other."""
    machine = host_machine()
    keys = {CpuTarget(machine).key()}
    for field in ("triple", "cpu", "features", "llvm"):
        keys.add(CpuTarget(replace(machine, **{field: getattr(machine, field) + "-other"})).key())
    assert len(keys) == 5
    with triton.knobs.scope(cache_dir=str(tmp_path / "cache"), disk_cache=True):
        texts = []
        for cpu in ("x86-64", "x86-64-v2", "x86-64"):
            with triton.knobs.scope(cpu=cpu):
                x = np.ones(16, np.float32)
                compiled = triton.jit(doubles.fn)[(1,)](x, N=16)
                assert (x == 2).all()
                texts.append(compiled.asm["llir"])
        assert texts[0] == texts[2]
