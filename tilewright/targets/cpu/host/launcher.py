"""The native launcher's Python side in the host: its code mapped, the type of bound launchers, the tensor classes.

What a kernel's tables hold is the runtime's business (`runtime.native_launch`).
Tests: tests/runtime/test_native_launch.py.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.imported import imported
from tilewright.targets.cpu.host import torch_layout
from tilewright.targets.cpu.host.elf import Image
from tilewright.targets.cpu.host.library import (
    LAUNCHER_LEVEL,
    LAUNCHER_SOURCES,
    Library,
    ObjectStore,
    keep_for_ever,
    launcher_text,
    load_object,
    source_key,
)
from tilewright.targets.cpu.host.records import OB_TYPE, WORD, Array, Bound, Types
from tilewright.targets.llvm.machine import Compiler

_METH_FASTCALL = 0x80
# Py_TPFLAGS_DEFAULT, HAVE_GC, HAVE_VECTORCALL, DISALLOW_INSTANTIATION
_FLAGS = 1 << 18 | 1 << 14 | 1 << 11 | 1 << 7
_TP_CALL, _TP_DEALLOC, _TP_TRAVERSE, _TP_MEMBERS = 50, 52, 71, 72       # typeslots.h, fixed by the stable ABI
_T_PYSSIZET, _READONLY = 19, 1
_EXCHANGE_API = b"dlpack_exchange_api"
_DESCRIBE = 40                              # dltensor_from_py_object_no_sync in DLPackExchangeAPI, version 1


class _Method(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int),
                ("doc", ctypes.c_char_p)]


class _Member(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("type", ctypes.c_int), ("offset", ctypes.c_ssize_t),
                ("flags", ctypes.c_int), ("doc", ctypes.c_char_p)]


class _Slot(ctypes.Structure):
    _fields_ = [("slot", ctypes.c_int), ("value", ctypes.c_void_p)]


class _TypeSpec(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("basicsize", ctypes.c_int), ("itemsize", ctypes.c_int),
                ("flags", ctypes.c_uint), ("slots", ctypes.c_void_p)]


class Launchers:
    """Makes `bind` functions; one for a process is enough, and it stays for good."""

    def __init__(self, library: Library, compiler: Compiler, store: ObjectStore | None) -> None:
        self._kinds: list[type] = []        # named by the record
        self._library, self._compiler, self._store = library, compiler, store
        self._loaded: dict[str, Image] = {}
        self.image = image = Image(load_object(source_key(LAUNCHER_SOURCES), launcher_text, compiler, store,
                                               LAUNCHER_LEVEL), library.symbols)
        keep_for_ever(image)        # objects whose type is below may outlive everything here
        self._method = _Method(b"bind", image.symbols["bind"], _METH_FASTCALL, b"What kernel[grid] gives.")
        keep_for_ever(self._method)
        self.bound_type = _bound_type(image.symbols["call"], image.symbols["visit"], image.symbols["drop"])
        self._types = (ctypes.c_int64 * (Types.SIZE // WORD))()
        self.types = ctypes.addressof(self._types)
        self._types[Types.ARRAY // WORD] = id(np.ndarray) if _arrays_are_known() else 0
        self._tell: Callable[[Any], Any] | None = None
        self._is_neg = sys.intern("is_neg")
        self._types[Types.IS_NEG // WORD] = id(self._is_neg)

    def load(self, name: str, key: str, text: Callable[[], str], symbols: Mapping[str, int]) -> int:
        """The address of the function `name` of another target's native code, which stays for good.

        Its LLVM text is `text()`, which `key` stands for; what it calls are `symbols`, and functions of this process.
        """
        image = self._loaded.get(key)
        if image is None:
            def resolve(wanted: str) -> int:
                return symbols[wanted] if wanted in symbols else self._library.symbols(wanted)

            image = self._loaded[key] = Image(load_object(key, text, self._compiler, self._store), resolve)
            keep_for_ever(image)
        return image.symbols[name]

    def learn_torch(self, values: Sequence[Any]) -> None:
        """Read torch's tensors natively from now on, if the program has imported torch and it offers the interface.

        `values` are the arguments of a launch: of tensors on GPUs, how to read them is learnt from one.
        """
        torch = imported("torch")
        if torch is None:
            return
        describe = int(self._types[Types.DESCRIBE // WORD]) or _describer(torch)
        if not describe:
            return
        if not self._types[Types.TENSOR_AT // WORD]:
            torch_layout.learn(torch, describe, self._types)
            self._types[Types.TENSOR // WORD] = id(torch.Tensor)
            self._types[Types.PARAMETER // WORD] = id(torch.nn.Parameter)
            self._types[Types.DESCRIBE // WORD] = describe
        if self._types[Types.CUDA_PLAIN // WORD] == torch_layout.UNKNOWN:
            torch_layout.learn_gpu(torch, describe, self._types, values)

    def ask(self, tell: Callable[[Any], Any]) -> None:
        """Have this function tell of objects whose classes are learnt as `Types.TOLD`; the first one stays."""
        if self._tell is None:
            self._tell = tell
            self._types[Types.TELL // WORD] = id(tell)

    def learn_class(self, kind: type, how: int) -> None:
        """Read objects of this class natively from now on, as `how` says (`Types.KINDS`); there is room for few."""
        known = self._types[Types.KNOWN_KINDS // WORD]
        if kind in self._kinds or known == Types.MOST_KINDS or (how == Types.LIKE_TENSORS
                                                                and not self._types[Types.TENSOR // WORD]):
            return
        self._kinds.append(kind)
        place = (Types.KINDS + Types.KIND * known) // WORD
        self._types[place], self._types[place + 1] = id(kind), how
        self._types[Types.KNOWN_KINDS // WORD] = known + 1

    def bind(self, state: int) -> Callable[[Any, Any], Any]:
        """The builtin `bind(kernel, grid)` for the launcher whose state is at address `state`."""
        make = ctypes.pythonapi.PyCFunction_NewEx
        prototype = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
        made: Callable[[Any, Any], Any] = prototype(ctypes.cast(make, ctypes.c_void_p).value or 0)(
            ctypes.addressof(self._method), state, None)
        return made


def is_supported() -> bool:
    """Whether this Python has the functions that native code calls (3.10 lacks some), and objects as it expects them:
    their type stands elsewhere in builds that trace references."""
    return sys.version_info >= (3, 11) and all(
        ctypes.c_void_p.from_address(id(thing) + OB_TYPE).value == id(type(thing))
        for thing in (1, 1.0, (), None, np.zeros(1), Launchers))


def _arrays_are_known() -> bool:
    """Whether arrays of this NumPy are what native code expects; its versions 1 and 2 agree on that."""
    def word(address: int, kind: Any = ctypes.c_int64) -> int:
        return int(kind.from_address(address).value)

    for array in (np.zeros((3, 2), np.int16)[1:, ::-1], np.zeros(2, ">f4")):
        array.flags.writeable = array.ndim == 1
        at, kind = id(array), id(array.dtype)
        if word(at + Array.DATA) != array.ctypes.data or word(at + Array.NDIM, ctypes.c_int32) != array.ndim:
            return False
        sizes = [word(word(at + place) + WORD * k) for place in (Array.SHAPE, Array.STRIDES) for k in range(array.ndim)]
        flags = word(at + Array.FLAGS, ctypes.c_uint32)
        if (sizes != [*array.shape, *array.strides] or word(at + Array.DESCR) != kind
                or not flags & Array.ALIGNED or bool(flags & Array.WRITEABLE) != array.flags.writeable
                or word(kind + Array.ORDER, ctypes.c_uint8) != ord(array.dtype.byteorder)
                or word(kind + Array.NUMBER, ctypes.c_int32) != array.dtype.num):
            return False
    return True


def _bound_type(call: int, visit: int, drop: int) -> type:
    """The type of bound launchers, made for good."""
    members = (_Member * 2)(_Member(b"__vectorcalloffset__", _T_PYSSIZET, Bound.VECTORCALL, _READONLY, None))
    generic = ctypes.cast(ctypes.pythonapi.PyVectorcall_Call, ctypes.c_void_p).value
    slots = (_Slot * 5)(_Slot(_TP_CALL, generic), _Slot(_TP_DEALLOC, drop), _Slot(_TP_TRAVERSE, visit),
                         _Slot(_TP_MEMBERS, ctypes.addressof(members)))
    spec = _TypeSpec(b"tilewright.BoundKernel", Bound.SIZE, 0, _FLAGS, ctypes.addressof(slots))
    keep_for_ever((members, slots, spec))
    prototype = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p)
    made: type = prototype(ctypes.cast(ctypes.pythonapi.PyType_FromSpec, ctypes.c_void_p).value or 0)(
        ctypes.addressof(spec))
    keep_for_ever(made)
    return made


def _describer(torch: Any) -> int:
    """The address of torch's function that describes a tensor, or 0 if this torch has none that is known here."""
    capsule = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    if capsule is None:
        return 0
    prototype = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    pointer = prototype(ctypes.cast(ctypes.pythonapi.PyCapsule_GetPointer, ctypes.c_void_p).value or 0)
    try:
        table = pointer(capsule, _EXCHANGE_API)
    except ValueError:
        return 0
    if not table or ctypes.c_uint32.from_address(table).value != 1:
        return 0
    return ctypes.c_void_p.from_address(table + _DESCRIBE).value or 0
