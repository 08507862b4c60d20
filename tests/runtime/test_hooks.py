"""Hooks around compilations, loads and launches, native launches among them."""

import gc
import threading

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tilewright import knobs

pytestmark = pytest.mark.unchecked("hooks are of compilations and of launches of what is compiled")


@pytest.fixture(autouse=True)
def clean():
    with knobs.runtime.scope():
        yield


@triton.jit
def double(x, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)


def arrays():
    return np.arange(8, dtype=np.float32), np.zeros(8, np.float32)


def test_launch_hooks_see_every_launch():
    seen = []

    def enter(told):
        seen.append(("enter", told.get()["name"]))

    def leave(told):
        seen.append(("exit", told.get()["name"]))

    x, out = arrays()
    for _ in range(5):      # native from the fourth launch on
        double[(1,)](x, out, 8, 8)
    assert not knobs.runtime.launch_enter_hook and not seen
    knobs.runtime.launch_enter_hook.add(enter)
    knobs.runtime.launch_exit_hook.add(leave)
    knobs.runtime.launch_exit_hook.add(leave)
    bound = double[(1,)]
    for _ in range(3):
        bound(x, out, 8, 8)
    assert seen == [("enter", "double"), ("exit", "double")] * 3
    knobs.runtime.launch_enter_hook.remove(enter)
    knobs.runtime.launch_exit_hook.remove(leave)
    bound(x, out, 8, 8)
    assert len(seen) == 6 and not knobs.runtime.launch_enter_hook
    np.testing.assert_array_equal(out, 2 * x)


def test_launch_hooks_hold_on_other_threads():
    seen = []
    x, out = arrays()
    knobs.runtime.launch_enter_hook = lambda told: seen.append(threading.current_thread().name)
    thread = threading.Thread(target=lambda: double[(1,)](x, out, 8, 8), name="other")
    thread.start()
    thread.join()
    assert seen == ["other"]


def test_the_scope_of_the_group_ends_hooks():
    seen = []
    x, out = arrays()
    with knobs.runtime.scope():
        knobs.runtime.launch_enter_hook.add(seen.append)
        double[(1,)](x, out, 8, 8)
    double[(1,)](x, out, 8, 8)
    assert len(seen) == 1


def test_launch_metadata_is_computed_when_asked_for():
    calls = []

    def metadata(grid, kernel, args):
        calls.append(grid)
        return {"flops": args["n"] * 3, "warps": kernel.num_warps}

    @triton.jit(launch_metadata=metadata)
    def counted(out, n):
        tl.store(out, n)

    told = []
    knobs.runtime.launch_enter_hook.add(told.append)
    counted[(4,)](np.zeros(1, np.int32), 7)
    assert not calls
    assert told[0].get()["flops"] == 21 and told[0].get()["warps"] == 4 and calls == [(4, 1, 1)]


def test_a_compiled_kernel_that_is_launched_again_calls_them():
    x, out = arrays()
    compiled = double[(1,)](x, out, 8, 8)
    order = []
    for name in "ab":
        knobs.runtime.launch_enter_hook.add(lambda told, name=name: order.append(name))
        knobs.runtime.launch_exit_hook.add(lambda told, name=name: order.append(name.upper()))
    compiled[(1, 1, 1)](x, out, 8, 8)
    assert order == ["a", "b", "B", "A"]


def test_the_hooks_of_the_compiler():
    @triton.jit
    def fresh(out, n, B: tl.constexpr):
        tl.store(out, n + B)

    before, after = [], []

    def cache_hook(*, key, repr, fn, compile, is_manual_warmup, already_compiled):
        before.append((key, repr, fn, compile, is_manual_warmup, already_compiled))

    knobs.runtime.jit_cache_hook = cache_hook
    knobs.runtime.jit_post_compile_hook = lambda **told: after.append(told)
    out = np.zeros(1, np.int32)
    for _ in range(3):
        fresh[(1,)](out, 5, 3)
    assert out[0] == 8 and len(before) == len(after) == 1
    _, shown, fn, compile, warmup, already = before[0]
    assert (fn.name, fn.module, fn.jit_function) == ("fresh", __name__, fresh) and not warmup and not already
    assert compile["signature"] == {"out": "*i32", "n": "i32", "B": "constexpr"} and compile["constants"] == {"B": 3}
    assert shown.startswith("fresh[num_warps: 4") and "n: i32" in shown and after[0]["already_compiled"]
    fresh.warmup(np.int32, 5, 4, grid=(1,))
    assert before[1][4] is True


def test_a_cache_hook_can_refuse():
    @triton.jit
    def refused(out):
        tl.store(out, 1)

    out = np.zeros(1, np.int32)
    knobs.runtime.jit_cache_hook = lambda **told: True
    assert refused[(1,)](out) is None and out[0] == 0
    knobs.runtime.jit_cache_hook = None
    assert refused[(1,)](out) is not None and out[0] == 1


def test_load_hooks():
    @triton.jit
    def loaded(out):
        tl.store(out, 2)

    seen = []
    knobs.runtime.kernel_load_start_hook.add(lambda module, function, name, group, hash: seen.append(("start", name)))
    knobs.runtime.kernel_load_end_hook.add(lambda module, function, name, group, hash: seen.append(("end", len(hash))))
    out = np.zeros(1, np.int32)
    for _ in range(2):
        loaded[(1,)](out)
    assert seen == [("start", "loaded"), ("end", 64)]


@pytest.mark.parametrize("interpret", [False, True])
def test_pre_run_hooks_get_the_arguments(interpret):
    @triton.jit
    def hooked(out, n):
        tl.store(out, n)

    out, seen = np.zeros(1, np.int32), []
    with knobs.scope(interpret=interpret):
        for _ in range(5):
            hooked[(1,)](out, 5)
        hooked.add_pre_run_hook(lambda *args, **kwargs: seen.append((args[0] is out, kwargs)))
        for _ in range(3):
            hooked[(1,)](out, n=6)
    assert seen == [(True, {"n": 6})] * 3 and out[0] == 6


def test_what_is_no_hook():
    with pytest.raises(TypeError, match=r"knobs\.runtime\.launch_enter_hook takes a function or None, not int"):
        knobs.runtime.launch_enter_hook = 3
    with pytest.raises(AttributeError):
        knobs.runtime.no_such_hook = None
    assert {"launch_enter_hook", "jit_cache_hook"} <= set(dir(knobs.runtime))


def test_stages_can_be_seen_and_changed(tmp_path):
    """As in triton: a hook gets the stages by name, in the order in which they run, and may replace them."""
    seen = []

    def hook(target, stages, options, language, capability):
        seen.append((target.name, list(stages), options.num_warps, language, capability))
        make_text = stages["llir"]

        def noted(src, metadata):
            seen.append(type(src).__name__)
            text = make_text(src, metadata)
            return text.replace("fmul", "fadd")     # x * 2 becomes x + 2

        stages["llir"] = noted

    x, out = arrays()
    kernel = triton.jit(double.fn)
    with knobs.scope(disk_cache=True, cache_dir=str(tmp_path)):
        for _ in range(5):
            kernel[(1,)](x, out, 8, 8)
        np.testing.assert_array_equal(out, 2 * x)
        knobs.runtime.add_stages_inspection_hook = hook
        for _ in range(3):      # it was native before, and compiles once
            made = kernel[(1,)](x, out, 8, 8)
            np.testing.assert_array_equal(out, x + 2)
        assert seen == [("cpu", ["ttir", "llir", "object"], 4, "triton", None), "Module"] and "fadd" in made.asm["llir"]
        knobs.runtime.add_stages_inspection_hook = None
        kernel[(1,)](x, out, 8, 8)
        np.testing.assert_array_equal(out, 2 * x)
        triton.jit(double.fn)[(1,)](x, out, 8, 8)       # what the hook has made is not on the disk
        np.testing.assert_array_equal(out, 2 * x)


def test_a_hook_that_names_itself_is_cached(tmp_path):
    """triton 3.9 asks a hook without arguments for a key and a hash, which stand for what it does."""
    calls = []

    def make(factor):
        def hook(target=None, stages=None, options=None, language=None, capability=None):
            if stages is None:
                return factor, str(factor)
            calls.append(factor)
            text = stages["llir"]
            stages["llir"] = lambda src, metadata: text(src, metadata).replace("0x4000000000000000", hex_of(factor))
            return None

        return hook

    def hex_of(number):
        return f"0x{int(np.float64(number).view(np.int64)):016x}"

    x, out = arrays()
    with knobs.scope(disk_cache=True, cache_dir=str(tmp_path)):
        for factor in (3, 5, 3, 5, 3):
            knobs.runtime.add_stages_inspection_hook = make(factor)
            triton.jit(double.fn)[(1,)](x, out, 8, 8)
            np.testing.assert_array_equal(out, factor * x)
    assert calls == [3, 5]


def test_stages_that_give_no_code_are_refused():
    def hook(target, stages, options, language, capability):
        del stages["object"]

    knobs.runtime.add_stages_inspection_hook = hook
    with pytest.raises(TypeError, match=r"the last stage \(llir\) gives a str, not a CodeObject"):
        triton.jit(double.fn)[(1,)](*arrays(), 8, 8)


def test_unloading_is_told():
    gc.collect()        # kernels of other tests
    seen = []
    knobs.runtime.kernel_load_end_hook.add(lambda *told: seen.append(("load", *told[2:])))
    knobs.runtime.kernel_unload_hook.add(lambda *told: seen.append(("unload", *told[2:])))
    kernel = triton.jit(double.fn)
    for _ in range(5):
        kernel[(1,)](*arrays(), 8, 8)
    assert [event for event, *_ in seen] == ["load"]
    del kernel
    gc.collect()
    assert [event for event, *_ in seen] == ["load", "unload"]
    assert seen[0][1:] == seen[1][1:] and seen[0][1] == "double" and len(seen[0][3]) == 64


def test_a_listener_hears_what_a_compilation_took(tmp_path):
    heard = []
    knobs.compilation.listener = lambda **told: heard.append(told)
    with knobs.scope(disk_cache=True, cache_dir=str(tmp_path)):
        for _ in range(2):
            triton.jit(double.fn)[(1,)](*arrays(), 8, 8)
    compiled, found = heard
    assert set(compiled) == {"src", "metadata", "metadata_group", "times", "cache_hit"}
    assert (compiled["cache_hit"], found["cache_hit"]) == (False, True)
    times = compiled["times"]
    assert [name for name, _ in times.lowering_stages] == ["ttir", "llir", "object"]
    assert all(spent > 0 for _, spent in times.lowering_stages) and times.ir_initialization > 0
    assert times.total == times.ir_initialization + times.total_lowering + times.store_results
    for told in heard:
        assert told["src"].fn.fn is double.fn and told["src"].constants == {"B": 8}
        assert told["src"].signature == {"x": "*fp32", "out": "*fp32", "n": "i32", "B": "constexpr"}
        assert told["metadata"]["name"] == "double" and told["metadata"]["num_warps"] == 4
    del knobs.compilation.listener
    assert knobs.compilation.listener is None
    triton.jit(double.fn)[(1,)](*arrays(), 8, 8)
    assert len(heard) == 2
