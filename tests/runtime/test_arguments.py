"""Readers of tensors: element, address, extent, writability, device."""

import numpy as np
import pytest

from tests.departures import differs
from tilewright.interpret.memory import HIGHEST
from tilewright.runtime.arguments import ANYWHERE, LOWEST, MockTensor, Readers, extent


def read(value):
    reader = Readers().find(type(value), value)
    assert reader is not None
    return reader(value)


def bounds(array):
    low, high = np.lib.array_utils.byte_bounds(array) if hasattr(np.lib, "array_utils") else np.byte_bounds(array)
    return low, high


@differs("Arguments are arrays of any library", topic="Launching and tuning",
         peer="Tensors are what has `data_ptr` and `dtype`; NumPy's numbers, float64 excepted, are refused.",
         ours="NumPy arrays, torch tensors, DLPack and `__array_interface__`; NumPy's numbers keep their types.")
@pytest.mark.parametrize("dtype, element", [
    ("bool", "i1"), ("int8", "i8"), ("uint8", "u8"), ("int16", "i16"), ("uint32", "u32"), ("int64", "i64"),
    ("float16", "fp16"), ("float32", "fp32"), ("float64", "fp64"),
])
def test_numpy_elements(dtype, element):
    array = np.zeros(5, dtype)
    pointer = read(array)
    assert (pointer.element, pointer.address, pointer.low, pointer.high) == (
        element, array.ctypes.data, *bounds(array))
    assert pointer.writable and pointer.device == "cpu"


@pytest.mark.parametrize("view", [
    lambda a: a[::2], lambda a: a[::-1], lambda a: a[3:7, ::-2], lambda a: a.T, lambda a: a[:, :0], lambda a: a[2, 3],
])
def test_numpy_views_reach_what_their_strides_reach(view):
    array = np.asarray(view(np.zeros((10, 12), np.float32)))
    pointer = read(array)
    assert pointer.address == array.ctypes.data
    if array.size:
        assert (pointer.low, pointer.high) == bounds(array)
    else:
        assert pointer.low == pointer.high


def test_broadcast_view_reaches_its_base_only():
    array = np.broadcast_to(np.zeros(3, np.float32), (1000, 3))
    pointer = read(array)
    assert pointer.high - pointer.low == 12 and not pointer.writable


def test_read_only_array():
    array = np.zeros(3)
    array.setflags(write=False)
    assert not read(array).writable


@pytest.mark.parametrize("array, words", [
    (np.zeros(3, ">f4"), "foreign byte order"), (np.zeros(3, complex), "complex128 cannot be loaded"),
    (np.array(["a"]), "cannot be loaded"), (np.zeros(3, object), "object cannot be loaded"),
    (np.ma.zeros(3), "masked array"),
])
def test_arrays_that_no_kernel_can_load(array, words):
    with pytest.raises(TypeError, match=words):
        read(array)


def test_numpy_subclass():
    class Mine(np.ndarray):
        pass

    array = np.zeros(4, np.float32).view(Mine)
    assert read(array).address == array.ctypes.data


def test_no_tensor_at_all():
    for value in (3, "x", [1], np.float32(1), np.float32, None):
        assert Readers().find(type(value), value) is None


def test_array_interface_is_read_in_place():
    array = np.arange(6, dtype=np.int32)

    class Foreign:
        __array_interface__ = array.__array_interface__

    pointer = read(Foreign())
    assert (pointer.element, pointer.address) == ("i32", array.ctypes.data)


def test_dlpack_object():
    array = np.arange(6, dtype=np.float32)

    class Foreign:
        def __dlpack__(self, **options):
            return array.__dlpack__(**options)

        def __dlpack_device__(self):
            return array.__dlpack_device__()

    pointer = read(Foreign())
    assert (pointer.element, pointer.address, pointer.high - pointer.low) == ("fp32", array.ctypes.data, 24)


@pytest.mark.parametrize("keywords", [{}, {"stream": None}], ids=["none", "stream"])
def test_dlpack_of_before_its_first_version_may_be_written(keywords):
    """A capsule without a version cannot say that it is read-only."""
    array = np.arange(4, dtype=np.int32)

    class NoKeywords:
        def __dlpack__(self):
            return array.__dlpack__()

        def __dlpack_device__(self):
            return array.__dlpack_device__()

    class OnlyStream(NoKeywords):
        def __dlpack__(self, stream=None):
            return array.__dlpack__()

    pointer = read(OnlyStream() if keywords else NoKeywords())
    assert pointer.writable and pointer.address == array.ctypes.data and pointer.high - pointer.low == 16


def test_dlpack_says_what_is_read_only():
    array = np.arange(4, dtype=np.int32)
    array.flags.writeable = False

    class Modern:
        def __dlpack__(self, *, max_version=None, **_):
            return array.__dlpack__(max_version=max_version)

        def __dlpack_device__(self):
            return array.__dlpack_device__()

    assert not read(Modern()).writable


def test_dlpack_on_another_device_is_told():
    class Foreign:
        def __dlpack__(self, **options):
            raise AssertionError("the data must not be asked for")

        def __dlpack_device__(self):
            return (10, 0)      # ROCm

    assert read(Foreign()).device == "DLPack device type 10"


def test_data_ptr_without_shape_may_reach_everything():
    class Foreign:
        dtype = np.dtype(np.float16)

        def data_ptr(self):
            return 1 << 20

    pointer = read(Foreign())
    assert (pointer.element, pointer.address, pointer.low, pointer.high) == ("fp16", 1 << 20, LOWEST, HIGHEST)
    assert pointer.device == ANYWHERE


@pytest.mark.parametrize("shape, strides", [((1 << 62,), (1,)), ((1 << 70,), (1,)), ((2,), (-(1 << 70),))])
def test_what_data_ptr_and_stride_tell_ends_where_memory_ends(shape, strides):
    pointer = read(Told(1 << 20, shape, strides))
    assert (pointer.low, pointer.high) == ((0, (1 << 20) + 4) if strides[0] < 0 else (1 << 20, HIGHEST))


@pytest.mark.parametrize("address", [-16, 1 << 63, 1 << 64])
def test_what_is_no_address_is_refused(address):
    with pytest.raises(TypeError, match=f"of a Told gives {address}, which is no address"):
        read(Told(address, (1,), (1,)))


class Told:
    """An object that tells of its data by methods."""

    dtype = np.dtype(np.float32)

    def __init__(self, address, shape, strides):
        self.address, self.shape, self.strides = address, shape, strides

    def data_ptr(self):
        return self.address

    def stride(self):
        return self.strides


def test_mock_overlaps_nothing():
    pointer = read(MockTensor(np.dtype(np.float32), (4, 5)))
    assert pointer.low == pointer.high and pointer.element == "fp32"
    assert MockTensor("fp32", (4, 5)).stride() == (5, 1)


def test_extent_of_mixed_strides():
    assert extent(1000, (3, 4), (-8, 100), 8) == (1000 - 16, 1000 + 300 + 8)
    assert extent(1000, (3, 0), (-8, 100), 8) == (1000, 1000)
    assert extent(1000, (), (), 2) == (1000, 1002)


# -- torch -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def test_torch_elements(torch):
    for name, element in [("bool", "i1"), ("uint8", "u8"), ("int64", "i64"), ("float16", "fp16"),
                          ("bfloat16", "bf16"), ("float32", "fp32"), ("float8_e4m3fn", "fp8e4nv"),
                          ("float8_e5m2", "fp8e5")]:
        tensor = torch.zeros(4, dtype=getattr(torch, name))
        assert read(tensor)[:3] == (element, tensor.data_ptr(), tensor.data_ptr())


def test_torch_views(torch):
    base = torch.zeros(10, 12)
    for view in (base, base.t(), base[2:5, ::3], base[4, 4], base[:, 0], base.expand(3, 10, 12), base[:0]):
        pointer = read(view)
        array = view.numpy()
        expected = bounds(array) if array.size else (view.data_ptr(),) * 2
        assert (pointer.low, pointer.high) == expected


def test_torch_parameter_and_subclass(torch):
    class Mine(torch.Tensor):
        pass

    parameter = torch.nn.Parameter(torch.zeros(3))
    assert read(parameter).address == parameter.data_ptr()
    mine = torch.zeros(3).as_subclass(Mine)
    assert read(mine).address == mine.data_ptr()


def test_torch_tensors_without_data(torch):
    with pytest.raises(TypeError, match="meta device has no data"):
        read(torch.zeros(3, device="meta"))
    with pytest.raises(TypeError, match="of layout torch.sparse_coo has no data"):
        read(torch.eye(3).to_sparse())
    with pytest.raises(TypeError, match="complex64 cannot be loaded"):
        read(torch.zeros(3, dtype=torch.complex64))


@pytest.mark.filterwarnings("ignore:Accessing the data pointer of FakeTensor")
def test_torch_fake_tensor(torch):
    mode = pytest.importorskip("torch._subclasses.fake_tensor").FakeTensorMode()
    with mode:
        fake = torch.zeros(3)
    with pytest.raises(TypeError, match="has no data"):
        read(fake)
