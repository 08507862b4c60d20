"""The native launch on a GPU, against a driver of callbacks that write down what they are given."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import pytest

from tilewright.runtime import knobs
from tilewright.runtime.devices import DEVICES
from tilewright.targets.nvidia.driver.launch_code import text
from tilewright.targets.nvidia.driver.launch_record import DRIVER_SYMBOLS, FILL, KEY, Record, blocks_along_x

P, I = ctypes.c_void_p, ctypes.c_uint32
TYPES = {"cuCtxGetCurrent": (P,), "cuCtxPushCurrent_v2": (P,), "cuCtxPopCurrent_v2": (P,),
         "cuLaunchKernel": (P, *(I,) * 7, P, P, P)}
CURRENT, OTHER = 0x1000, 0x2000


class Driver:
    """Callbacks; `calls` is what they were given, `result` what cuLaunchKernel gives."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.result = 0
        self.maps: list[Any] = []
        self.first_map = 3
        assert set(TYPES) == set(DRIVER_SYMBOLS)
        self.callbacks = {name: ctypes.CFUNCTYPE(ctypes.c_int32, *types)(getattr(self, name))
                          for name, types in TYPES.items()}

    def cuCtxGetCurrent(self, where: int) -> int:
        P.from_address(where).value = CURRENT
        return 0

    def cuCtxPushCurrent_v2(self, context: int) -> int:
        self.calls.append(("push", context))
        return 0

    def cuCtxPopCurrent_v2(self, where: int) -> int:
        self.calls.append(("pop",))
        return 0

    def cuLaunchKernel(self, *args: Any) -> int:
        values = (P * 6).from_address(args[9])
        self.calls.append((*args[:9], [ctypes.c_uint64.from_address(v or 0).value for v in values[:3]], args[10]))
        self.maps = values[self.first_map:self.first_map + 2]
        return self.result


@pytest.fixture(scope="module")
def driver() -> Driver:
    return Driver()


@pytest.fixture(scope="module")
def launch(driver: Driver) -> Any:
    launchers = DEVICES.cpu(knobs.snapshot()).launchers()
    if launchers is None:
        pytest.skip("this Python has no native launchers")
    symbols = {name: ctypes.cast(f, P).value or 0 for name, f in driver.callbacks.items()}
    address = launchers.load("launch", f"{KEY} test", text, symbols)
    return ctypes.PYFUNCTYPE(ctypes.c_int64, P, P, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, P)(address)


def run(launch: Any, context: int = CURRENT, stream: object = None, device: int = 3, params: int = 3,
        blocks: int = 0, grid: tuple[int, int, int] = (10, 20, 30), fill: Any = None,
        table: Any = None, most: int = 2**63 - 1, by_python: Any = None, native: Any = None, status: int = 0,
        failed: Sequence[int] = ()) -> tuple[int, int]:
    """The result of a launch, and what it left in the frame; `failed` is the first word of each status record."""
    numbers = (ctypes.c_uint64 * (len(failed) + 1))(*failed)
    listed = (ctypes.c_uint64 * (len(failed) + 1))(
        len(failed), *(ctypes.addressof(numbers) + 8 * k for k in range(len(failed))))
    head = ctypes.c_uint64(ctypes.addressof(listed))
    words = (ctypes.c_uint64 * (Record.SIZE // 8))()
    for offset, value in ((Record.FUNCTION, 0x77), (Record.CONTEXT, context),
                          (Record.STREAM, 0 if stream is None else id(stream)), (Record.DEVICE, id(device)),
                          (Record.PARAMS, params), (Record.THREADS, 128), (Record.SHARED, 4096),
                          (Record.BLOCKS, blocks), (Record.MOST_PROGRAMS, most), (Record.DEVICE_NUMBER, device),
                          (Record.NATIVE_STREAM, 0 if native is None else ctypes.cast(native, P).value or 0),
                          (Record.BY_PYTHON, 0 if by_python is None else ctypes.cast(by_python, P).value or 0),
                          (Record.STATUS, status), (Record.FAILURES, ctypes.addressof(head)),
                          (Record.FILL, 0 if fill is None else ctypes.cast(fill, P).value or 0),
                          (Record.MAPS, 0 if fill is None else 2), (Record.FIRST_MAP, params + bool(blocks or status)),
                          (Record.TABLE, 0 if table is None else ctypes.addressof(table))):
        words[offset // 8] = value
    slots, frame = (ctypes.c_uint64 * 5)(2**63 + 5, 6, 7, 8, 9), (ctypes.c_uint64 * 32)()
    code = launch(ctypes.addressof(words), ctypes.addressof(slots), *grid, ctypes.addressof(frame))
    return code, frame[0]


def test_everything_reaches_the_driver(driver: Driver, launch: Any) -> None:
    driver.calls.clear()
    assert run(launch) == (0, 0)
    assert driver.calls == [(0x77, 10, 20, 30, 128, 1, 1, 4096, None, [2**63 + 5, 6, 7], None)]


@pytest.mark.parametrize("grid", [(4096, 1, 1), (100, 1, 1), (133, 2, 1), (1000, 20, 30)])
def test_blocks_of_several_programs(driver: Driver, launch: Any, grid: tuple[int, int, int]) -> None:
    """132 at once; the kernel has two parameters and the number of programs."""
    driver.calls.clear()
    assert run(launch, params=2, blocks=132, grid=grid) == (0, 0)
    ((_, x, y, z, *_, values, _),) = driver.calls
    assert (x, y, z) == (blocks_along_x(132, grid), *grid[1:]) and values == [2**63 + 5, 6, grid[0]]


def test_numbers_of_blocks() -> None:
    found = [blocks_along_x(132, grid) for grid in ((4096, 1, 1), (100, 1, 1), (133, 2, 1), (1000, 20, 30), (9, 0, 1))]
    assert found == [132, 100, 66, 1, 9] and blocks_along_x(0, (4096, 1, 1)) == 4096


def test_the_stream_is_asked_for(driver: Driver, launch: Any) -> None:
    driver.calls.clear()
    assert run(launch, stream=abs, device=-12345) == (0, 0)
    assert driver.calls[0][8] == 12345


@pytest.mark.parametrize(("failed", "python", "stream"), [(0, abs, 0x503), (1, abs, 3), (1, None, None)])
def test_torchs_c_function_is_asked_for_the_stream_first(driver: Driver, launch: Any, failed: int, python: Any,
                                                         stream: int | None) -> None:
    driver.calls.clear()
    asked = []

    def answer(device: int, where: int) -> int:
        asked.append(device)
        P.from_address(where).value = 0x500 + device
        return failed

    native = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32, P)(answer)
    assert run(launch, stream=python, native=native) == (0, 0)
    assert asked == [3] and driver.calls[0][8] == stream


def test_another_context_is_made_current_for_the_launch(driver: Driver, launch: Any) -> None:
    driver.calls.clear()
    assert run(launch, context=OTHER) == (0, 0)
    assert [c[0] for c in driver.calls] == ["push", 0x77, "pop"] and driver.calls[0][1] == OTHER


def test_an_error_is_passed_on(driver: Driver, launch: Any) -> None:
    driver.calls.clear()
    driver.result = 701
    try:
        assert run(launch, context=OTHER) == (701, 701)
    finally:
        driver.result = 0
    assert driver.calls[-1] == ("pop",)


def test_a_stream_function_that_raises(driver: Driver, launch: Any) -> None:
    driver.calls.clear()
    with pytest.raises(TypeError, match="has no len"):
        run(launch, stream=len)
    assert driver.calls == []


def test_maps_follow_the_parameters_and_are_asked_for_once(driver: Driver, launch: Any) -> None:
    driver.calls.clear()
    table, asked = (ctypes.c_uint64 * 5)(), []

    def put(slots: int, x: int, y: int, z: int) -> int:
        asked.append((x, y, z))
        table[:] = (*(ctypes.c_uint64 * 3).from_address(slots), 0xA0, 0xB0)
        return 1

    fill = FILL(put)
    for _ in range(2):
        assert run(launch, fill=fill, table=table) == (0, 0)
        assert driver.maps == [0xA0, 0xB0] and driver.calls[-1][-2] == [2**63 + 5, 6, 7]
    assert asked == [(10, 20, 30)]
    table[1] += 1
    assert run(launch, fill=fill, table=table) == (0, 0) and len(asked) == 2


@pytest.mark.parametrize(("grid", "most", "elsewhere"), [((10, 20, 30), 30, False), ((10, 20, 30), 29, True),
                                                         ((31, 1, 1), 30, True), ((1, 31, 1), 30, True)])
@pytest.mark.parametrize("answer", [0, -1])
def test_a_grid_with_many_programs_is_launched_elsewhere(driver: Driver, launch: Any, grid: tuple[int, int, int],
                                                         most: int, elsewhere: bool, answer: int) -> None:
    driver.calls.clear()
    asked = []

    def launched(slots: int, *sizes: int) -> int:
        asked.append((list((ctypes.c_uint64 * 3).from_address(slots)), sizes))
        return answer

    by_python = FILL(launched)
    code, _ = run(launch, context=OTHER, grid=grid, most=most, by_python=by_python)
    assert code == (answer if elsewhere else 0) and asked == [([2**63 + 5, 6, 7], grid)] * elsewhere
    assert [c[0] for c in driver.calls] == (["push", "pop"] if elsewhere else ["push", 0x77, "pop"])


@pytest.mark.parametrize("grid", [(0, 1, 1), (7, 0, 1), (7, 7, 0), (0, 0, 0)])
def test_nothing_is_launched_on_an_empty_grid(driver: Driver, launch: Any, grid: tuple[int, int, int]) -> None:
    """The driver takes it for an error."""
    driver.calls.clear()
    assert run(launch, context=OTHER, grid=grid, failed=[1]) == (0, 0) and driver.calls == []


@pytest.mark.parametrize("fill", [None, FILL(lambda *_: 1)], ids=["no maps", "maps"])
def test_the_status_follows_the_parameters(driver: Driver, launch: Any, fill: Any) -> None:
    driver.calls.clear()
    table = (ctypes.c_uint64 * 4)(0, 0, 0xA0, 0xB0)
    assert run(launch, params=2, status=0x5000, failed=[0, 0, 0], fill=fill, table=table) == (0, 0)
    assert driver.calls[-1][-2] == [2**63 + 5, 6, 0x5000]
    assert fill is None or driver.maps == [0xA0, 0xB0]


@pytest.mark.parametrize("failed", [[2, 0, 0], [0, 0, 1], [4]])
@pytest.mark.parametrize("answer", [0, -1])
def test_after_a_failure_python_launches_or_raises(driver: Driver, launch: Any, failed: list[int],
                                                   answer: int) -> None:
    driver.calls.clear()
    asked = []

    def launched(slots: int, *sizes: int) -> int:
        asked.append((list((ctypes.c_uint64 * 3).from_address(slots)), sizes))
        return answer

    code, _ = run(launch, context=OTHER, status=0x5000, failed=failed, by_python=FILL(launched))
    assert code == answer and asked == [([2**63 + 5, 6, 7], (10, 20, 30))]
    assert [c[0] for c in driver.calls] == ["push", "pop"]


@pytest.mark.parametrize("answer", [0, -1])
def test_a_launch_without_maps_is_done_elsewhere(driver: Driver, launch: Any, answer: int) -> None:
    driver.calls.clear()
    fill = FILL(lambda *_: answer)
    assert run(launch, context=OTHER, fill=fill, table=(ctypes.c_uint64 * 5)()) == (answer, 0)
    assert [c[0] for c in driver.calls] == ["push", "pop"]
