"""What a launch can take as a tensor: NumPy arrays, torch tensors, DLPack and `__array_interface__` objects.

A *reader* turns one object into a `Pointer`: the type text of its elements, its address, the lowest and highest byte
that its shape and strides reach, whether it may be written, and its device.  Readers are looked up by the object's
class, once per class.  torch is never imported here: its tensors exist only where the user has imported it.
Only public interfaces are read (`data_ptr()`, `__array_interface__`, DLPack).
Tests: tests/runtime/test_arguments.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from tilewright.imported import imported
from tilewright.interpret.memory import HIGHEST, Extent
from tilewright.language.types import dtype as language_dtype
from tilewright.runtime import dlpack

CPU = "cpu"
ANYWHERE = "anywhere"   # the device of what does not say where it is: that of the other tensors, else the driver's
LOWEST = 2**16          # what lies lower is nobody's memory; targets.cpu.host.launcher_tensors says the same


class Pointer(NamedTuple):
    """A tensor as a kernel sees it; `low` <= every byte of it < `high`."""

    element: str            # triton's short name: fp32, bf16, i64, u8, i1 ...
    address: int
    low: int
    high: int
    writable: bool = True
    device: str = CPU
    owner: Any = None       # what must live until the launch has ended, where it is not the argument itself

    def extent(self, name: str) -> Extent:
        """The interpreters' form of it, called `name`."""
        return Extent(name, self.low, self.high - self.low, self.writable, self.address)


Reader = Callable[[Any], Pointer]
_made = tuple.__new__       # a named tuple in half the time of its constructor, for every launch

# name of a dtype in NumPy, ml_dtypes or torch -> (short name, bytes)
ELEMENTS: Mapping[str, tuple[str, int]] = MappingProxyType({
    "bool": ("i1", 1), "int1": ("i1", 1),
    "int8": ("i8", 1), "int16": ("i16", 2), "int32": ("i32", 4), "int64": ("i64", 8),
    "uint8": ("u8", 1), "uint16": ("u16", 2), "uint32": ("u32", 4), "uint64": ("u64", 8),
    "float16": ("fp16", 2), "bfloat16": ("bf16", 2), "float32": ("fp32", 4), "float64": ("fp64", 8),
    "float8_e4m3fn": ("fp8e4nv", 1), "float8_e5m2": ("fp8e5", 1),
    "float8_e4m3fnuz": ("fp8e4b8", 1), "float8_e5m2fnuz": ("fp8e5b16", 1),
    "fp16": ("fp16", 2), "bf16": ("bf16", 2), "fp32": ("fp32", 4), "fp64": ("fp64", 8),
    "fp8e4nv": ("fp8e4nv", 1), "fp8e5": ("fp8e5", 1), "fp8e4b8": ("fp8e4b8", 1), "fp8e5b16": ("fp8e5b16", 1),
    "fp8e4b15": ("fp8e4b15", 1),
})


def element_of_dtype(dtype: Any) -> tuple[str, int]:
    """Short name and size of a NumPy, torch or language dtype; TypeError for what no kernel can load."""
    name = str(dtype).rpartition(".")[2]
    if isinstance(dtype, np.dtype) and not dtype.isnative:
        raise TypeError(f"elements of dtype {dtype.str!r} are in foreign byte order; convert with "
                        ".astype(a.dtype.newbyteorder('='))")
    if name not in ELEMENTS:
        raise TypeError(f"elements of dtype {dtype} cannot be loaded by a kernel; there are "
                        "bool, int8 to int64, uint8 to uint64, float16, bfloat16, float32, float64, "
                        "float8_e4m3fn, float8_e5m2, float8_e4m3fnuz, float8_e5m2fnuz")
    return ELEMENTS[name]


def extent(address: int, shape: Sequence[int], byte_strides: Sequence[int], size: int) -> tuple[int, int]:
    """The lowest byte and the byte after the highest one that a strided tensor reaches; equal if it is empty."""
    low = high = 0
    for count, stride in zip(shape, byte_strides, strict=True):
        if count == 0:
            return address, address
        reach = (count - 1) * stride
        if reach < 0:
            low += reach
        else:
            high += reach
    return address + low, address + high + size


def numpy_reader() -> Reader:
    """The reader of arrays; strides may be anything, read-only arrays are readable."""
    elements: dict[Any, str] = {}

    def read(array: Any) -> Pointer:
        element = elements.get(array.dtype)
        if element is None:
            element = elements[array.dtype] = element_of_dtype(array.dtype)[0]
        interface = array.__array_interface__
        address, read_only = interface["data"]
        strides = interface["strides"]
        if strides is None:
            return _made(Pointer, (element, address, address, address + array.nbytes, not read_only, CPU, None))
        low, high = extent(address, array.shape, strides, array.itemsize)
        return Pointer(element, address, low, high, not read_only)

    return read


def _read_masked(array: Any) -> Pointer:
    raise TypeError("a masked array's mask would be lost in a kernel; pass .filled(value), or .data and the mask")


def torch_reader() -> Reader:
    """The reader of torch tensors; its table of dtypes is filled as they come."""
    elements: dict[Any, tuple[str, int]] = {}

    def read(tensor: Any) -> Pointer:
        known = elements.get(tensor.dtype)
        if known is None:
            known = elements[tensor.dtype] = element_of_dtype(tensor.dtype)
        element, size = known
        device = CPU if tensor.is_cpu else _device_of(tensor)
        if device is not CPU and not tensor.is_cuda:
            return Pointer(element, 0, 0, 0, True, device)      # a device of no target: its data are not looked at
        try:
            address = tensor.data_ptr()
        except RuntimeError:
            raise TypeError(_without_data(tensor)) from None
        if tensor.is_neg():
            raise TypeError("its negative bit is set (it is a view of numbers with the other sign, as .imag of a "
                            "conjugate is), which a kernel would not see; pass tensor.resolve_neg()")
        if tensor.is_contiguous():
            low, high = address, address + tensor.numel() * size
        else:
            low, high = extent(address, tensor.shape, [s * size for s in tensor.stride()], size)
        if address < LOWEST and low != high:
            raise TypeError(f"a {type(tensor).__name__} has no data (a tracer made it, or its storage was freed by "
                            "resize_); launch with real tensors")
        return _made(Pointer, (element, address, low, high, True, device, None))

    return read


def _without_data(tensor: Any) -> str:
    """What there is to say of a torch tensor that has no memory of its own."""
    if str(tensor.layout) != "torch.strided":
        return (f"a {type(tensor).__name__} of layout {tensor.layout} has no data that a pointer could lead through; "
                "pass x.to_dense(), or its parts as tensors of their own")
    return ("a tensor inside torch.func (vmap, grad, jvp) stands for others and has no data; launch in a "
            "torch.autograd.Function with backward and the static method vmap, or in a torch.library.custom_op with "
            "register_autograd and register_vmap, which get tensors that have")


def _device_of(tensor: Any) -> str:
    """The name of the device of a torch tensor that is not in the CPU's memory."""
    device = str(tensor.device)
    if device == "meta":
        raise TypeError("a tensor on the meta device has no data; allocate it, or use .warmup(...) to compile only")
    return device


def read_cuda_array(thing: Any) -> Pointer:
    """An object with `__cuda_array_interface__` (CuPy's and Numba's arrays), version 3 of it: address, shape, typestr.

    The interface does not say on which device the memory is; DLPack's does, which these libraries speak as well.
    """
    interface = thing.__cuda_array_interface__
    if interface.get("mask") is not None:
        raise TypeError("a masked array's mask would be lost in a kernel; pass the data and the mask")
    address, read_only = interface["data"]
    element, size = element_of_dtype(np.dtype(interface["typestr"]))
    index = int(thing.__dlpack_device__()[1]) if hasattr(thing, "__dlpack_device__") else 0
    shape, strides = interface["shape"], interface.get("strides")
    low, high = extent(address, shape, dense_strides(shape, size) if strides is None else strides, size)
    return Pointer(element, address, low, high, not read_only, f"cuda:{index}")


def dense_strides(shape: Sequence[int], size: int) -> list[int]:
    """The strides in bytes of a row-major tensor with elements of `size` bytes."""
    strides: list[int] = []
    for count in reversed(shape):
        strides.append(size)
        size *= count
    return strides[::-1]


def read_array_interface(thing: Any) -> Pointer:
    """An object with `__array_interface__`, which NumPy sees without copying."""
    array = np.asarray(thing)
    if array.__array_interface__["data"][0] != thing.__array_interface__["data"][0]:
        raise TypeError(f"NumPy copies an object of type {type(thing).__name__}; pass an array of its own")
    return numpy_reader()(array)._replace(owner=array)


def read_dlpack(thing: Any) -> Pointer:
    """An object of another library that speaks DLPack."""
    kind, index = (int(word) for word in thing.__dlpack_device__())
    if kind not in dlpack.HOST and kind != dlpack.CUDA:
        return Pointer("i8", 0, 0, 0, True, f"DLPack device type {kind}")
    found = dlpack.export(thing)
    element, size = element_of_dtype(found.dtype)
    low, high = extent(found.address, found.shape, [s * size for s in found.strides], size)
    device = CPU if kind in dlpack.HOST else f"cuda:{index}"
    return Pointer(element, found.address, low, high, found.writable, device, found)


def data_ptr_reader() -> Reader:
    """The reader of objects with `data_ptr()` and `dtype` only: what does not tell its extent may reach everything, and
    what does not tell its device is where the others are."""
    elements: dict[Any, tuple[str, int]] = {}

    def read(thing: Any) -> Pointer:
        known = elements.get(thing.dtype)
        if known is None:
            known = elements[thing.dtype] = element_of_dtype(thing.dtype)
        element, size = known
        address = int(thing.data_ptr())
        if not 0 <= address < HIGHEST:
            raise TypeError(f"data_ptr() of a {type(thing).__name__} gives {address}, which is no address")
        device = str(getattr(thing, "device", ANYWHERE))
        device = CPU if device.partition(":")[0] == CPU else device
        if hasattr(thing, "shape") and callable(getattr(thing, "stride", None)):
            low, high = extent(address, thing.shape, [s * size for s in thing.stride()], size)
            return Pointer(element, address, max(low, 0), min(high, HIGHEST), True, device)
        return Pointer(element, address, LOWEST, HIGHEST, True, device)

    return read


class MockTensor:
    """A tensor without data: its dtype, for `warmup`; counts as aligned and overlapping nothing."""

    def __init__(self, dtype: Any, shape: Sequence[int] = (1,)) -> None:
        self.dtype = dtype
        self.shape = tuple(shape)

    @staticmethod
    def data_ptr() -> int:
        return 0

    @staticmethod
    def ptr_range() -> int:
        """How many bytes from the address on may be reached; none."""
        return 0

    @staticmethod
    def wrap_dtype(arg: Any) -> Any:
        """A dtype (torch's, NumPy's or the language's) as a mock tensor of it; anything else as it is."""
        if isinstance(arg, language_dtype | np.dtype) or str(type(arg)) == "<class 'torch.dtype'>":
            return MockTensor(arg)
        if isinstance(arg, type) and issubclass(arg, np.generic):
            return MockTensor(np.dtype(arg))
        return arg

    def stride(self) -> tuple[int, ...]:
        """The strides of a dense row-major tensor of this shape."""
        strides = [1]
        for size in reversed(self.shape[1:]):
            strides.append(strides[-1] * size)
        return tuple(reversed(strides[:len(self.shape)]))


def read_mock(mock: Any) -> Pointer:
    return Pointer(element_of_dtype(mock.dtype)[0], 0, 0, 0, True, ANYWHERE)


class Readers:
    """Readers by class.  `find` gives None for what is no tensor."""

    def __init__(self) -> None:
        self._numpy = numpy_reader()
        self._torch = torch_reader()
        self._told = data_ptr_reader()
        self.known: dict[type, Reader | None] = {np.ndarray: self._numpy, MockTensor: read_mock}

    def find(self, cls: type, value: Any) -> Reader | None:
        """The reader for objects of class `cls`, of which `value` is one."""
        try:
            return self.known[cls]
        except KeyError:
            reader = self.known[cls] = self._choose(value)
            return reader

    def told(self, value: Any) -> Reader | None:
        """The reader if it is one that calls the object's own methods; None for what others read, or is no tensor."""
        return self._told if self.find(type(value), value) is self._told else None

    def _choose(self, value: Any) -> Reader | None:
        torch = imported("torch")
        if torch is not None and isinstance(value, torch.Tensor):
            return self._torch
        masked = imported("numpy.ma")        # np.ma would import it, which takes 15 ms
        if masked is not None and isinstance(value, masked.MaskedArray):
            return _read_masked
        if isinstance(value, np.ndarray):
            return self._numpy
        if isinstance(value, type | np.generic):
            return None
        if callable(getattr(value, "data_ptr", None)) and hasattr(value, "dtype"):
            return self._told
        if hasattr(value, "__cuda_array_interface__"):
            return read_cuda_array
        if hasattr(value, "__array_interface__"):
            return read_array_interface
        if hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
            return read_dlpack
        return None
