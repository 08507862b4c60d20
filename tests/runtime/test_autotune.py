"""autotune: choice, keys, memory put back, hooks, pruning (semantics §13)."""

import threading
import warnings
from dataclasses import replace

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.departures import differs
from tilewright.diagnostics import FewerStagesWarning
from tilewright.runtime import knobs
from tilewright.runtime.autotune import Autotuner
from tilewright.targets.cpu.target import CpuTarget
from tilewright.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def scale(x, n, factor, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) * factor, mask=i < n)


CONFIGS = [triton.Config({"BLOCK": 16}), triton.Config({"BLOCK": 32}, num_warps=2)]


def grid(meta):
    return (triton.cdiv(meta["n"], meta["BLOCK"]),)


def tuned(fn=scale, configs=CONFIGS, key=("n",), **options):
    return triton.autotune(list(configs), list(key), **{"warmup": 0.05, "rep": 0.2, **options})(fn)


def times(table):
    """A bench that gives each call of a config's order the next list of times."""
    pending = iter(table)

    def bench(call, quantiles):
        call()
        return next(pending)

    return bench


@differs("Tuning keeps its hands off the data", topic="Launching and tuning",
         peer="Every timed run changes the arguments, unless `restore_value` or `reset_to_zero` names them.",
         ours="Arguments that the kernel both reads and writes are put back before every timed run, and the winner "
              "runs once.")
def test_in_place_kernels_are_applied_once():
    x = np.arange(50, dtype=np.float32)
    kernel = tuned()
    kernel[grid](x, 50, 3.0)
    np.testing.assert_array_equal(x, np.arange(50) * 3)
    assert set(kernel.configs_timings) == set(CONFIGS)
    kernel[grid](x, 50, 3.0)
    np.testing.assert_array_equal(x, np.arange(50) * 9)


@differs("Tuning keeps its hands off the data")
def test_every_timed_run_sees_the_same_input():
    seen = []
    x = np.ones(16, np.float32)
    tuned(pre_hook=lambda args, reset_only: seen.append(x.copy()))[grid](x, 16, 2.0)
    assert len(seen) > 4 and all((s == 1).all() for s in seen)


def test_the_fastest_wins_and_ties_go_to_the_first():
    for table, best in (([[2, 1, 3], [1, 1, 3]], 1), ([[1, 1, 3], [2, 1, 3]], 0), ([[1, 1, 3], [1, 1, 3]], 0),
                        ([[1, 2, 3], [1, 1, 3]], 1)):
        kernel = tuned(do_bench=times(table))
        kernel[grid](np.ones(16, np.float32), 16, 2.0)
        assert kernel.best_config is CONFIGS[best]


def test_keys_are_values_and_dtypes():
    kernel = tuned(do_bench=times([[1, 1, 1]] * 8))
    x = np.ones(64, np.float32)
    for n in (16, 16, 32):
        kernel[grid](x, n, 2.0)
    kernel[grid](x.astype(np.float64), 16, 2.0)
    assert len(kernel.cache) == 3


def test_one_config_is_not_timed():
    def refuse(call, quantiles):
        raise AssertionError("timed")

    x = np.ones(16, np.float32)
    kernel = tuned(configs=CONFIGS[:1], do_bench=refuse)
    kernel[grid](x, 16, 2.0)
    assert (x == 2).all() and not kernel.cache


def test_configs_of_several_ctas_are_tuned_like_others():
    configs = [triton.Config({"BLOCK": 16}, num_ctas=1), triton.Config({"BLOCK": 16}, num_ctas=2)]
    kernel = tuned(configs=configs, do_bench=times([[2.0] * 3, [1.0] * 3]))
    x = np.ones(32, np.float32)
    kernel[grid](x, 32, 3.0)
    assert kernel.best_config is configs[1] and (x == 3).all()


def test_no_config_means_the_default_one():
    x = np.ones(16, np.float32)
    tuned(configs=[])[grid](x, 16, 2.0, BLOCK=16)
    assert (x == 2).all()


def test_meta_parameters_may_not_be_passed():
    with pytest.raises(ValueError, match="Conflicting meta-parameters: BLOCK. "):
        tuned()[grid](np.ones(16, np.float32), 16, 2.0, BLOCK=16)
    with pytest.raises(TypeError, match="multiple values for keyword argument 'BLOCK'"):
        tuned(configs=CONFIGS[:1])[grid](np.ones(16, np.float32), 16, 2.0, BLOCK=16)


@differs("Unknown names in `autotune` are errors", topic="Launching and tuning",
         peer="3.6 ignores them in `key`, `reset_to_zero` and `restore_value`.",
         ours="As in 3.9, at the decoration.")
@pytest.mark.parametrize("option", ["key", "reset_to_zero", "restore_value"])
def test_unknown_names(option):
    with pytest.raises(ValueError, match=f"{option} names 'm', but the parameters of scale are x, n, factor, BLOCK"):
        tuned(**{option: ["m"]})


@triton.jit
def accumulate(total, x, n, BLOCK: tl.constexpr):
    s = 0.0
    for first in range(0, n, BLOCK):
        i = first + tl.arange(0, BLOCK)
        s += tl.sum(tl.load(x + i, mask=i < n, other=0.0), axis=0)
    tl.store(total, tl.load(total) + s)


def test_reset_to_zero_while_tuning_only():
    total, x = np.full(1, 7, np.float32), np.ones(40, np.float32)
    kernel = tuned(accumulate, reset_to_zero=["total"])
    kernel[(1,)](total, x, 40)
    assert total[0] == 40
    kernel[(1,)](total, x, 40)
    assert total[0] == 80


def test_accumulation_without_reset_is_done_once():
    total, x = np.full(1, 7, np.float32), np.ones(40, np.float32)
    tuned(accumulate)[(1,)](total, x, 40)
    assert total[0] == 47


def test_order_of_hooks():
    events = []
    config = triton.Config({"BLOCK": 16}, pre_hook=lambda args: events.append(("config", args["BLOCK"])))

    def bench(call, quantiles):
        call()
        return [1.0, 1.0, 1.0]

    kernel = tuned(configs=[config, CONFIGS[1]], do_bench=bench,
                   pre_hook=lambda args, reset_only: events.append(("pre", reset_only)),
                   post_hook=lambda args, exception: events.append(("post", exception)))
    kernel[grid](np.ones(16, np.float32), 16, 2.0)
    compiled = [("config", 16)] * 2     # once to learn what is written, once more before it is timed
    assert events == [*compiled, ("config", 16), ("pre", False), ("post", None), ("pre", False), ("post", None),
                      ("pre", True), ("config", 16)]
    events.clear()
    kernel[grid](np.ones(16, np.float32), 16, 2.0)
    assert events == [("config", 16)]


@triton.jit
def transposed(source, out, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK
    out.store([0, i], tl.trans(tl.reshape(source.load([i, 0]), (BLOCK, 8))))


def _set_blocks(args):
    args["source"].block_shape = [args["BLOCK"], 8]
    args["out"].block_shape = [8, args["BLOCK"]]


def test_a_hook_that_makes_the_blocks_of_descriptors_runs_before_a_config_is_compiled():
    """Scripts make descriptors before a config is chosen, with blocks of one element, and set them in the hook."""
    configs = [triton.Config({"BLOCK": block}, pre_hook=_set_blocks) for block in (4, 16, 8)]
    for do_bench in (None, times([[2, 2, 2], [1, 1, 1], [3, 3, 3]])):
        x = np.random.default_rng(0).random((32, 8)).astype(np.float32)
        out = np.zeros((8, 32), np.float32)
        source, target = (TensorDescriptor.from_tensor(a, [1, 1]) for a in (x, out))
        kernel = tuned(transposed, configs=configs, key=(), do_bench=do_bench)
        for _ in range(3):
            kernel[lambda meta: (32 // meta["BLOCK"],)](source, target)
            np.testing.assert_array_equal(out, x.T)
            out[:] = 0
        assert all(t[0] < float("inf") for t in kernel.configs_timings.values())


@differs("Tuning keeps its hands off the data")
def test_what_a_hook_writes_before_a_config_is_compiled_is_put_back():
    x = np.ones(16, np.float32)
    configs = [triton.Config({"BLOCK": b}, pre_hook=lambda args: args["x"].__iadd__(1)) for b in (16, 32)]
    tuned(configs=configs)[grid](x, 16, 2.0)
    np.testing.assert_array_equal(x, 4)     # the winner's hook, then the kernel, each once


@triton.jit
def picky(x, n, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK <= 16, "too large")
    i = tl.arange(0, BLOCK)
    tl.store(x + i, 1.0, mask=i < n)


def test_a_config_that_fails_its_static_assert_loses():
    kernel = tuned(picky, configs=[triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 16})])
    kernel[(1,)](np.ones(16, np.float32), 16)
    assert kernel.best_config.kwargs == {"BLOCK": 16}
    assert kernel.configs_timings[triton.Config({"BLOCK": 64})] == [float("inf")] * 3


def test_other_errors_go_through():
    with pytest.raises(triton.CompilationError, match="end"):
        tuned(configs=[triton.Config({"BLOCK": 0}), CONFIGS[0]])[(1,)](np.ones(16, np.float32), 16, 2.0)


def test_pruning():
    seen = {}

    def early(configs, named, **kwargs):
        seen.update(named=named, kwargs=kwargs)
        return configs[1:]

    kernel = tuned(prune_configs_by={"early_config_prune": early})
    kernel[grid](np.ones(16, np.float32), 16, factor=2.0)
    assert kernel.best_config is CONFIGS[1] and seen["named"]["n"] == 16 and seen["kwargs"]["factor"] == 2.0
    with pytest.raises(triton.AutotunerError, match="Autotuner error: early_config_prune of scale left no config"):
        tuned(prune_configs_by={"early_config_prune": lambda *a, **k: []})[grid](np.ones(16, np.float32), 16, 2.0)


@pytest.mark.parametrize("top_k", [1, 0.5, 0.1])
def test_a_model_chooses(top_k):
    model = {"perf_model": lambda BLOCK, n, **rest: -BLOCK, "top_k": top_k}
    kernel = tuned(prune_configs_by=model)
    kernel[grid](np.ones(16, np.float32), 16, 2.0)
    assert kernel.best_config is CONFIGS[1]


@triton.jit
def through_memory(table, BLOCK: tl.constexpr):
    p = tl.load(table).to(tl.pointer_type(tl.int32))
    tl.store(p, tl.load(p) + 1)


def test_a_store_through_a_loaded_pointer_is_unproven():
    value = np.zeros(1, np.int32)
    with pytest.warns(UserWarning, match="tuning of through_memory is unproven"):
        tuned(through_memory, key=())[(1,)](np.array([value.ctypes.data]))


def test_eager_takes_the_first_config():
    x = np.ones(16, np.float32)
    with knobs.scope(interpret=True):
        kernel = tuned()
        kernel[grid](x, 16, 2.0)
    assert (x == 2).all() and kernel.best_config is CONFIGS[0]


def test_stacked_heuristics():
    over = triton.heuristics({"n": lambda args: args["x"].shape[0]})(tuned())
    x = np.ones(16, np.float32)
    over[grid](x, factor=2.0)
    assert (x == 2).all()
    under = tuned(triton.heuristics({"factor": lambda args: float(args["BLOCK"])})(scale),
                  do_bench=times([[2, 2, 2], [1, 1, 1]]))
    x = np.ones(16, np.float32)
    under[grid](x, 16)
    assert (x == 32).all() and under.base_fn is scale


def test_torch_tensors_are_put_back():
    torch = pytest.importorskip("torch")
    x = torch.ones(16, requires_grad=True)
    tuned(reset_to_zero=[])[grid](x, 16, 2.0)
    assert (x == 2).all()
    total = torch.full((1,), 7.0)
    tuned(accumulate, reset_to_zero=["total"])[(1,)](total, torch.ones(40), 40)
    assert total.item() == 40


def test_warmup_compiles_every_config():
    x = np.ones(16, np.float32)
    kernels = tuned().warmup(x, 16, 2.0, grid=(1,))
    assert len(kernels) == 2 and (x == 1).all()


def test_tensors_in_tuples_are_put_back() -> None:
    @triton.autotune([triton.Config({"STEP": 1}), triton.Config({"STEP": 1}, num_warps=2)], key=[], warmup=1, rep=1)
    @triton.jit
    def increment(out, STEP: tl.constexpr):
        tl.store(out[1], tl.load(out[1]) + STEP)

    x, y = np.zeros(1, np.float32), np.zeros(1, np.float32)
    increment[(1,)]((x, y))
    assert (x[0], y[0]) == (0, 1)


def test_tensors_in_descriptors_are_put_back() -> None:
    @triton.autotune([triton.Config({"STEP": 1}), triton.Config({"STEP": 1}, num_warps=2)], key=[], warmup=1, rep=1)
    @triton.jit
    def increment(desc, STEP: tl.constexpr):
        desc.store([0], desc.load([0]) + STEP)

    x = np.zeros(4, np.float32)
    increment[(1,)](TensorDescriptor.from_tensor(x, [4]))
    assert (x == 1).all()


class Impatient(Autotuner):
    """What libraries of kernels do: another policy of choice, on triton's protected methods."""

    def __init__(self, fn, configs):
        super().__init__(fn, fn.arg_names, configs, ["n"], None, None, warmup=0.05, rep=0.2)
        self.found = {}

    def run(self, *args, **kwargs):
        self.nargs = dict(zip(self.arg_names, args))
        self.found = {config: self._bench(*args, config=config, **kwargs) for config in self.prune_configs(kwargs)}
        config = min(self.found, key=self.found.get)
        self.pre_hook({**self.nargs, **kwargs, **config.all_kwargs()}, reset_only=True)
        self.nargs = None
        return self.fn.run(*args, **kwargs, **config.all_kwargs())


def test_a_subclass_may_tune_by_a_run_of_its_own():
    x = np.arange(50, dtype=np.float32)
    kernel = Impatient(scale, CONFIGS)
    kernel[grid](x, 50, 3.0)
    np.testing.assert_array_equal(x, np.arange(50) * 3)
    assert set(kernel.found) == set(CONFIGS) and all(len(times) == 3 for times in kernel.found.values())


def test_a_subclass_may_prune():
    class First(Autotuner):
        def prune_configs(self, kwargs):
            assert self.nargs["n"] == 50 and callable(kwargs["grid"])
            return super().prune_configs(kwargs)[:1]

    x = np.ones(50, np.float32)
    kernel = First(scale, scale.arg_names, CONFIGS, ["n"], None, None)
    kernel[grid](x, 50, 3.0)
    assert kernel.best_config is CONFIGS[0] and (x == 3).all()


def test_the_names_that_torch_takes_a_tuner_apart_by():
    def early(configs, named, **kwargs):
        return configs

    kernel = tuned(prune_configs_by={"early_config_prune": early, "top_k": 3}, reset_to_zero=["x"])
    assert (kernel.early_config_prune, kernel.perf_model, kernel.configs_top_k) == (early, None, 3)
    assert (kernel.user_defined_pre_hook, kernel.user_defined_post_hook) == (False, False)
    assert (kernel.reset_to_zero, kernel.use_cuda_graph) == (["x"], False)


def test_who_asks_what_to_restore_is_told_what_was_found_to_be_written():
    @triton.autotune([triton.Config({})], key=[], restore_value=["y"])
    @triton.jit
    def kernel(x, y, z):
        tl.store(z, tl.load(x) + tl.load(y))

    assert kernel.restore_value == ["y"]
    kernel[(1,)](*(np.zeros(1, np.float32) for _ in range(3)))
    assert kernel.restore_value == ["y", "z"]


def test_the_choice_is_printed_on_request(capsys):
    for says in (False, True):
        with knobs.scope(print_autotuning=says):
            kernel = tuned(do_bench=times([[2.0] * 3, [1.0] * 3]))
            kernel[grid](np.ones(32, np.float32), 32, 1.0)
            kernel[grid](np.ones(32, np.float32), 32, 1.0)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1, "once, when it was found"
    assert lines[0].startswith("autotune: scale for the key (32, float32) runs with BLOCK: 32, num_warps: 2")
    assert "(1 ms), chosen among 2 configs in " in lines[0]


@pytest.fixture
def few_stages(monkeypatch):
    """A CPU target that has room for two stages only, as a GPU may have."""
    def stages(self, options):
        def compiled(module, metadata):
            code = CpuTarget.compile(self, module, options)
            if options.num_stages > 2:
                warnings.warn("too many", FewerStagesWarning)
            return replace(code, metadata={**code.metadata, "num_stages": min(options.num_stages, 2)})
        return {"code": compiled}

    monkeypatch.setattr(CpuTarget, "stages", stages)
    with knobs.scope(disk_cache=False):
        yield


STAGED = [triton.Config({"BLOCK": 16}, num_stages=4), triton.Config({"BLOCK": 16}, num_stages=2)]


def test_configs_whose_stages_do_not_fit_are_left_out(few_stages):
    kernel = tuned(triton.jit(scale.fn), STAGED)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kernel[grid](np.ones(16, np.float32), 16, 2.0)
    assert kernel.best_config is STAGED[1] and kernel.configs_timings[STAGED[0]] == [np.inf] * 3


@pytest.mark.unchecked("what was compiled is looked at")
def test_also_if_they_were_compiled_before(few_stages):
    plain = triton.jit(scale.fn)
    x = np.ones(16, np.float32)
    with pytest.warns(FewerStagesWarning):
        compiled = plain[grid](x, n=16, factor=2.0, BLOCK=16, num_stages=4)
    assert compiled.metadata.num_stages == 2
    kernel = tuned(plain, STAGED)
    kernel[grid](x, 16, 2.0)
    assert kernel.best_config is STAGED[1]


@pytest.mark.unchecked("the code generator is to warn")
def test_a_single_config_is_lowered_like_a_launch(few_stages):
    with pytest.warns(FewerStagesWarning):
        tuned(triton.jit(scale.fn), STAGED[:1])[grid](np.ones(16, np.float32), 16, 2.0)


# -- several configs are compiled at once


@pytest.fixture
def cores(monkeypatch):
    """So many cores, as far as tuning knows."""
    def give(count):
        monkeypatch.setattr("tilewright.runtime.autotune.usable_cores", lambda: count)
    return give


@pytest.mark.parametrize("count", [1, 4])
def test_configs_compile_ahead_and_everything_else_stays(cores, count):
    """Hooks in the order of the configs, what they write put back, a config that does not compile left out."""
    cores(count)
    seen = []

    def config(block):
        def hook(named):
            seen.append((block, named["x"][0].item()))
            named["x"][0] = -block
        return triton.Config({"BLOCK": block}, pre_hook=hook)

    @triton.jit
    def kernel(x, n, factor, BLOCK: tl.constexpr):
        tl.static_assert(BLOCK != 64)
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(x + i, tl.load(x + i, mask=i < n) * factor, mask=i < n)

    x = np.ones(100, np.float32)
    configs = [config(block) for block in (16, 64, 32, 128)]
    made = tuned(kernel, configs, do_bench=times([[3, 3, 3], [2, 2, 2], [1, 1, 1]]))
    made[grid](x, 100, 2.0)
    assert [block for block, _ in seen[:4]] == [16, 64, 32, 128] and {first for _, first in seen} == {1.0}
    assert made.best_config is configs[3] and x[0] == -256 and (x[1:] == 2).all()
    assert [made.configs_timings[c][0] for c in configs] == [3, np.inf, 2, 1]
    assert list(made.configs_timings) == configs


def test_the_error_of_a_config_is_the_first_ones(cores):
    cores(4)

    @triton.jit
    def kernel(x, n, factor, BLOCK: tl.constexpr):
        if BLOCK > 16:
            tl.store(x, tl.missing(BLOCK))

    configs = [triton.Config({"BLOCK": block}) for block in (16, 32, 64)]
    with pytest.raises(triton.CompilationError, match="missing") as caught:
        tuned(kernel, configs)[grid](np.ones(16, np.float32), 16, 2.0)
    assert caught.value.__traceback__ is not None


def test_configs_compile_at_once(cores):
    """Each waits in the frontend until all are there."""
    cores(4)
    together = threading.Barrier(3, timeout=60)

    @triton.constexpr_function
    def met(block):
        together.wait()
        return block

    @triton.jit
    def kernel(x, n, factor, BLOCK: tl.constexpr):
        size: tl.constexpr = met(BLOCK)
        i = tl.program_id(0) * size + tl.arange(0, size)
        tl.store(x + i, tl.load(x + i, mask=i < n) * factor, mask=i < n)

    x = np.ones(100, np.float32)
    configs = [triton.Config({"BLOCK": block}) for block in (16, 32, 64)]
    with knobs.scope(disk_cache=False):
        tuned(kernel, configs, do_bench=times([[1, 1, 1]] * 3))[grid](x, 100, 2.0)
    assert (x == 2).all()


def test_below_jit():
    def plain(x, BLOCK: tl.constexpr):
        tl.store(x, BLOCK)

    said = r"autotune takes a kernel, not the plain function plain; write @autotune\(...\) above @jit"
    with pytest.raises(TypeError, match=said):
        triton.autotune([triton.Config({"BLOCK": 1})], key=[])(plain)


def test_a_config_that_leaves_a_parameter_out():
    @triton.jit
    def kernel(x, BLOCK: tl.constexpr, STEP: tl.constexpr = 1):
        tl.store(x, BLOCK + STEP)

    configs = [triton.Config({"BLOCK": 1}), triton.Config({"STEP": 2}, num_warps=8)]
    said = (r"kernel: the config \(STEP: 2, num_warps: 8, .*\) sets no BLOCK, and neither does the launch; write "
            r"Config\({'BLOCK': ...}\)")
    with pytest.raises(TypeError, match=said):
        triton.autotune(configs, key=[])(kernel)[(1,)](np.zeros(1, np.int32))
    ruled = triton.heuristics({"BLOCK": lambda args: 4})(kernel)
    out = np.zeros(1, np.int32)
    configs = [triton.Config({}), triton.Config({"STEP": 1}, num_warps=8)]
    triton.autotune(configs, key=[], warmup=0.05, rep=0.1)(ruled)[(1,)](out)
    assert out[0] == 5
