"""The native launcher's reading of tensors, as LLVM text: from an array or a tensor to key words, slot and reach.

NumPy's arrays are read as C extensions read them, by the structures of `ndarraytypes.h`.  Of torch's tensors an
ordinary one (its dispatch keys are those of a dense tensor in the CPU's memory) is described by the functions of
torch's stable C interface (`aoti_torch/c/shim.h`), each of which takes two nanoseconds; every other one by DLPack's
exchange API, whose function takes fifty, since it asks for Python's lock and counts references.  The same holds for
tensors in a GPU's memory, which is asked for its number as well.  Where the tensor
stands in its Python object and the keys stand in it is no public matter: `torch_layout` finds the places and says 0
where it is not sure of them.  Then all tensors go through DLPack, and each is asked for its negative bit.
DLPack's words are not one to one: torch calls `int1` to `int7` eight bits there, as they take a byte.  So only tensors
of dtypes that kernels can load are read here, and where torch's number of a dtype is not known, none with these words.
Tests: tests/runtime/test_native_launch.py, tests/targets/cpu_host/test_tensors.py.
"""

from __future__ import annotations

from tilewright.targets.cpu.host.native import NativeModule
from tilewright.targets.cpu.host.records import Array, Reaches, Rule, Tag, Types, element_word
from tilewright.targets.llvm.types import I8, I32, I64, PTR, VOID, Value, constant

WIDE_ELEMENTS = 2**30       # runtime.launch says the same
# Below is nobody's memory (Linux's vm.mmap_min_addr, Windows's first 64 KiB); runtime.arguments says the same.
LOWEST_ADDRESS = 2**16
_DL_CPU, _DL_CUDA = 1, 2       # DLDeviceType
# Offsets in dlpack.h's DLTensor.
_DL_DEVICE, _DL_NDIM, _DL_DTYPE, _DL_SHAPE, _DL_STRIDES, _DL_OFFSET, _DL_SIZE = 8, 16, 20, 24, 32, 40, 48
# NumPy's numbers of types -> DLPack's type code and bits
NUMPY_TYPES = {0: (6, 8), 1: (0, 8), 2: (1, 8), 3: (0, 16), 4: (1, 16), 5: (0, 32), 6: (1, 32), 7: (0, 64), 8: (1, 64),
               9: (0, 64), 10: (1, 64), 11: (2, 32), 12: (2, 64), 23: (2, 16)}
_MOST_NUMPY = 32


class TensorCode:
    """Writes `read_torch` and `read_array`."""

    def __init__(self, module: NativeModule) -> None:
        self.module = module
        for name, result, params in (
                ("PyErr_Clear", VOID, ()), ("PyObject_VectorcallMethod", PTR, (PTR, PTR, I64, PTR)),
                ("Py_DecRef", VOID, (PTR,))):
            module.external(name, result, *params)
        self.false = module.external_object("_Py_FalseStruct")
        words = [0] * _MOST_NUMPY
        for number, (code, bits) in NUMPY_TYPES.items():
            words[number] = element_word(code, bits)
        listed = ", ".join(f"i32 {word}" for word in words)
        module.writer.add_global(f"@numpy_types = internal constant [{_MOST_NUMPY} x i32] [{listed}]")
        self._note_reach()
        self._reach()
        self._tensor_key()
        self._describe_ordinary()
        self._element_of()
        self._asked_negative()
        self._describe_by_keys()
        self._read_torch()
        self._read_array()

    def _note_reach(self) -> None:
        """Note the bytes that tensor number `number`, with elements of `size` bytes, reaches."""
        n = self.module.function("note_reach", [("low", I64), ("high", I64), ("size", I64), ("reaches", PTR),
                                                ("number", I64)], inline=True)
        low, high, size, reaches, number = n.params
        pair = n.at(reaches, n.mul(number, Reaches.PAIR))
        n.put(pair, Reaches.PAIRS, low)
        n.put(pair, Reaches.PAIRS + 8, high)
        wide = n.is_("uge", n.sub(high, low), n.mul(size, WIDE_ELEMENTS))
        n.when(n.both(wide, n.is_("ne", high, low)), lambda: n.put(reaches, Reaches.WIDE, 2))
        n.end()

    def _reach(self) -> None:
        """The bytes that a strided tensor, number `number`, reaches; `unit` is what strides count, null strides are
        row-major."""
        n = self.module.function("reach", [("address", I64), ("dims", I64), ("shape", PTR), ("strides", PTR),
                                           ("size", I64), ("unit", I64), ("reaches", PTR), ("number", I64)],
                                 inline=True)
        address, dims, shape, strides, size, unit, reaches, number = n.params
        low, high = n.variable(address), n.variable(address)

        def is_dense() -> None:
            extent = n.variable(size)
            n.count(0, dims, lambda k: n.write(extent, n.mul(n.read(extent), n.get(n.item(shape, k)))))
            n.write(high, n.add(address, n.read(extent)))

        def is_strided() -> None:
            empty = n.variable(0)

            def dimension(k: Value) -> None:
                count = n.get(n.item(shape, k))
                n.when(n.is_("eq", count, 0), lambda: n.write(empty, 1))
                far = n.mul(n.mul(n.sub(count, 1), unit), n.get(n.item(strides, k)))
                n.when(n.is_("slt", far, 0), lambda: n.write(low, n.add(n.read(low), far)),
                       lambda: n.write(high, n.add(n.read(high), far)))

            n.count(0, dims, dimension)
            some = n.is_("eq", n.read(empty), 0)
            n.write(low, n.pick(some, n.read(low), address))
            n.write(high, n.pick(some, n.add(n.read(high), size), address))

        n.when(n.is_("eq", n.as_int(strides), 0), is_dense, is_strided)
        n.call("note_reach", n.read(low), n.read(high), size, reaches, number)
        n.end()

    def _tensor_key(self) -> None:
        """Key words of a tensor, and its slot; `device` is 0 for the CPU, else DLPack's type and number of it."""
        n = self.module.function("tensor_key", [("address", I64), ("element", I32), ("device", I64), ("rule", I64),
                                                ("key", PTR), ("slot", PTR)], inline=True)
        address, element, device, rule, key, slot = n.params
        aligned = n.both(n.is_("eq", n.both(address, 15), 0), n.is_("ne", n.both(rule, Rule.BY_ALIGNMENT), 0))
        tag = n.either(n.op("shl", n.widen(element), 16), n.pick(aligned, Tag.TENSOR | Tag.DIVISIBLE, Tag.TENSOR))
        n.put(key, 0, tag)
        n.put(key, 8, device)
        n.put(slot, 0, address)
        n.end()

    # -- torch

    def _describe_ordinary(self) -> None:
        """Fill a DLTensor for the tensor whose handle is given, an ordinary one; false if its elements have no name in
        DLPack, or torch has an error to tell."""
        n = self.module.function("describe_ordinary", [("handle", PTR), ("types", PTR), ("tensor", PTR)], I32,
                                 inline=True)
        handle, types, tensor = n.params
        number, dims = n.f.alloca(I32, align=8), n.f.alloca(I64, align=8)
        failed = n.variable(0, I32)
        for function, place in ((Types.GET_DATA, tensor), (Types.GET_SHAPE, n.at(tensor, _DL_SHAPE)),
                                (Types.GET_STRIDES, n.at(tensor, _DL_STRIDES)), (Types.GET_DTYPE, number),
                                (Types.GET_DIM, dims)):
            code = n.call_pointer(n.get(types, function, PTR), I32, handle, place)
            n.write(failed, n.either(n.read(failed), code))
        kind = n.widen(n.get(number, 0, I32))
        n.when(n.either(n.is_("ne", n.read(failed), 0), n.is_("uge", kind, Types.MOST_ELEMENTS)), lambda: n.leave(0))
        element = n.get(n.item(types, kind, I32), Types.ELEMENTS, I32)
        n.put(tensor, _DL_DTYPE, element)
        n.put(tensor, _DL_DEVICE, _DL_CPU)
        n.put(tensor, _DL_NDIM, n.narrow(n.get(dims), I32))
        n.put(tensor, _DL_OFFSET, 0)
        n.end(n.widen(n.is_("ne", element, 0), I32))

    def _element_of(self) -> None:
        """DLPack's word for the elements of the tensor whose handle is given; 0 if kernels cannot load them."""
        n = self.module.function("element_of", [("handle", PTR), ("types", PTR)], I32)
        handle, types = n.params
        number = n.f.alloca(I32, align=8)
        failed = n.call_pointer(n.get(types, Types.GET_DTYPE, PTR), I32, handle, number)
        kind = n.widen(n.get(number, 0, I32))
        n.when(n.either(n.is_("ne", failed, 0), n.is_("uge", kind, Types.MOST_ELEMENTS)), lambda: n.leave(0))
        n.end(n.get(n.item(types, kind, I32), Types.ELEMENTS, I32))

    def _asked_negative(self) -> None:
        """Whether a tensor has the negative bit, or does not say that it has not."""
        n = self.module.function("asked_negative", [("thing", PTR), ("types", PTR)], I32)
        thing, types = n.params
        args = n.f.alloca(PTR, align=8)
        n.put(args, 0, thing)
        answer = n.call("PyObject_VectorcallMethod", n.get(types, Types.IS_NEG, PTR), args, 1, constant(PTR, 0))

        def fails() -> None:
            n.call("PyErr_Clear")
            n.leave(1)

        n.when(n.is_("eq", n.as_int(answer), 0), fails)
        n.call("Py_DecRef", answer)         # one of two objects that live for good
        n.end(n.widen(n.is_("ne", answer, self.false), I32))

    def _describe_by_keys(self) -> None:
        """Fill a DLTensor for a tensor that is ordinary by its dispatch keys: 1 with its device, else 2 if DLPack may
        be asked for it, or 0 if it has to go the slow way."""
        n = self.module.function("describe_by_keys", [("thing", PTR), ("types", PTR), ("tensor", PTR),
                                                      ("device", PTR)], I64, inline=True)
        thing, types, tensor, device = n.params
        handle = n.at(thing, n.get(types, Types.TENSOR_AT))
        keys = n.get(n.at(n.get(handle, 0, PTR), n.get(types, Types.KEYS_AT)))

        def are(*known: int) -> Value:
            return n.either(*(n.is_("eq", keys, n.get(types, word)) for word in known))

        def describe() -> None:
            n.when(n.is_("eq", n.call("describe_ordinary", handle, types, tensor), 0), lambda: n.leave(0))

        def on_host() -> None:
            describe()
            n.put(device, 0, 0)
            n.leave(1)

        def on_gpu() -> None:
            describe()
            number = n.f.alloca(I32, align=8)
            failed = n.call_pointer(n.get(types, Types.GET_GPU, PTR), I32, handle, number)
            n.when(n.is_("ne", failed, 0), lambda: n.leave(0))
            n.put(device, 0, n.either(n.op("shl", n.widen(n.get(number, 0, I32)), 32), _DL_CUDA))
            n.leave(1)

        n.when(are(Types.PLAIN, Types.INFERRED), on_host)
        n.when(are(Types.CUDA_PLAIN, Types.CUDA_INFERRED), on_gpu)
        n.when(n.is_("ne", n.both(keys, n.get(types, Types.NEGATIVE)), 0), lambda: n.leave(0))
        knows_dtypes = n.is_("ne", n.get(types, Types.GET_DTYPE), 0)
        n.when(knows_dtypes, lambda: n.when(n.is_("eq", n.call("element_of", handle, types), 0), lambda: n.leave(0)))
        n.end(2)

    def _read_torch(self) -> None:
        """A torch tensor; 3, or 0 if it has to go the slow way, as one has whose memory holds the numbers with the
        other sign (`is_neg`), or that has elements but no memory: a tracer's, or one whose storage was freed."""
        n = self.module.function("read_torch", [("thing", PTR), ("types", PTR), ("rule", I64), ("key", PTR),
                                                ("slot", PTR), ("reaches", PTR), ("number", I64)], I64, inline=True)
        thing, types, rule, key, slot, reaches, number = n.params
        tensor = n.f.alloca(I64, _DL_SIZE // 8, align=8)
        found, device = n.variable(2), n.variable(0)
        knows_dtypes = n.both(*(n.is_("ne", n.get(types, at), 0) for at in (Types.GET_DTYPE, Types.TENSOR_AT)))

        def by_keys() -> None:
            n.write(found, n.call("describe_by_keys", thing, types, tensor, device.slot))
            n.when(n.is_("eq", n.read(found), 0), lambda: n.leave(0))

        def ask_tensor() -> None:
            n.when(n.is_("ne", n.call("asked_negative", thing, types), 0), lambda: n.leave(0))

        def refuse() -> None:
            n.call("PyErr_Clear")
            n.leave(0)

        def describe() -> None:
            exchange = n.get(types, Types.DESCRIBE, PTR)
            n.when(n.is_("ne", n.call_pointer(exchange, I32, thing, tensor), 0), refuse)
            n.when(n.is_("ne", n.get(tensor, _DL_DEVICE, I32), _DL_CPU), elsewhere)
            is_byte = n.is_("ule", n.sub(n.both(n.widen(n.get(tensor, _DL_DTYPE, I32)), 0xffff), 0x0800), 1)
            n.when(n.both(is_byte, n.f.not_(knows_dtypes)), lambda: n.leave(0))

        def elsewhere() -> None:
            n.when(n.is_("ne", n.get(tensor, _DL_DEVICE, I32), _DL_CUDA), lambda: n.leave(0))
            n.write(device, n.get(tensor, _DL_DEVICE))       # type and number are one word

        def high() -> Value:
            return n.get(n.at(reaches, n.mul(number, Reaches.PAIR)), Reaches.PAIRS + 8)

        n.when(n.is_("ne", n.get(types, Types.TENSOR_AT), 0), by_keys, ask_tensor)
        n.when(n.is_("eq", n.read(found), 2), describe)
        address = n.add(n.get(tensor), n.get(tensor, _DL_OFFSET))
        element = n.get(tensor, _DL_DTYPE, I32)
        size = n.op("lshr", n.both(n.widen(n.op("lshr", element, 8)), 255), 3)
        n.call("tensor_key", address, element, n.read(device), rule, key, slot)
        n.call("reach", address, n.widen(n.get(tensor, _DL_NDIM, I32)), n.get(tensor, _DL_SHAPE, PTR),
               n.get(tensor, _DL_STRIDES, PTR), size, size, reaches, number)
        n.when(n.is_("ult", address, LOWEST_ADDRESS), lambda: n.when(n.is_("ne", high(), address), lambda: n.leave(0)))
        n.end(3)

    # -- NumPy

    def _read_array(self) -> None:
        """A NumPy array; 3, or 0 if it has to go the slow way, as one has that is not aligned, whose bytes are in
        foreign order, or that holds anything but numbers."""
        n = self.module.function("read_array", [("thing", PTR), ("rule", I64), ("key", PTR), ("slot", PTR),
                                                ("reaches", PTR), ("number", I64)], I64, inline=True)
        thing, rule, key, slot, reaches, number = n.params
        flags, kind = n.widen(n.get(thing, Array.FLAGS, I32)), n.get(thing, Array.DESCR, PTR)
        order = n.get(kind, Array.ORDER, I8)
        native = n.either(n.is_("eq", order, ord("=")), n.is_("eq", order, ord("|")))
        which = n.widen(n.get(kind, Array.NUMBER, I32))
        known = n.both(n.both(native, n.is_("ne", n.both(flags, Array.ALIGNED), 0)), n.is_("ult", which, _MOST_NUMPY))
        n.when(n.f.not_(known), lambda: n.leave(0))
        element = n.get(n.item(Value(PTR, "@numpy_types"), which, I32), 0, I32)
        n.when(n.is_("eq", element, 0), lambda: n.leave(0))
        size, address = n.both(n.widen(n.op("lshr", element, 11)), 31), n.get(thing, Array.DATA)
        n.call("tensor_key", address, element, 0, rule, key, slot)
        n.call("reach", address, n.widen(n.get(thing, Array.NDIM, I32)), n.get(thing, Array.SHAPE, PTR),
               n.get(thing, Array.STRIDES, PTR), size, 1, reaches, number)
        read_only = n.is_("ne", n.both(flags, Array.WRITEABLE | Array.WARN_ON_WRITE), Array.WRITEABLE)
        n.when(read_only, lambda: n.put(reaches, Reaches.READ_ONLY, n.either(
            n.get(reaches, Reaches.READ_ONLY), n.op("shl", 1, number))))
        n.end(3)
