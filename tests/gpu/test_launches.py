"""Launches beside torch on a GPU: streams, graphs, threads, several devices, arrays of other libraries."""

from __future__ import annotations

import ctypes
import threading

import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.diagnostics import KernelAssertionError
from tilewright.runtime.jit import JITFunction
from tilewright.targets.nvidia.driver.launch_record import Record

torch = pytest.importorskip("torch")
several = pytest.mark.skipif("torch.cuda.device_count() < 2", reason="needs two GPUs")
SLEEP = 2_000_000_000   # cycles; about a second


@tw.jit
def double(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)


def launch(x, out) -> None:
    double[(tw.cdiv(x.numel(), 256),)](x, out, x.numel(), BLOCK=256)


def pair(device: str = "cuda", n: int = 1025):
    return torch.arange(n, dtype=torch.float32, device=device), torch.zeros(n, device=device)


@pytest.mark.parametrize("warm", [1, 4], ids=["through Python", "native"])
def test_a_launch_is_on_the_current_stream(warm: int) -> None:
    x, out = pair()
    for _ in range(warm):
        launch(x, out)
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.cuda._sleep(SLEEP)
        x.fill_(3)
        launch(x, out)
    assert not side.query(), "the stream was not busy: nothing was tested"
    side.synchronize()
    assert (out == 6).all()


class Typed:
    """An address and a dtype, and nothing that says on which device it is."""

    def __init__(self, tensor) -> None:
        self.tensor, self.dtype = tensor, tensor.dtype

    def data_ptr(self) -> int:
        return self.tensor.data_ptr()


def test_what_does_not_say_where_it_is_is_on_the_gpu() -> None:
    for _ in range(6):
        x, out = pair()
        double[(5,)](Typed(x), Typed(out), x.numel(), BLOCK=256)
        assert (out == 2 * x).all()
        double[(5,)](x, Typed(out.fill_(0)), x.numel(), BLOCK=256)
        assert (out == 2 * x).all()


@tw.jit(debug=True)
def checked_double(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    tl.device_assert(value < 5000, "large")
    tl.store(out + at, value * 2, mask=at < n)


def test_kernels_with_assertions_are_native(monkeypatch: pytest.MonkeyPatch) -> None:
    by_python, launch_call = [], JITFunction.launch_call
    monkeypatch.setattr(JITFunction, "launch_call",
                        lambda self, *args: [by_python.append(args), launch_call(self, *args)][1])
    for count in range(6):
        x, out = pair()
        checked_double[(5,)](x + count, out, x.numel(), BLOCK=256)
        assert (out == 2 * (x + count)).all() and len(by_python) == min(count + 1, 3)
    for program in (0, 3):
        x[256 * program + 7] = 6000
        checked_double[(5,)](x, out, x.numel(), BLOCK=256)
        while not torch.cuda.current_stream().query():      # which raises nothing, as synchronize would
            pass
        x[256 * program + 7] = 0
        with pytest.raises(KernelAssertionError, match=rf"program \({program}, 0, 0\): large"):
            checked_double[(5,)](x, out, x.numel(), BLOCK=256)
        checked_double[(5,)](x, out, x.numel(), BLOCK=256)
        assert (out == 2 * x).all()
    assert len(by_python) == 3


def test_an_empty_grid_is_no_launch() -> None:
    x, out = pair()
    for _ in range(6):
        double[(0,)](x, out, x.numel(), BLOCK=256)
        double[(3, 0)](x, out, x.numel(), BLOCK=256)
    assert not out.any()


def test_compiled_kernels_are_launched_again() -> None:
    x, out = pair()
    kernel = double[(5,)](x, out, x.numel(), 256)
    for _ in range(6):
        kernel[(5, 1, 1)](x, out.fill_(0), x.numel(), 256)
        assert (out == 2 * x).all()
    with pytest.raises(ValueError, match="the tensors are on cpu"):
        kernel[(5, 1, 1)](*pair("cpu"), x.numel(), 256)


def test_a_launch_does_not_wait() -> None:
    x, out = pair()
    for _ in range(4):
        launch(x, out)
    torch.cuda.synchronize()
    torch.cuda._sleep(SLEEP)
    launch(x, out)
    assert not torch.cuda.current_stream().query()
    torch.cuda.synchronize()


def test_a_graph_replays_launches() -> None:
    x, out = pair()
    further = torch.empty_like(out)
    launch(x, out)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launch(x, out)
        launch(out, further)
    for value in (5.0, -2.0):
        x.fill_(value)
        graph.replay()
        torch.cuda.synchronize()
        assert (out == 2 * value).all() and (further == 4 * value).all()


def test_threads_each_with_a_stream() -> None:
    failures: list[BaseException] = []

    def work(k: int) -> None:
        try:
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                x, out = pair(n=1000 + k)
                for turn in range(50):
                    x.fill_(k + turn)
                    launch(x, out)
                    stream.synchronize()
                    assert (out == 2 * (k + turn)).all()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_an_array_that_speaks_dlpack_alone() -> None:
    class Array:
        def __init__(self, tensor) -> None:
            self._tensor = tensor

        def __dlpack__(self, **options):
            return self._tensor.__dlpack__(**options)

        def __dlpack_device__(self):
            return self._tensor.__dlpack_device__()

    x, out = pair()
    for _ in range(4):
        double[(5,)](Array(x), Array(out), 1025, BLOCK=256)
    torch.cuda.synchronize()
    assert (out == 2 * x).all()


KINDS = {
    "plain": lambda: torch.ones(1000, device="cuda"),
    "parameter": lambda: torch.nn.Parameter(torch.ones(1000, device="cuda")),
    "inferred": torch.inference_mode()(lambda: torch.ones(1000, device="cuda")),
    "leaf": lambda: torch.ones(1000, device="cuda", requires_grad=True),
    "view": lambda: torch.ones(1004, 2, device="cuda")[4:].t(),
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_launches_are_native_from_the_fourth_on(kind, monkeypatch: pytest.MonkeyPatch) -> None:
    x, out = kind(), torch.zeros(1000, device="cuda")
    for launches in range(4):
        if launches == 3:
            monkeypatch.setattr(type(double), "_launch", None)
            out.zero_()
        double[(4,)](x, out, 1000, BLOCK=256)
    assert (out == 2).all()


def test_the_stream_is_asked_for_natively() -> None:
    words = (ctypes.c_uint64 * (Record.SIZE // 8)).from_address(double[(5,)](*pair(), 1025, BLOCK=256).function.record)
    for _ in range(4):
        launch(*pair())
    assert words[Record.NATIVE_STREAM // 8] and words[Record.DEVICE_NUMBER // 8] == 0


@pytest.mark.parametrize("warm", [0, 4], ids=["first", "native"])
def test_a_tensor_whose_memory_was_freed(warm: int) -> None:
    x, out = pair()
    for _ in range(warm):
        launch(x, out)
    torch.cuda.synchronize()
    x.untyped_storage().resize_(0)
    with pytest.raises(TypeError, match="has no data"):
        launch(x, out)


def test_tensors_of_the_host_and_of_a_gpu() -> None:
    x, out = pair()
    with pytest.raises(ValueError, match=r"one device.*'x' .*cpu.*'out' .*cuda:0|'out'.*cuda:0.*'x'.*cpu|cpu.*cuda:0"):
        launch(x.cpu(), out)


def test_what_was_compiled_can_be_read() -> None:
    x, out = pair()
    kernel = double[(5,)](x, out, 1025, BLOCK=256)
    assert ".visible .entry" in kernel.asm["ptx"] and kernel.asm["cubin"][:4] == b"\x7fELF"
    assert "EXIT" in kernel.asm["sass"]
    assert kernel.n_regs > 0 and kernel.n_spills == 0 and kernel.metadata.shared == 0


@several
@pytest.mark.parametrize("warm", [1, 4], ids=["through Python", "native"])
def test_the_device_that_holds_the_tensors(warm: int) -> None:
    assert torch.cuda.current_device() == 0
    for device in ("cuda:1", "cuda:0", "cuda:1"):
        x, out = pair(device)
        for _ in range(warm):
            launch(x, out)
        torch.cuda.synchronize(device)
        assert (out == 2 * x).all()
        assert torch.cuda.current_device() == 0


@several
def test_the_stream_of_the_device_that_holds_the_tensors() -> None:
    x, out = pair("cuda:1")
    for _ in range(4):
        launch(x, out)
    torch.cuda.synchronize("cuda:1")
    side = torch.cuda.Stream("cuda:1")
    with torch.cuda.stream(side):
        torch.cuda._sleep(SLEEP)
        x.fill_(3)
    with torch.cuda.device(1), torch.cuda.stream(side):
        launch(x, out)
    assert not side.query(), "the stream was not busy: nothing was tested"
    side.synchronize()
    assert (out == 6).all()


@several
@pytest.mark.parametrize("warm", [0, 4], ids=["first", "native"])
def test_tensors_on_two_gpus(warm: int) -> None:
    x, out = pair("cuda:0")
    for _ in range(warm):
        launch(x, out)
    with pytest.raises(ValueError, match=r"all on one device.*cuda:0.*cuda:1"):
        launch(x, out.to("cuda:1"))
    with pytest.raises(ValueError, match=r"all on one device.*cuda:1.*cuda:0"):
        launch(x.to("cuda:1"), out)


@several
def test_a_graph_of_the_second_device() -> None:
    x, out = pair("cuda:1")
    with torch.cuda.device(1):
        launch(x, out)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            launch(x, out)
        x.fill_(4)
        graph.replay()
        torch.cuda.synchronize()
    assert (out == 8).all()
