"""What native code has to know of this process's torch to read an ordinary tensor without its DLPack functions.

Two places are no public matter: where the handle (`AtenTensorHandle`) stands in a tensor's Python object, and where the
dispatch keys stand in what the handle names.  They are looked for with tensors of known state.  The handle is the word
whose distance to the tensor's shape, which DLPack tells, is always the same; the keys are the only word behind it that
equals, for plain, negated, conjugated and inference tensors, what torch says their keys are.  From then on a tensor is
taken for an ordinary one only if its keys are exactly those of one: a reading of something else would be none of these.
What is found is compared with what DLPack says of every probe; where anything differs, nothing is found, and native
code does without.
Tensors on GPUs are laid out alike, and their keys are those of the CPU's under other names.  None is made for a probe:
that is work for the device, which a program may just be recording.  A launch's own argument is one (`learn_gpu`).
Tests: tests/targets/cpu_host/test_tensors.py.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from tilewright.targets.cpu.host.records import WORD, Types

_HANDLES = (16, 24, 32)         # behind the head of a Python object; a flag may stand before it
_MOST_BYTES = 208               # of a c10::TensorImpl
_FUNCTIONS = {Types.GET_DATA: "aoti_torch_get_data_ptr", Types.GET_SHAPE: "aoti_torch_get_sizes",
              Types.GET_STRIDES: "aoti_torch_get_strides", Types.GET_DTYPE: "aoti_torch_get_dtype",
              Types.GET_DIM: "aoti_torch_get_dim"}
_GPU_FUNCTIONS = {**_FUNCTIONS, Types.GET_GPU: "aoti_torch_get_device_index"}
# Names of the dispatch keys of an ordinary tensor on a kind of device; inference tensors have the first two alone.
_KEYS = ("{}", "Autocast{}", "Autograd{}", "ADInplaceOrView")
_GPU = "CUDA"                   # in names of dispatch keys
UNKNOWN = -1        # in place of dispatch keys; no tensor has all of them
_DL_CPU, _DL_CUDA = 1, 2    # DLDeviceType
_DTYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16",
           "float32", "float64", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")


class _Described(ctypes.Structure):
    """dlpack.h's DLTensor."""

    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int64), ("ndim", ctypes.c_int32),
                ("dtype", ctypes.c_uint32), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
                ("offset", ctypes.c_uint64)]


class Probe(NamedTuple):
    """A tensor, what DLPack says of it, and its dispatch keys."""

    tensor: Any
    described: _Described
    keys: int


class NotFound(Exception):
    """This torch, or its state now, is not one that is known here."""


def learn(torch: Any, describe: int, types: Any) -> bool:
    """Fill `types`, the words of a `Types` record, for this torch, whose describing function is at address `describe`;
    whether the places were found.  Nothing that is there is changed otherwise."""
    found: dict[int, int] = {}
    try:
        probes = list(_probes(torch, describe))
        _find_places(torch, probes, found)
        elements = _find_functions(torch, describe, probes, found)
    except Exception:       # whatever another torch raises
        return False
    for offset, value in found.items():
        types[offset // WORD] = value
    ctypes.memmove(ctypes.addressof(types) + Types.ELEMENTS, elements, ctypes.sizeof(elements))
    return True


def learn_gpu(torch: Any, describe: int, types: Any, values: Iterable[Any]) -> bool:
    """Fill in what `types` says of tensors on GPUs, after `learn`, if there is one among `values` that is ordinary and
    is described as DLPack does; whether there was."""
    try:
        if not torch.cuda.is_initialized():     # then no tensor is on a GPU
            return False
        known = tuple(types[at // WORD] for at in (Types.PLAIN, Types.INFERRED))
        keys = _ordinary_keys(torch, _GPU)
        # Attributes of tensors are not asked for: a mode that is active may have an answer of its own.
        tensors = (value for value in values if type(value) in (torch.Tensor, torch.nn.Parameter))
        tensor = next((t for t in tensors if _signed(torch._C._dispatch_keys(t).raw_repr()) in keys), None)
        if tensor is None or _ordinary_keys(torch, "CPU") != known:
            return False
        probe = _described(torch, describe, tensor)
        functions = _functions(_GPU_FUNCTIONS)
        said = _asked(functions, types[Types.TENSOR_AT // WORD], probe)
        elements = (ctypes.c_uint32 * Types.MOST_ELEMENTS).from_buffer(types, Types.ELEMENTS)
        _check(probe, said, elements, _DL_CUDA | said[Types.GET_GPU] << 32)
    except Exception:       # whatever another torch raises
        return False
    types[Types.GET_GPU // WORD] = _address(functions[Types.GET_GPU])
    types[Types.CUDA_PLAIN // WORD], types[Types.CUDA_INFERRED // WORD] = keys
    return True


def _ordinary_keys(torch: Any, device: str) -> tuple[int, int]:
    """The dispatch keys of plain and of inference tensors on a kind of device."""
    words = [torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, name.format(device))).raw_repr() for name in _KEYS]
    return _signed(words[0] | words[1] | words[2] | words[3]), _signed(words[0] | words[1])


def _probes(torch: Any, describe: int) -> Iterator[Probe]:
    with torch.inference_mode(False):
        yield from (_probe(torch, describe, tensor) for tensor in _ordinary(torch))
        yield from (_probe(torch, describe, tensor) for tensor in _marked(torch))
    yield _probe(torch, describe, _inferred(torch))


def _ordinary(torch: Any) -> list[Any]:
    """Tensors in the CPU's memory with nothing special about them."""
    made = [torch.zeros((2, 1, 3, 1, 2)[:dims], device="cpu") for dims in range(6)]
    made += [made[3].transpose(0, 2), made[1][1:], made[2].expand(2, 4), torch.zeros(0, 3, device="cpu"),
             torch.zeros(2, requires_grad=True, device="cpu")]
    return made


def _marked(torch: Any) -> list[Any]:
    numbers = torch.zeros(2, 2, dtype=torch.complex64, device="cpu")
    return [numbers.conj().imag, numbers.conj(), torch._neg_view(torch.zeros(3, device="cpu"))]


def _inferred(torch: Any) -> Any:
    with torch.inference_mode():
        return torch.zeros(3, device="cpu")


def _probe(torch: Any, describe: int, tensor: Any) -> Probe:
    if type(tensor) is not torch.Tensor:        # a mode is active that makes others
        raise NotFound
    return _described(torch, describe, tensor)


def _described(torch: Any, describe: int, tensor: Any) -> Probe:
    described = _Described()
    prototype = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)
    if prototype(describe)(tensor, ctypes.addressof(described)):
        raise NotFound
    return Probe(tensor, described, torch._C._dispatch_keys(tensor).raw_repr())


def _word(address: int) -> int:
    return ctypes.c_uint64.from_address(address).value


def _find_places(torch: Any, probes: Sequence[Probe], found: dict[int, int]) -> None:
    """Where handle and keys stand, and the bit of a negated tensor."""
    handles = [at for at in _HANDLES if _is_handle(probes, at)]
    if len(handles) != 1:
        raise NotFound
    keys = [at for at in range(WORD, _MOST_BYTES, WORD)
            if all(_word(_word(id(p.tensor) + handles[0]) + at) == p.keys for p in probes)]
    negative = torch._C.DispatchKeySet(torch._C.DispatchKey.Negative).raw_repr()
    told = all(bool(p.keys & negative) == p.tensor.is_neg() for p in probes)
    if len(keys) != 1 or negative.bit_count() != 1 or not told or len({p.keys for p in probes}) < 4:
        raise NotFound
    found.update({Types.TENSOR_AT: handles[0], Types.KEYS_AT: keys[0], Types.NEGATIVE: _signed(negative)})


def _is_handle(probes: Sequence[Probe], at: int) -> bool:
    """Whether the word there always has the shape at the same short distance behind it; the probes have few dimensions,
    so that the tensor itself holds their sizes."""
    distances = {p.described.shape - _word(id(p.tensor) + at) for p in probes}
    return len(distances) == 1 and 0 < distances.pop() < _MOST_BYTES


def _signed(word: int) -> int:
    return ctypes.c_int64(word).value


def _find_functions(torch: Any, describe: int, probes: Sequence[Probe], found: dict[int, int]) -> Any:
    """The functions that describe ordinary tensors, and the table of dtypes.

    Without them no tensor is taken for an ordinary one; they came to torch one by one.
    """
    elements = (ctypes.c_uint32 * Types.MOST_ELEMENTS)()
    found.update(dict.fromkeys((Types.PLAIN, Types.INFERRED, Types.CUDA_PLAIN, Types.CUDA_INFERRED), UNKNOWN))
    with suppress(AttributeError, OSError, NotFound):
        functions = _functions(_FUNCTIONS)
        with torch.inference_mode(False):
            samples = [_probe(torch, describe, torch.zeros(1, dtype=getattr(torch, name), device="cpu"))
                       for name in _DTYPES if hasattr(torch, name)]
        for sample in samples:
            number = _asked(functions, found[Types.TENSOR_AT], sample)[Types.GET_DTYPE]
            if number < Types.MOST_ELEMENTS:
                elements[number] = sample.described.dtype
        plain, inferred = samples[0].keys, probes[-1].keys
        for probe in (*probes, *samples):
            if probe.keys in (plain, inferred):
                _check(probe, _asked(functions, found[Types.TENSOR_AT], probe), elements, _DL_CPU)
        found.update({offset: _address(function) for offset, function in functions.items()})
        found.update({Types.PLAIN: _signed(plain), Types.INFERRED: _signed(inferred)})
    return elements


def _functions(names: dict[int, str]) -> dict[int, Any]:
    library = ctypes.CDLL(sys.modules["torch._C"].__file__)      # its symbols and those of what it links
    return {offset: getattr(library, name) for offset, name in names.items()}


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _asked(functions: dict[int, Any], handle_at: int, probe: Probe) -> dict[int, int]:
    """What the functions say of a probe."""
    said = {}
    for offset, function in functions.items():
        kind = ctypes.c_int32 if offset in (Types.GET_DTYPE, Types.GET_GPU) else ctypes.c_int64
        out = kind()
        if function(ctypes.c_void_p(id(probe.tensor) + handle_at), ctypes.byref(out)):
            raise NotFound
        said[offset] = out.value
    return said


def _check(probe: Probe, said: dict[int, int], elements: Any, device: int) -> None:
    """That the functions say what DLPack does, and that it names this device (type and number in one word)."""
    d = probe.described
    number = said[Types.GET_DTYPE]
    dtype = elements[number] if 0 <= number < Types.MOST_ELEMENTS else 0
    told = (said[Types.GET_DATA], said[Types.GET_DIM], said[Types.GET_SHAPE], said[Types.GET_STRIDES], dtype)
    if told != ((d.data or 0) + d.offset, d.ndim, d.shape, d.strides, d.dtype) or d.device != device:
        raise NotFound
