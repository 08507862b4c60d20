"""The native launcher's reading of argument values, as LLVM text: from a Python object to key words, slot and reach.

Only public interfaces of other libraries are used: the number protocol of CPython, DLPack's C exchange API for torch
tensors, the buffer protocol for NumPy arrays.  What none of these can say for sure is left to the slow way, which
also makes the errors.  Equal key words must mean equal atoms of `runtime.specialize`; the key may tell more apart.
Tests: tests/runtime/test_native_launch.py.
"""

from __future__ import annotations

from tilewright.targets.cpu.host.native import Native, NativeModule
from tilewright.targets.cpu.host.records import OB_TYPE, Reaches, Rule, Tag, Types
from tilewright.targets.llvm.types import DOUBLE, FLOAT, I16, I32, I64, PTR, VOID, Value, constant

WIDE_ELEMENTS = 2**30       # runtime.launch says the same
_RECORDS_RO = 0x1C          # PyBUF_RECORDS_RO: strides and format, also of read-only arrays
_DL_CPU, _DL_CUDA = 1, 2       # DLDeviceType
_DL_FLOAT = 2                   # DLDataTypeCode
# Offsets in dlpack.h's DLTensor and in CPython's Py_buffer.
_DL_DEVICE, _DL_NDIM, _DL_DTYPE, _DL_SHAPE, _DL_STRIDES, _DL_OFFSET, _DL_SIZE = 8, 16, 20, 24, 32, 40, 48
_PY_ITEMSIZE, _PY_READONLY, _PY_NDIM, _PY_FORMAT, _PY_SHAPE, _PY_STRIDES, _PY_SIZE = 24, 32, 36, 40, 48, 56, 80
# NumPy's format letters -> DLPack's type code and bits
_FORMATS = {"?": (6, 8), "b": (0, 8), "B": (1, 8), "h": (0, 16), "H": (1, 16), "i": (0, 32), "I": (1, 32),
            "l": (0, 64), "L": (1, 64), "q": (0, 64), "Q": (1, 64), "e": (2, 16), "f": (2, 32), "d": (2, 64)}


class ValueCode:
    """Writes `read_value` and what it needs."""

    def __init__(self, module: NativeModule) -> None:
        self.module = module
        m = module
        m.external("PyLong_AsLongLongAndOverflow", I64, PTR, PTR)
        m.external("PyFloat_AsDouble", DOUBLE, PTR)
        m.external("PyObject_GetBuffer", I32, PTR, PTR, I32)
        m.external("PyBuffer_Release", VOID, PTR)
        m.external("PyErr_Clear", VOID)
        m.external("PyObject_VectorcallMethod", PTR, PTR, PTR, I64, PTR)
        m.external("Py_DecRef", VOID, PTR)
        self.int_type = m.external_object("PyLong_Type")
        self.float_type = m.external_object("PyFloat_Type")
        self.true = m.external_object("_Py_TrueStruct")
        self.false = m.external_object("_Py_FalseStruct")
        self.none = m.external_object("_Py_NoneStruct")
        codes = ["0"] * 128
        for letter, (code, bits) in _FORMATS.items():
            codes[ord(letter)] = str(code | bits << 8 | 1 << 16)
        m.writer.add_global(f"@formats = internal constant [128 x i32] [{', '.join('i32 ' + c for c in codes)}]")
        self._reach()
        self._tensor_key()
        self._is_plain()
        self._read_described()
        self._read_buffer()
        self._read_int()
        self._read_constant()
        self._read_number()
        self._read_value()

    def same(self, n: Native, a: Value, b: Value) -> Value:
        return n.is_("eq", a, b)

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
        pair = n.at(reaches, n.mul(number, Reaches.PAIR))
        n.put(pair, Reaches.PAIRS, n.read(low))
        n.put(pair, Reaches.PAIRS + 8, n.read(high))
        wide = n.is_("uge", n.sub(n.read(high), n.read(low)), n.mul(size, WIDE_ELEMENTS))
        n.when(n.both(wide, n.is_("ne", n.read(high), n.read(low))), lambda: n.put(reaches, Reaches.WIDE, 2))
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

    def _is_plain(self) -> None:
        """Whether a torch tensor's memory holds its numbers, and not those with the other sign (`is_neg`).

        DLPack does not say it.  What is marked so is the imaginary part of a conjugate, or a view of one: it begins in
        the middle of a complex number, and its strides are whole ones.  Only what may be that is asked.  (Complex
        numbers in memory that is aligned to half of one, and what torch._neg_view marks, are not noticed.)
        """
        n = self.module.function("is_plain", [("thing", PTR), ("tensor", PTR), ("address", I64), ("size", I64),
                                              ("is_neg", PTR)], I32, inline=True)
        thing, tensor, address, size, is_neg = n.params
        strides, shape, some_odd = n.get(tensor, _DL_STRIDES, PTR), n.get(tensor, _DL_SHAPE, PTR), n.variable(0)
        n.when(n.is_("eq", n.both(address, size), 0), lambda: n.leave(1))       # complex numbers are aligned
        n.when(n.is_("ne", n.both(n.get(tensor, _DL_DTYPE, I32), 255), _DL_FLOAT), lambda: n.leave(1))
        n.when(n.is_("eq", n.as_int(strides), 0), lambda: n.leave(1))

        def look(k: Value) -> None:     # a dimension of one element may have any stride
            n.when(n.is_("ne", n.get(n.item(shape, k)), 1), lambda: n.write(
                some_odd, n.either(n.read(some_odd), n.get(n.item(strides, k)))))

        n.count(0, n.widen(n.get(tensor, _DL_NDIM, I32)), look)
        n.when(n.is_("ne", n.both(n.read(some_odd), 1), 0), lambda: n.leave(1))
        args = n.f.alloca(PTR, align=8)
        n.put(args, 0, thing)
        answer = n.call("PyObject_VectorcallMethod", is_neg, args, 1, Value(PTR, "null"))

        def fails() -> None:
            n.call("PyErr_Clear")
            n.leave(0)

        n.when(n.is_("eq", n.as_int(answer), 0), fails)
        n.call("Py_DecRef", answer)         # one of two objects that live for good
        n.end(n.widen(self.same(n, answer, self.false), I32))

    def _read_described(self) -> None:
        """A torch tensor, by the function of the DLPack exchange API; 3, or 0 if it has to go the slow way."""
        n = self.module.function("read_described", [("thing", PTR), ("types", PTR), ("rule", I64), ("key", PTR),
                                                    ("slot", PTR), ("reaches", PTR), ("number", I64)], I64,
                                 inline=True)
        thing, types, rule, key, slot, reaches, number = n.params
        describe = n.get(types, Types.DESCRIBE, PTR)
        n.when(n.is_("eq", n.as_int(describe), 0), lambda: n.leave(0))
        tensor = n.f.alloca(I64, _DL_SIZE // 8, align=8)

        def refuse() -> None:
            n.call("PyErr_Clear")
            n.leave(0)

        n.when(n.is_("ne", n.call_pointer(describe, I32, thing, tensor), 0), refuse)
        device = n.variable(0)

        def elsewhere() -> None:
            n.when(n.is_("ne", n.get(tensor, _DL_DEVICE, I32), _DL_CUDA), lambda: n.leave(0))
            n.write(device, n.get(tensor, _DL_DEVICE))       # type and number are one word

        n.when(n.is_("ne", n.get(tensor, _DL_DEVICE, I32), _DL_CPU), elsewhere)
        address = n.add(n.get(tensor), n.get(tensor, _DL_OFFSET))
        element = n.get(tensor, _DL_DTYPE, I32)
        size = n.op("lshr", n.both(n.widen(n.op("lshr", element, 8)), 255), 3)
        plain = n.call("is_plain", thing, tensor, address, size, n.get(types, Types.IS_NEG, PTR))
        n.when(n.is_("eq", plain, 0), lambda: n.leave(0))
        n.call("tensor_key", address, element, n.read(device), rule, key, slot)
        n.call("reach", address, n.widen(n.get(tensor, _DL_NDIM, I32)), n.get(tensor, _DL_SHAPE, PTR),
               n.get(tensor, _DL_STRIDES, PTR), size, size, reaches, number)
        n.end(3)

    def _read_buffer(self) -> None:
        """A NumPy array, by the buffer protocol; 3, or 0 if it has to go the slow way."""
        n = self.module.function("read_buffer", [("thing", PTR), ("rule", I64), ("key", PTR), ("slot", PTR),
                                                 ("reaches", PTR), ("number", I64)], I64)
        thing, rule, key, slot, reaches, number = n.params
        view = n.f.alloca(I64, _PY_SIZE // 8, align=8)

        def refuse() -> None:
            n.call("PyErr_Clear")
            n.leave(0)

        n.when(n.is_("ne", n.call("PyObject_GetBuffer", thing, view, constant(I32, _RECORDS_RO)), 0), refuse)
        letters = n.get(n.get(view, _PY_FORMAT, PTR), 0, I16)       # the letter and the end of the text
        element = n.variable(0, I32)
        n.when(n.is_("ult", letters, 128), lambda: n.write(element, n.get(n.item(
            Value(PTR, "@formats"), n.widen(letters), I32), 0, I32)))
        size, address = n.get(view, _PY_ITEMSIZE), n.as_int(n.get(view, 0, PTR))
        n.call("tensor_key", address, n.read(element), 0, rule, key, slot)
        n.call("reach", address, n.widen(n.get(view, _PY_NDIM, I32)), n.get(view, _PY_SHAPE, PTR),
               n.get(view, _PY_STRIDES, PTR), size, 1, reaches, number)
        read_only = n.is_("ne", n.get(view, _PY_READONLY, I32), 0)
        n.when(read_only, lambda: n.put(reaches, Reaches.READ_ONLY, n.either(
            n.get(reaches, Reaches.READ_ONLY), n.op("shl", 1, number))))
        n.call("PyBuffer_Release", view)
        n.end(n.pick(n.is_("ne", n.read(element), 0), 3, 0))

    def _read_int(self) -> None:
        """The value of an exact int; false if 64 bits do not hold it."""
        n = self.module.function("read_int", [("thing", PTR), ("out", PTR)], I32, inline=True)
        thing, out = n.params
        overflow = n.f.alloca(I32, align=8)
        n.put(out, 0, n.call("PyLong_AsLongLongAndOverflow", thing, overflow))
        n.end(n.widen(n.is_("eq", n.get(overflow, 0, I32), 0), I32))

    def _read_constant(self) -> None:
        """Key words of a compile-time value: ints and floats by value, everything else by identity."""
        n = self.module.function("read_constant", [("thing", PTR), ("key", PTR)], inline=True)
        thing, key = n.params
        kind = n.get(thing, OB_TYPE, PTR)

        def by_identity() -> None:
            n.put(key, 0, Tag.EXACT_OBJECT)
            n.put(key, 8, n.as_int(thing))

        def integer() -> None:
            n.put(key, 0, Tag.EXACT_INT)
            n.when(n.is_("eq", n.call("read_int", thing, n.at(key, 8)), 0), by_identity)
            n.leave()

        def real() -> None:
            n.put(key, 0, Tag.EXACT_FLOAT)
            n.put(key, 8, n.f.bitcast(n.call("PyFloat_AsDouble", thing), I64))
            n.leave()

        n.when(self.same(n, kind, self.int_type), integer)
        n.when(self.same(n, kind, self.float_type), real)
        by_identity()
        n.end()

    def _read_number(self) -> None:
        """A run-time number or None: 1 with a slot, 2 without one, 0 if it has to go the slow way."""
        n = self.module.function("read_number", [("thing", PTR), ("rule", I64), ("key", PTR), ("slot", PTR)], I64,
                                 inline=True)
        thing, rule, key, slot = n.params
        kind = n.get(thing, OB_TYPE, PTR)

        def tagged(tag: Value | int, result: int) -> None:
            n.put(key, 0, tag)
            n.leave(result)

        def integer() -> None:
            n.when(n.is_("eq", n.call("read_int", thing, slot), 0), lambda: n.leave(0))
            value = n.get(slot)
            one = n.both(n.is_("eq", value, 1), n.is_("ne", n.both(rule, Rule.BY_VALUE), 0))
            n.when(one, lambda: tagged(Tag.ONE, 2))
            small = n.is_("eq", n.extend(n.narrow(value, I32)), value)
            divisible = n.both(n.is_("eq", n.both(value, 15), 0), n.is_("ne", n.both(rule, Rule.BY_ALIGNMENT), 0))
            tagged(n.either(n.pick(small, Tag.INT32, Tag.INT64), n.pick(divisible, Tag.DIVISIBLE, 0)), 1)

        def real() -> None:
            single = n.f.cast("fptrunc", n.call("PyFloat_AsDouble", thing), FLOAT)
            n.put(slot, 0, n.widen(n.f.bitcast(single, I32)))
            tagged(Tag.FLOAT, 1)

        def truth(value: int) -> None:
            n.put(slot, 0, value)
            tagged(Tag.BOOL, 1)

        n.put(key, 8, 0)
        n.when(self.same(n, kind, self.int_type), integer)
        n.when(self.same(n, kind, self.float_type), real)
        n.when(self.same(n, thing, self.none), lambda: tagged(Tag.NONE, 2))
        n.when(self.same(n, thing, self.true), lambda: truth(1))
        n.when(self.same(n, thing, self.false), lambda: truth(0))
        n.end(0)

    def _read_value(self) -> None:
        """Key words and slot of one value, and what it reaches if it is a tensor, the launch's number `number`: 1 with
        a slot, 2 without one, 3 for a tensor, 0 if it has to go the slow way."""
        n = self.module.function("read_value", [("types", PTR), ("thing", PTR), ("rule", I64), ("key", PTR),
                                                ("slot", PTR), ("reaches", PTR), ("number", I64)], I64, inline=True)
        types, thing, rule, key, slot, reaches, number = n.params

        def not_read() -> None:
            n.when(n.is_("ne", n.both(rule, Rule.SLOW), 0), lambda: n.leave(0))
            n.call("read_constant", thing, key)
            n.leave(2)

        n.when(n.is_("ne", n.both(rule, Rule.CONSTEXPR | Rule.SLOW), 0), not_read)
        kind = n.get(thing, OB_TYPE, PTR)

        def described() -> None:
            n.leave(n.call("read_described", thing, types, rule, key, slot, reaches, number))

        is_torchs = n.either(*(self.same(n, kind, n.get(types, at, PTR)) for at in (Types.TENSOR, Types.PARAMETER)))
        n.when(is_torchs, described)
        n.when(self.same(n, kind, n.get(types, Types.ARRAY, PTR)),
               lambda: n.leave(n.call("read_buffer", thing, rule, key, slot, reaches, number)))
        n.end(n.call("read_number", thing, rule, key, slot))
