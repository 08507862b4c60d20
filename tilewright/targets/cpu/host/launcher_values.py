"""The native launcher's reading of argument values, as LLVM text: from a Python object to key words, slot and reach.

Numbers are read by CPython's number protocol, tensors as `launcher_tensors` says, objects that are like tensors by a
Python function that tells what they are.  What these cannot say for sure is left to the slow way, which also makes the
errors.  Equal key words must mean equal atoms of `runtime.specialize`; the
key may tell more apart.
Tests: tests/runtime/test_native_launch.py.
"""

from __future__ import annotations

from tilewright.targets.cpu.host.launcher_tensors import TensorCode
from tilewright.targets.cpu.host.native import Native, NativeModule
from tilewright.targets.cpu.host.records import OB_TYPE, Rule, Tag, Types
from tilewright.targets.llvm.types import DOUBLE, FLOAT, I32, I64, PTR, VOID, Value, constant

# What is told of an object that is like a tensor: a word that stands for its type of element and that type's bytes, its
# device as `tensor_key` takes it, its address, its lowest byte, and the one after its highest.
TOLD_WORDS = ("element", "size", "device", "address", "low", "high")


class ValueCode:
    """Writes `read_value` and what it needs."""

    def __init__(self, module: NativeModule) -> None:
        self.module = module
        m = module
        m.external("PyLong_AsLongLongAndOverflow", I64, PTR, PTR)
        m.external("PyFloat_AsDouble", DOUBLE, PTR)
        m.external("PyObject_Vectorcall", PTR, PTR, PTR, I64, PTR)
        m.external("PyTuple_GetItem", PTR, PTR, I64)
        m.external("Py_DecRef", VOID, PTR)
        self.int_type = m.external_object("PyLong_Type")
        self.float_type = m.external_object("PyFloat_Type")
        self.true = m.external_object("_Py_TrueStruct")
        self.false = m.external_object("_Py_FalseStruct")
        self.none = m.external_object("_Py_NoneStruct")
        TensorCode(module)
        self._read_int()
        self._read_constant()
        self._read_number()
        self._read_fixed()
        self._read_told()
        self._read_value()

    def same(self, n: Native, a: Value, b: Value) -> Value:
        return n.is_("eq", a, b)

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

    def _read_fixed(self) -> None:
        """A number of the type that the parameter's annotation fixes, or None: as `read_number` says it."""
        n = self.module.function("read_fixed", [("thing", PTR), ("rule", I64), ("key", PTR), ("slot", PTR)], I64)
        thing, rule, key, slot = n.params
        kind = n.get(thing, OB_TYPE, PTR)
        is_integer = n.is_("ne", n.both(rule, Rule.INTEGER), 0)
        is_int = self.same(n, kind, self.int_type)
        is_bool = n.either(*(self.same(n, thing, truth) for truth in (self.true, self.false)))

        def tagged(tag: Value | int, result: int) -> None:
            n.put(key, 0, tag)
            n.leave(result)

        def integer() -> None:
            n.when(n.f.not_(n.either(is_int, is_bool)), lambda: n.leave(0))
            n.when(n.is_("eq", n.call("read_int", thing, slot), 0), lambda: n.leave(0))
            value = n.get(slot)
            unused = n.sub(64, n.both(n.op("lshr", rule, Rule.WIDTH), 255))
            high = n.op("shl", value, unused)
            signed = n.is_("ne", n.both(rule, Rule.SIGNED), 0)
            back = n.pick(signed, n.op("ashr", high, unused), n.op("lshr", high, unused))
            fits = n.both(n.is_("eq", back, value), n.either(signed, n.is_("sge", value, 0)))
            n.when(n.f.not_(fits), lambda: n.leave(0))
            divisible = n.both(n.is_("eq", n.both(value, 15), 0), n.is_("ne", n.both(rule, Rule.BY_ALIGNMENT), 0))
            tagged(n.either(n.pick(divisible, Tag.DIVISIBLE, 0), Tag.FIXED), 1)

        n.put(key, 8, 0)
        n.when(self.same(n, thing, self.none), lambda: tagged(Tag.NONE, 2))
        n.when(is_integer, integer)
        n.when(is_int, lambda: n.when(n.is_("eq", n.call("read_int", thing, slot), 0), lambda: n.leave(0)))
        is_real = n.either(is_int, self.same(n, kind, self.float_type))
        n.when(n.f.not_(is_real), lambda: n.leave(0))
        real = n.call("PyFloat_AsDouble", thing)
        single = n.widen(n.f.bitcast(n.f.cast("fptrunc", real, FLOAT), I32))
        n.put(slot, 0, n.pick(n.is_("ne", n.both(rule, Rule.FLOAT64), 0), n.f.bitcast(real, I64), single))
        tagged(Tag.FIXED, 1)
        n.end(0)

    def _read_told(self) -> None:
        """An object that a Python function tells of, as `runtime.native_launch.told` does; 3, or 0 if it has to go the
        slow way, or nowhere: then Python's error is set."""
        n = self.module.function("read_told", [("thing", PTR), ("types", PTR), ("rule", I64), ("key", PTR),
                                               ("slot", PTR), ("reaches", PTR), ("number", I64)], I64)
        thing, types, rule, key, slot, reaches, number = n.params
        argument, words = n.f.alloca(PTR, align=8), n.f.alloca(I64, len(TOLD_WORDS), align=8)
        n.put(argument, 0, thing)
        answer = n.call("PyObject_Vectorcall", n.get(types, Types.TELL, PTR), argument, 1, constant(PTR, 0))
        n.when(n.is_("eq", n.as_int(answer), 0), lambda: n.leave(0))

        def refuse() -> None:
            n.call("Py_DecRef", answer)
            n.leave(0)

        n.when(self.same(n, answer, self.none), refuse)
        n.count(0, len(TOLD_WORDS), lambda k: n.call("read_int", n.call("PyTuple_GetItem", answer, k),
                                                     n.item(words, k)))
        n.call("Py_DecRef", answer)
        told = {name: n.get(words, 8 * k) for k, name in enumerate(TOLD_WORDS)}
        n.call("tensor_key", told["address"], n.narrow(told["element"], I32), told["device"], rule, key, slot)
        n.call("note_reach", told["low"], told["high"], told["size"], reaches, number)
        n.end(3)

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
        fixed = n.is_("ne", n.both(rule, Rule.NUMBER), 0)
        n.when(fixed, lambda: n.leave(n.call("read_fixed", thing, rule, key, slot)))
        kind = n.get(thing, OB_TYPE, PTR)

        def torchs() -> None:
            n.leave(n.call("read_torch", thing, types, rule, key, slot, reaches, number))

        is_torchs = n.either(*(self.same(n, kind, n.get(types, at, PTR)) for at in (Types.TENSOR, Types.PARAMETER)))
        n.when(is_torchs, torchs)
        n.when(self.same(n, kind, n.get(types, Types.ARRAY, PTR)),
               lambda: n.leave(n.call("read_array", thing, rule, key, slot, reaches, number)))
        number_or_not = n.call("read_number", thing, rule, key, slot)
        is_number = n.both(n.is_("ne", number_or_not, 0), n.f.not_(self.same(n, thing, self.none)))
        misplaced = n.both(is_number, n.is_("ne", n.both(rule, Rule.POINTER), 0))
        n.when(misplaced, lambda: n.leave(0))
        n.when(n.is_("ne", number_or_not, 0), lambda: n.leave(number_or_not))

        def other(k: Value) -> None:
            entry = n.at(types, n.add(n.mul(k, Types.KIND), Types.KINDS))

            def known() -> None:
                n.when(n.is_("eq", n.get(entry, 8), Types.LIKE_TENSORS), torchs)
                n.leave(n.call("read_told", thing, types, rule, key, slot, reaches, number))

            n.when(self.same(n, kind, n.get(entry, 0, PTR)), known)

        n.count(0, n.get(types, Types.KNOWN_KINDS), other)
        n.end(0)
