"""Programs that insist on CUDA, run where there is none: what they ask for, and what they are told."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.utils.checkpoint import checkpoint  # noqa: E402

import tilewright as triton  # noqa: E402
import tilewright.language as tl  # noqa: E402
from tilewright.compat.on_cpu import cuda_on_cpu  # noqa: E402
from tilewright.runtime.driver import driver  # noqa: E402
from tilewright.runtime.hooks import HOOKS  # noqa: E402

CUDA, CPU = torch.device("cuda", 0), torch.device("cpu")


@pytest.fixture(autouse=True)
def on_cpu():
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU: nothing to stand in for")
    with cuda_on_cpu():
        yield


MAKERS = {
    "randn": lambda: torch.randn(3, device="cuda"),
    "empty on device object": lambda: torch.empty(3, device=torch.device("cuda")),
    "device number": lambda: torch.zeros(3, device=0),
    "tensor": lambda: torch.tensor([1.0, 2.0], device="cuda:0"),
    "driver's device": lambda: torch.rand(3, device=driver.active.get_active_torch_device()),
    "to name": lambda: torch.randn(3).to("cuda"),
    "to device": lambda: torch.randn(3).to(CUDA),
    "to device and dtype": lambda: torch.randn(3).to("cuda", torch.float16),
    "to another's place": lambda: torch.randn(3).to(torch.empty(1, device="cuda")),
    "to keyword": lambda: torch.randn(3).to(device="cuda", non_blocking=True),
    "cuda()": lambda: torch.randn(3).cuda(),
    "empty_like": lambda: torch.empty_like(torch.empty(3, device="cuda")),
    "new_zeros": lambda: torch.empty(3, device="cuda").new_zeros(4),
    "arithmetic": lambda: torch.ones(3, device="cuda") + 1,
    "view": lambda: torch.ones(4, 4, device="cuda")[1:, ::2].T,
    "chunks": lambda: torch.ones(4, device="cuda").chunk(2)[1],
    "generator": lambda: torch.randn(3, device="cuda", generator=torch.Generator(device="cuda").manual_seed(1)),
    "device block": lambda: _in_device_block(),
    "from NumPy": lambda: torch.from_numpy(np.ones(3)).cuda(),
    "pinned": lambda: torch.randn(3, pin_memory=True).pin_memory().cuda(),
}


def _in_device_block():
    with torch.device("cuda"):
        return torch.empty(3)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
def test_made_on_cuda(make) -> None:
    x = make()
    assert x.is_cuda and not x.is_cpu
    assert x.device == CUDA and x.device.type == "cuda" and x.get_device() == 0
    assert x.cpu().device == CPU
    assert np.asarray(x.cpu()).shape == tuple(x.shape)


def test_made_on_the_cpu() -> None:
    for x in (torch.randn(3), torch.randn(3, device="cpu"), torch.ones(3, device="cuda").cpu(),
              torch.ones(3, device="cuda").to("cpu"), torch.randn(3) * 2):
        assert not x.is_cuda and x.is_cpu and x.device == CPU and x.get_device() == -1


def test_test_data_of_the_tools_is_the_programs_own() -> None:
    from tilewright.tools.mxfp import MXFP4Tensor, MXScaleTensor

    for made in (MXFP4Tensor(size=(4, 6), device="cuda").random(), MXScaleTensor(size=(4, 6), device="cuda").random(),
                 MXFP4Tensor(data=torch.ones(4, 6, device="cuda"), device="cuda"),
                 MXFP4Tensor(data=torch.ones(4, 6, device="cuda")), MXScaleTensor(torch.ones(4, device="cuda"))):
        assert made.data.device == CUDA and made.to(torch.float32).device == CUDA
    assert MXFP4Tensor(size=(4, 6)).random().to_packed_tensor(dim=1).device == CPU


def test_moving_copies_as_between_two_memories() -> None:
    x = torch.ones(3, device="cuda")
    there = x.cpu()
    there[0] = 5
    assert x.tolist() == [1, 1, 1] and there.tolist() == [5, 1, 1]
    assert x.to("cuda") is x and x.cuda() is x and there.cpu() is there
    back = there.cuda()
    back += 1
    assert there.tolist() == [5, 1, 1] and back.is_cuda


def test_mixed_inputs_give_a_cuda_tensor() -> None:
    assert (torch.ones(3, device="cuda") * torch.tensor(2.0)).is_cuda


def test_default_device() -> None:
    assert not torch.empty(2).is_cuda
    torch.set_default_device("cuda")
    assert torch.empty(2).is_cuda
    torch.set_default_device(None)
    assert not torch.empty(2).is_cuda


def test_backward_functions_are_in_the_same_world() -> None:
    seen = []

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            seen.append((grad.is_cuda, torch.zeros(2, device="cuda").is_cuda))
            return grad * 2

    x = torch.ones(3, device="cuda", requires_grad=True)
    Double.apply(x).sum().backward()
    assert seen == [(True, True)] and x.grad.tolist() == [2, 2, 2] and x.grad.is_cuda
    (g,) = torch.autograd.grad(Double.apply(x).sum(), x)
    assert len(seen) == 2 and g.is_cuda


def test_modules_move() -> None:
    layer = torch.nn.Linear(4, 2).to("cuda")
    assert layer.weight.is_cuda and layer(torch.randn(3, 4, device="cuda")).is_cuda


def test_close_compares_places_as_cuda_would() -> None:
    x = torch.ones(3, device="cuda")
    torch.testing.assert_close(x.cpu(), torch.ones(3))
    torch.testing.assert_close(x, torch.ones(3, device="cuda"))
    with pytest.raises(AssertionError):
        torch.testing.assert_close(x, torch.zeros(3, device="cuda"))


def test_what_torch_cuda_says() -> None:
    assert torch.cuda.is_available() and torch.cuda.device_count() == 1 and torch.cuda.current_device() == 0
    assert torch.cuda.get_device_capability() == (8, 0)
    properties = torch.cuda.get_device_properties(CUDA)
    assert properties.multi_processor_count >= 1 and properties.warp_size == 32
    assert "CPU" in torch.cuda.get_device_name(0)
    torch.cuda.synchronize()
    torch.cuda.manual_seed(3)
    with torch.cuda.device(0), torch.cuda.stream(torch.cuda.Stream()):
        assert torch.cuda.current_stream().cuda_stream == 0


def test_events_measure_time() -> None:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    with pytest.raises(RuntimeError, match="recorded"):
        start.elapsed_time(end)
    start.record()
    sum(range(200_000))
    end.record()
    end.synchronize()
    assert 0 < start.elapsed_time(end) < 60_000


def test_driver_answers_as_cuda() -> None:
    assert driver.active.get_active_torch_device() == CUDA
    assert driver.active.get_current_target().backend == "cuda"
    assert driver.active.get_device_interface() is torch.cuda


def test_everything_is_put_back() -> None:
    with cuda_on_cpu():
        pass
    assert torch.cuda.is_available()        # the outer one is still there


def test_dlpack_tells_the_truth() -> None:
    x = torch.ones(3, device="cuda")
    assert np.from_dlpack(x).tolist() == [1, 1, 1]


@triton.jit
def doubled(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(x + i) * 2)


@pytest.mark.parametrize("launches_before", [0, 1, 4])
def test_a_launch_with_tensors_on_both_is_refused(launches_before) -> None:
    """Also where native code has launched the kernel before."""
    out = torch.zeros(8, device="cuda")
    for _ in range(launches_before):
        doubled[(1,)](torch.ones(8, device="cuda"), out, N=8)
    host = torch.ones(8)
    with pytest.raises(ValueError, match="are all on one device; 'x' is on cpu, 'out' is on cuda:0"):
        doubled[(1,)](host, out, N=8)
    doubled[(1,)](host.cuda(), out, N=8)
    assert out.tolist() == [2] * 8
    doubled[(1,)](host, on_host := torch.zeros(8), N=8)
    assert on_host.tolist() == [2] * 8


def test_launches_are_judged_while_there_are_tensors_on_the_cpu() -> None:
    assert HOOKS._judge is None
    x = torch.ones(3).cuda()
    assert HOOKS._judge is None, "the tensor on the CPU is gone"
    y = x.cpu()
    assert HOOKS._judge is not None and y.is_cpu
    del y
    assert HOOKS._judge is None


@pytest.mark.parametrize("make", [
    lambda dtype: torch.autocast("cuda", dtype=dtype), lambda dtype: torch.amp.autocast("cuda", dtype=dtype),
    lambda dtype: torch.autocast(device_type="cuda", dtype=dtype), lambda dtype: torch.cuda.amp.autocast(dtype=dtype)])
@pytest.mark.filterwarnings("ignore:.*torch.cuda.amp.autocast:FutureWarning")
def test_autocast(make) -> None:
    x = torch.randn(8, 8, device="cuda")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        expected = x @ x
    with make(torch.bfloat16):
        assert torch.is_autocast_enabled() and torch.is_autocast_enabled("cuda")
        assert torch.get_autocast_dtype("cuda") == torch.get_autocast_gpu_dtype() == torch.bfloat16
        made = x @ x
        with torch.autocast("cuda", enabled=False):
            assert (x @ x).dtype == torch.float32
    assert made.dtype == torch.bfloat16 and made.device == CUDA and torch.equal(made, expected)
    assert (x @ x).dtype == torch.float32 and not torch.is_autocast_enabled("cuda")
    with torch.autocast("cuda"):
        assert (x @ x).dtype == torch.float16, "as on a GPU"


def test_functions_that_follow_autocast() -> None:
    class Product(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cuda")
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x @ x

        @staticmethod
        @torch.amp.custom_bwd(device_type="cuda")
        def backward(ctx, grad):
            dtypes.append((grad @ grad).dtype)
            return grad

    dtypes: list = []
    x = torch.randn(8, 8, device="cuda", requires_grad=True)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        out = Product.apply(x)
    assert out.dtype == torch.bfloat16
    out.float().sum().backward()
    assert dtypes == [torch.bfloat16]


def test_what_torch_would_compile_runs_as_it_is() -> None:
    """Functions, decorated ones, with options, and modules: torch's compiler would call into the real torch.cuda."""
    with pytest.warns(UserWarning, match="torch.compile compiles nothing where `tilewright run --on cpu`") as caught:
        bare = torch.compile(sine_of_double)
        with_options = torch.compile(fullgraph=True, dynamic=False)(sine_of_double)
        module = torch.nn.Linear(3, 2, device="cuda")
        compiled = torch.compile(module, mode="max-autotune")
        in_place = torch.nn.Linear(3, 2, device="cuda")
        in_place.compile()
    assert any(w.filename == __file__ for w in caught)
    x = torch.randn(3, device="cuda")
    for function in (bare, with_options):
        assert function(x).is_cuda and torch.equal(function(x), (2 * x).sin())
    assert torch.equal(compiled(x), module(x)) and in_place(x).is_cuda


def sine_of_double(x):
    out = torch.empty_like(x)
    doubled[(1,)](x, out, N=x.numel())
    return out.sin()


def test_random_numbers_of_cuda_can_be_seeded_and_kept() -> None:
    """They are the CPU generator's: a seed makes them again, a state too, and checkpoints find both."""
    def numbers():
        return torch.rand(3, device="cuda").tolist()

    torch.cuda.manual_seed(7)
    state, first = torch.cuda.get_rng_state(), numbers()
    assert torch.cuda.initial_seed() == 7 and numbers() != first
    for again in (lambda: torch.cuda.manual_seed_all(7), lambda: torch.cuda.set_rng_state(state, 0),
                  lambda: torch.cuda.set_rng_state_all([state])):
        again()
        assert numbers() == first
    torch.cuda.seed_all()
    assert numbers() != first
    with torch.random.fork_rng(devices=[0]):
        before = torch.cuda.get_rng_state_all()
        numbers()
    assert torch.equal(torch.cuda.get_rng_state(), before[0])


def test_a_function_of_random_numbers_is_computed_again_in_its_gradient() -> None:
    x = torch.ones(16, device="cuda", requires_grad=True)
    y = checkpoint(lambda x: torch.nn.functional.dropout(x, 0.5), x, use_reentrant=True)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())


def test_a_block_on_a_device() -> None:
    with torch.cuda.device(0) as entered, torch.cuda.device(torch.device("cuda", 0)):
        torch.cuda.nvtx.range_push("launch")
        torch.cuda.nvtx.range_pop()
    assert entered is None and isinstance(torch.cuda.device("cuda"), torch.cuda.device)


def test_operators_of_the_program() -> None:
    """What an operator's function calls is the program's code, although torch takes modes off for its time."""
    for_all = torch.library.custom_op("on_cpu_tests::for_all", make_operator(torch.empty_like), mutates_args=())
    by_name = torch.library.custom_op("on_cpu_tests::by_name", make_operator(lambda x: torch.empty(4, device="cuda")),
                                      mutates_args=(), device_types="cuda")
    for operator in (for_all, by_name):
        out = operator(torch.ones(4, device="cuda"))
        assert out.is_cuda and out.tolist() == [2] * 4
    out = for_all(torch.ones(4))
    assert not out.is_cuda and out.tolist() == [2] * 4


@pytest.mark.parametrize("devices", [("cpu", "cuda"), ("cuda", "cpu")])
def test_the_kernel_for_cuda_counts(devices) -> None:
    name = f"on_cpu_tests::first_{devices[0]}"
    operator = torch.library.custom_op(name, lambda x: x + 1, mutates_args=(), schema="(Tensor x) -> Tensor",
                                       device_types=devices[0])
    operator.register_kernel(devices[1])(lambda x: x + 2)
    wanted = 2 + devices.index("cuda")
    assert operator(torch.ones(1, device="cuda")).item() == wanted


def make_operator(make):
    def run(x: torch.Tensor) -> torch.Tensor:
        out = make(x)
        doubled[(1,)](x, out, N=4)
        return out

    run.__annotations__ = {"x": torch.Tensor, "return": torch.Tensor}
    return run


@pytest.mark.parametrize("use", [lambda: torch.cuda.CUDAGraph(), lambda: torch.cuda.graph(None),
                                 lambda: torch.cuda.make_graphed_callables(abs, ())])
def test_cuda_graphs_are_refused(use) -> None:
    with pytest.raises(RuntimeError, match="CUDA graphs cannot be captured on a CPU.*Call the function itself"):
        use()
