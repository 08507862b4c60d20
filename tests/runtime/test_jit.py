"""Launching: binding, keys and caching, guards, facts, returned kernels, all kinds of tensors."""

import inspect
import threading

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.departures import differs
from tilewright.runtime import knobs
from tilewright.runtime.launch import CompiledKernel

pytestmark = pytest.mark.unchecked("keys and compiled kernels are looked at")


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out + i, tl.load(x + i, mask=mask) + tl.load(y + i, mask=mask), mask=mask)


def fresh(fn):
    """A new kernel of the same function, with an empty cache."""
    return triton.jit(fn.fn)


def compiled_count(kernel):
    return sum(len(entry.kernels) for entry in kernel._entries.values())


def data(n=100, dtype=np.float32):
    x = np.arange(n).astype(dtype)
    return x, (x * 2).astype(dtype), np.zeros(n, dtype)


# -- ways to launch ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", [
    lambda k, x, y, o: k[(4,)](x, y, o, 100, 32),
    lambda k, x, y, o: k[(4,)](x, y, o, 100, BLOCK=32),
    lambda k, x, y, o: k[(4,)](BLOCK=32, n=100, out=o, y=y, x=x),
    lambda k, x, y, o: k[[4, 1, 1]](x, y, o, n=100, BLOCK=32),
    lambda k, x, y, o: k[lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),)](x, y, o, 100, BLOCK=32),
    lambda k, x, y, o: k.run(x, y, o, 100, 32, grid=(4,)),
    lambda k, x, y, o: k[(4,)](x, y, o, 100, BLOCK=32, num_warps=8, num_stages=2, num_ctas=1, maxnreg=None),
    lambda k, x, y, o: k[(np.int64(4),)](x, y, o, np.int32(100), BLOCK=32),
])
def test_ways_to_pass_arguments(call):
    x, y, out = data()
    kernel = call(add, x, y, out)
    np.testing.assert_array_equal(out, x + y)
    assert isinstance(kernel, CompiledKernel) and kernel.name == "add"


def test_defaults():
    @triton.jit
    def scaled(x, factor=3, BLOCK: tl.constexpr = 8):
        i = tl.arange(0, BLOCK)
        tl.store(x + i, tl.load(x + i) * factor)

    x = np.ones(8, np.int32)
    scaled[(1,)](x)
    assert x.tolist() == [3] * 8
    scaled[(1,)](x, factor=2)
    assert x.tolist() == [6] * 8
    scaled[(1,)](x, 1, 4)
    assert x.tolist() == [6] * 8


def test_an_empty_grid_runs_nothing():
    x, y, out = data()
    for grid in ((0,), (4, 0), (0, 2, 3)):
        assert isinstance(add[grid](x, y, out, 100, BLOCK=32), CompiledKernel)
    assert not out.any()


def test_run_time_scalars_of_every_kind():
    @triton.jit
    def scalars(out, i, big, f, b, h, u):
        tl.store(out, i)
        tl.store(out + 1, big)
        tl.store(out + 2, f)
        tl.store(out + 3, b.to(tl.float64))
        tl.store(out + 4, h)
        tl.store(out + 5, u)

    out = np.zeros(6, np.float64)
    scalars[(1,)](out, -7, 2**40, 0.5, True, np.float16(1.5), 2**63)
    assert out.tolist() == [-7, 2.0**40, 0.5, 1, 1.5, 2.0**63]


def test_tuples_of_arguments():
    @triton.jit
    def kernel(pointers, sizes, out):
        a, b = pointers
        tl.store(out, tl.load(a) * sizes[0] + tl.load(b) * sizes[1])

    out = np.zeros(1, np.int32)
    kernel[(1,)]((np.array([3], np.int32), np.array([4], np.int32)), (10, 1), out)
    assert out[0] == 34


# -- keys ----------------------------------------------------------------------------------------------------------


def test_a_known_key_compiles_once():
    kernel = fresh(add)
    x, y, out = data()
    first = kernel[(4,)](x, y, out, 100, BLOCK=32)
    assert kernel[(2,)](y, x, out, 100, BLOCK=32) is first
    assert kernel[(4,)](x, y, out, 90, BLOCK=32) is first      # 100 and 90: both int32, not divisible by 16
    assert compiled_count(kernel) == 1


@pytest.mark.parametrize("change", [
    {"n": 96}, {"n": 1}, {"n": 2**31}, {"n": np.int64(100)}, {"BLOCK": 64}, {"num_warps": 8}, {"debug": True},
    {"enable_fp_fusion": True},
])
def test_what_makes_a_new_key(change):
    kernel = fresh(add)
    x, y, out = data()
    first = kernel[(1,)](x, y, out, n=100, BLOCK=32)
    assert kernel[(1,)](x, y, out, **{"n": 100, "BLOCK": 32, **change}) is not first


def test_a_misaligned_pointer_and_another_dtype_make_new_keys():
    kernel = fresh(add)
    x, y, out = data(64)
    kernels = {kernel[(1,)](x, y, out, 10, BLOCK=16), kernel[(1,)](x[1:], y, out, 10, BLOCK=16),
               kernel[(1,)](x.astype(np.int32), y, out, 10, BLOCK=16)}
    assert len(kernels) >= 2
    assert len({id(k) for k in kernels}) == len(kernel._entries)


@triton.jit
def which(out, C: tl.constexpr):
    if C is True:
        tl.store(out, 1)
    elif C == 1.0 and isinstance(C, float):
        tl.store(out, 2)
    else:
        tl.store(out, 3)


@differs("1, True and 1.0 are different compile-time values", topic="Compile-time values",
         peer="Keys are compared as Python does, so one compiled kernel serves all three.",
         ours="They are different keys, and so are 0.0 and -0.0.")
def test_equal_values_of_different_types_are_different_keys():
    out = np.zeros(1, np.int32)
    seen = []
    for value in (True, 1.0, 1):
        which[(1,)](out, value)
        seen.append(int(out[0]))
    assert seen == [1, 2, 3]


@differs("1, True and 1.0 are different compile-time values")
def test_a_compile_time_float_is_keyed_by_its_bits():
    @triton.jit
    def sign(out, C: tl.constexpr):
        tl.store(out, C)

    out = np.zeros(1, np.float32)
    for value in (0.0, -0.0):
        sign[(1,)](out, value)
        assert np.signbit(out[0]) == np.signbit(value)
    sign[(1,)](out, float("nan"))
    count = compiled_count(sign)
    sign[(1,)](out, float("nan"))
    assert compiled_count(sign) == count and np.isnan(out[0])


def test_int_one_is_compiled_in_unless_told_not_to():
    @triton.jit
    def stride(out, s):
        tl.store(out, 1 if isinstance(s, tl.constexpr) else 2)

    out = np.zeros(1, np.int32)
    stride[(1,)](out, 1)
    assert out[0] == 1
    stride[(1,)](out, 2)
    assert out[0] == 2
    unspecialised = triton.jit(do_not_specialize=["s"])(stride.fn)
    unspecialised[(1,)](out, 1)
    assert out[0] == 2
    assert unspecialised[(1,)](out, 5) is unspecialised[(1,)](out, 32)


# -- guards --------------------------------------------------------------------------------------------------------

FACTOR = tl.constexpr(2)


@triton.jit
def helper(x):
    return x + 1


@triton.jit
def guarded(out):
    tl.store(out, helper(FACTOR))


@differs("A changed global recompiles", topic="Compile-time values",
         peer="It is a RuntimeError: the global has changed since the kernel was compiled.",
         ours="The launch compiles for the new value; so for closures and called functions.")
def test_another_global_recompiles(monkeypatch):
    out = np.zeros(1, np.int32)
    first = guarded[(1,)](out)
    assert out[0] == 3 and guarded[(1,)](out) is first
    monkeypatch.setitem(globals(), "FACTOR", tl.constexpr(10))
    assert guarded[(1,)](out) is not first
    assert out[0] == 11


@differs("A changed global recompiles")
def test_another_callee_recompiles(monkeypatch):
    @triton.jit
    def other(x):
        return x + 100

    out = np.zeros(1, np.int32)
    guarded[(1,)](out)
    monkeypatch.setitem(globals(), "helper", other)
    guarded[(1,)](out)
    assert out[0] == 102


@differs("A changed global recompiles")
def test_another_closure_value_recompiles():
    value = tl.constexpr(1)

    @triton.jit
    def closes(out):
        tl.store(out, value)

    out = np.zeros(1, np.int32)
    closes[(1,)](out)
    assert out[0] == 1
    value = tl.constexpr(2)
    closes[(1,)](out)
    assert out[0] == 2


# -- facts ---------------------------------------------------------------------------------------------------------


def test_overlapping_arguments_lose_disjoint():
    kernel = fresh(add)
    memory = np.arange(300, dtype=np.float32)
    x, y = memory[:100], memory[100:200]
    apart = kernel[(4,)](x, y, memory[200:], 100, BLOCK=32)
    in_place = kernel[(4,)](x, y, x, 100, BLOCK=32)
    shifted = kernel[(4,)](x, y, memory[1:101], 1, BLOCK=32)
    same_input = kernel[(4,)](y, y, memory[200:], 100, BLOCK=32)
    assert apart.facts.disjoint and same_input.facts.disjoint
    assert not in_place.facts.disjoint and not shifted.facts.disjoint


def test_what_a_kernel_writes_is_known():
    x, y, out = data()
    assert add[(4,)](x, y, out, 100, BLOCK=32).metadata.written_params == ("out",)


def test_in_place_through_two_arguments():
    """The output is the input, moved by one: all loads of a program come before its stores."""

    @triton.jit
    def move(x, out, B: tl.constexpr):
        i = tl.arange(0, B)
        tl.store(out + i, tl.load(x + i))

    x = np.arange(65, dtype=np.float32)
    move[(1,)](x[:64], x[1:], B=64)
    assert x.tolist() == [0, *range(64)]


# -- what comes back -----------------------------------------------------------------------------------------------


def test_compiled_kernel():
    x, y, out = data()
    kernel = add[(4,)](x, y, out, 100, BLOCK=32, num_warps=2)
    assert set(kernel.asm) == {"source", "ttir", "tile", "llir", "asm"} and len(kernel.asm) == 5
    assert repr(kernel.asm.keys()).startswith("dict_keys(['source', ")
    assert repr(kernel.asm).startswith("<stages of add: source, ")
    assert kernel.asm["source"].startswith("def add(x, y, out, n, BLOCK")
    assert "load" in kernel.asm["ttir"] and "define" in kernel.asm["llir"] and "add" in kernel.asm["asm"]
    with pytest.raises(KeyError, match="^add: code for cpu has no stage 'ptx'; there are source, ttir, tile, llir, "
                                       r"asm; for a GPU's, compile for one, .*target=GPUTarget\('cuda', 90, 32\)"):
        kernel.asm["ptx"]
    with pytest.raises(KeyError, match="there are source, ttir, tile, llir, asm$"):
        kernel.asm["ptxx"]
    assert kernel.asm.get("ptx") is None and "ptx" not in kernel.asm
    assert (kernel.metadata.name, kernel.metadata.num_warps, kernel.metadata.target) == ("add", 2, "cpu")


def test_a_compiled_kernel_launches_again():
    x, y, out = data()
    kernel = add[(4,)](x, y, out, 100, BLOCK=32)
    out[:] = 0
    kernel[(4, 1, 1)](x, y, out, 100, 32)
    np.testing.assert_array_equal(out, x + y)
    with pytest.raises(ValueError, match="parameter 'BLOCK' is .* but this kernel was compiled for"):
        kernel[(4, 1, 1)](x, y, out, 100, 64)
    with pytest.raises(TypeError, match="takes all 5 arguments"):
        kernel[(4, 1, 1)](x, y, out, 100)
    with pytest.raises(ValueError, match="these tensors overlap"):
        kernel[(4, 1, 1)](x, y, x, 100, 32)


def test_warmup_compiles_only():
    kernel = fresh(add)
    x, y, out = data()
    compiled = kernel.warmup(x, y, out, 100, BLOCK=32, grid=(4,))
    assert not out.any() and kernel[(4,)](x, y, out, 100, BLOCK=32) is compiled
    mocked = kernel.warmup(np.float16, tl.float16, np.dtype("float16"), 100, BLOCK=32)
    assert mocked.metadata.written_params == ("out",)


def test_warmup_with_torch_dtypes():
    torch = pytest.importorskip("torch")
    assert fresh(add).warmup(torch.bfloat16, torch.float32, torch.float32, 100, BLOCK=32).name == "add"


def test_repr_names_the_compiled_kernel():
    named = triton.jit(repr=lambda s: f"{s.name}_{s.constants['BLOCK']}")(add.fn)
    x, y, out = data()
    assert named[(4,)](x, y, out, 100, BLOCK=32).name == "add_32"


def test_kernels_are_hashable_and_truthy():
    assert add and {add: 1}[add] == 1
    assert add.fn.__name__ == add.__name__ == "add" and add.arg_names == ["x", "y", "out", "n", "BLOCK"]


# -- knobs ---------------------------------------------------------------------------------------------------------


def test_interpret_by_environment_counts_at_decoration(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    eager = fresh(add)
    monkeypatch.delenv("TRITON_INTERPRET")
    compiled = fresh(add)
    x, y, out = data()
    assert eager[(4,)](x, y, out, 100, BLOCK=32) is None
    np.testing.assert_array_equal(out, x + y)
    assert compiled[(4,)](x, y, out, 100, BLOCK=32) is not None
    with knobs.scope(interpret=False):
        assert eager[(4,)](x, y, out, 100, BLOCK=32) is not None


def test_a_knob_that_changes_code_is_in_the_key():
    kernel = fresh(add)
    x, y, out = data()
    first = kernel[(4,)](x, y, out, 100, BLOCK=32)
    with knobs.scope(default_fp_fusion=True):
        second = kernel[(4,)](x, y, out, 100, BLOCK=32)
    with knobs.scope(verify=2):
        third = kernel[(4,)](x, y, out, 100, BLOCK=32)
    assert second is not first and second.metadata.enable_fp_fusion and third is first


def test_dump_writes_the_stages(tmp_path):
    with knobs.scope(dump=True, dump_dir=str(tmp_path)):
        fresh(add).warmup(*data(), 100, BLOCK=32)
    names = sorted(p.name for p in (tmp_path / "add").iterdir())
    assert names[0] == "00-source.txt" and names[1] == "01-ttir.txt" and names[-1].endswith("llir.txt")
    assert any("after-" in n for n in names)


def test_several_threads_launch_at_once():
    kernel = fresh(add)
    outs = [np.zeros(100, np.float32) for _ in range(8)]
    x, y, _ = data()

    def work(out):
        for _ in range(5):
            kernel[(4,)](x, y, out, 100, BLOCK=32)

    threads = [threading.Thread(target=work, args=(o,)) for o in outs]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for out in outs:
        np.testing.assert_array_equal(out, x + y)
    assert compiled_count(kernel) == 1


# -- tensors of all kinds ------------------------------------------------------------------------------------------


def test_torch_tensors():
    torch = pytest.importorskip("torch")
    x = torch.arange(100, dtype=torch.bfloat16)
    y = torch.nn.Parameter(torch.ones(100))
    out = torch.zeros(100)
    add[(4,)](x, y, out, 100, BLOCK=32)
    assert torch.equal(out, x.float() + 1)
    view = torch.zeros(10, 10).t()
    add[(4,)](x, y, view, 100, BLOCK=32)
    assert torch.equal(view.t().reshape(-1), out)


def test_zero_dimensional_tensors_are_pointers():
    out = np.zeros(1, np.float32)
    add[(1,)](np.array(2, np.float32), np.array(3, np.float32), out, 1, BLOCK=1)
    assert out[0] == 5


@differs("Arguments are arrays of any library")
def test_dlpack_and_array_interface_objects():
    x, y, out = data(16)

    class Interface:
        __array_interface__ = x.__array_interface__

    class DLPack:
        def __dlpack__(self, **options):
            return y.__dlpack__(**options)

        def __dlpack_device__(self):
            return y.__dlpack_device__()

    add[(1,)](Interface(), DLPack(), out, 16, BLOCK=16)
    np.testing.assert_array_equal(out, x + y)


def test_a_kernel_describes_its_parameters_as_inspect_does():
    @triton.jit
    def kernel(x, n, BLOCK: tl.constexpr = 8):
        pass

    assert list(kernel.signature.parameters) == ["x", "n", "BLOCK"]
    assert [p.default for p in kernel.params] == [inspect.Parameter.empty, inspect.Parameter.empty, 8]


def test_run_is_a_launch_and_warms_up():
    kernel = fresh(add)
    x, y, out = data()
    made = kernel.run(x, y, out, 100, grid=(4,), warmup=True, BLOCK=32)
    assert not out.any() and made.metadata.name == "add"
    assert kernel.run(x, y, out, 100, grid=lambda meta: (100 // meta["BLOCK"] + 1,), BLOCK=32) is made
    np.testing.assert_array_equal(out, x + y)
    assert kernel.fn is add.fn
