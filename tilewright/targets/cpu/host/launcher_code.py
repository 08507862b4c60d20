"""The native launcher, as LLVM text: what runs between `kernel[grid](...)` and the first program of a known kernel.

`bind` makes the object that `kernel[grid]` gives; calling it runs `call`: find how the arguments are passed (a shape),
read their values (`launcher_values`; that may ask Python, and fail), find the specialisation with that key, see that
everything that its code read is still the same object, derive the launch facts from the bytes that the arguments reach,
evaluate the grid (`launcher_grids`), look again if that was a function's doing, and launch.
The code is the same for all kernels; what differs is in tables (`records.Launcher`), which Python fills when the slow
way has succeeded.  Whatever the tables do not know, and every error in the arguments, goes the slow way:
`SLOW(kernel, grid, key address or 0, *args, **kwargs)`, a Python function, whose result is the launch's; with
`Launcher.ANSWERED` for the key, the grid is what the grid function has returned.
No references are taken beyond those that the call needs.  Tests: tests/runtime/test_native_launch.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.targets.cpu.host.launcher_grids import GridCode
from tilewright.targets.cpu.host.launcher_values import ValueCode
from tilewright.targets.cpu.host.native import Jump, Native, NativeModule
from tilewright.targets.cpu.host.records import OB_TYPE, Bound, Frame, Kernel, Launcher, Pool, Reaches, Shape, Spec
from tilewright.targets.llvm.types import I1, I32, I64, PTR, VOID, Value, constant

_NARGS = 2**63 - 1          # PyVectorcall_NARGS: the top bit is a flag
_MOST = Launcher.MOST_VALUES


@dataclass(frozen=True, slots=True)
class Tables:
    """The caller's arrays of one launch: key words, slots and reaches."""

    key: Value
    slots: Value
    reaches: Value


class LauncherCode:
    """Writes the launcher's functions into a module: `bind`, `call`, `visit`, `drop` are public."""

    def __init__(self, module: NativeModule) -> None:
        self.module = module
        self._declare()
        self.values = ValueCode(module)
        self._find_shape()
        self._source()
        self._read_values()
        self._find_spec()
        self._hold()
        self._facts()
        self._choose()
        self.tuple_type = GridCode(module, self.values).tuple_type
        self._slow()
        self._run_spec()
        self._call()
        self._visit()
        self._drop()
        self._bind()

    def _declare(self) -> None:
        m = self.module
        for name, result, params in (
                ("Py_IncRef", VOID, (PTR,)), ("Py_DecRef", VOID, (PTR,)), ("PyErr_Occurred", PTR, ()),
                ("PyErr_Clear", VOID, ()),
                ("PyTuple_Size", I64, (PTR,)), ("PyTuple_GetItem", PTR, (PTR, I64)),
                ("PyDict_GetItemWithError", PTR, (PTR, PTR)),
                ("PyCell_Get", PTR, (PTR,)), ("PyContextVar_Get", I32, (PTR, PTR, PTR)),
                ("PyLong_FromLongLong", PTR, (I64,)),
                ("PyLong_AsVoidPtr", PTR, (PTR,)),
                ("PyObject_Vectorcall", PTR, (PTR, PTR, I64, PTR)), ("_PyObject_GC_New", PTR, (PTR,)),
                ("PyObject_GC_Track", VOID, (PTR,)), ("PyObject_GC_UnTrack", VOID, (PTR,)),
                ("PyObject_GC_Del", VOID, (PTR,))):
            m.external(name, result, *params)
        self.keyboard_interrupt = m.external_object("PyExc_KeyboardInterrupt")      # where the class is

    def _is_null(self, n: Native, pointer: Value) -> Value:
        return n.is_("eq", n.as_int(pointer), 0)

    # -- how values are passed

    def _find_shape(self) -> None:
        """The record of this way to call, or null.  Names are interned, so they are compared by identity."""
        n = self.module.function("find_shape", [("state", PTR), ("positional", I64), ("names", PTR)], PTR, inline=True)
        state, positional, names = n.params
        shape = n.variable(n.get(state, Launcher.SHAPES, PTR))
        def look(stop: Jump, again: Jump) -> None:
            now = n.read(shape)
            n.when(self._is_null(n, now), stop)
            n.write(shape, n.get(now, Shape.NEXT, PTR))
            n.when(n.is_("ne", n.get(now, Shape.POSITIONAL), positional), again)
            known = n.get(now, Shape.NAMES, PTR)
            n.when(n.is_("eq", known, names), lambda: n.leave(now))
            named = n.get(now, Shape.NAMED)
            n.when(n.either(self._is_null(n, known), self._is_null(n, names)), again)
            n.when(n.is_("ne", named, n.call("PyTuple_Size", names)), again)

            def name(k: Value) -> None:
                n.when(n.is_("ne", n.call("PyTuple_GetItem", known, k), n.call("PyTuple_GetItem", names, k)), again)

            n.count(0, named, name)
            n.leave(now)

        n.loop(look)
        n.end(0)

    def _source(self) -> None:
        """The object of value number `index`."""
        n = self.module.function("source", [("shape", PTR), ("index", I64), ("args", PTR)], PTR, inline=True)
        shape, index, args = n.params
        source = n.get(n.item(shape, index), Shape.SOURCES)
        n.when(n.is_("ult", source, Launcher.MOST_INDEX), lambda: n.leave(n.get(n.item(args, source), 0, PTR)))
        n.end(n.as_pointer(source))

    def _read_values(self) -> None:
        """Key words, slots (extents behind them) and reaches of all values; how many tensors there are, or -1 if a
        value has to go the slow way."""
        n = self.module.function("read_values", [("state", PTR), ("shape", PTR), ("args", PTR), ("key", PTR),
                                                 ("slots", PTR), ("reaches", PTR)], I64, inline=True)
        state, shape, args, key, slots, reaches = n.params
        rules, params = n.get(state, Launcher.RULES, PTR), n.get(state, Launcher.PARAMS)
        types = n.get(state, Launcher.TYPES, PTR)
        used, tensors = n.variable(0), n.variable(0)
        n.put(reaches, Reaches.WIDE, 0)
        n.put(reaches, Reaches.READ_ONLY, 0)

        def one(k: Value) -> None:
            thing = n.call("source", shape, k, args)
            rule = n.variable(1)            # an option is a compile-time value
            n.write(rule, 1)
            n.when(n.is_("ult", k, params), lambda: n.write(rule, n.get(n.item(rules, k))))
            result = n.call("read_value", types, thing, n.read(rule), n.at(key, n.mul(k, 16)),
                            n.item(slots, n.read(used)), reaches, n.read(tensors))
            n.when(n.is_("eq", result, 0), lambda: n.leave(-1))
            n.increase(used, n.both(result, 1))
            n.increase(tensors, n.op("lshr", n.both(result, n.op("shl", result, 1)), 1))

        n.count(0, n.get(shape, Shape.VALUES), one)
        behind = n.item(slots, n.read(used))

        def extent(k: Value) -> None:
            offset = n.mul(k, Reaches.PAIR)
            pair, place = n.at(reaches, offset), n.at(behind, offset)
            for word in (0, 8):
                n.put(place, word, n.get(pair, Reaches.PAIRS + word))

        n.count(0, n.read(tensors), extent)
        n.end(n.read(tensors))

    # -- which kernel

    def _find_spec(self) -> None:
        """The specialisation with this key, or null."""
        n = self.module.function("find_spec", [("state", PTR), ("shape", PTR), ("key", PTR)], PTR, inline=True)
        state, shape, key = n.params
        spec = n.variable(n.get(state, Launcher.SPECS, PTR))
        options, words = n.get(shape, Shape.OPTIONS), n.mul(n.get(shape, Shape.VALUES), 2)

        def look(stop: Jump, again: Jump) -> None:
            now = n.read(spec)
            n.when(self._is_null(n, now), stop)
            n.write(spec, n.get(now, Spec.NEXT, PTR))
            n.when(n.is_("ne", n.get(now, Spec.OPTIONS), options), again)
            n.count(0, words, lambda k: n.when(
                n.is_("ne", n.get(n.item(now, k), Spec.KEY), n.get(n.item(key, k))), again))
            n.leave(now)

        n.loop(look)
        n.end(0)

    def _hold(self) -> None:
        """Whether every name that the specialisation's code read is still bound to the same object."""
        n = self.module.function("hold", [("spec", PTR)], I1, inline=True)
        at = n.variable(n.get(n.params[0], Spec.GUARDS, PTR))

        def word(offset: int) -> Value:
            return n.get(n.read(at), offset, PTR)

        def name(_: Value) -> None:
            n.when(n.is_("ne", n.call("PyDict_GetItemWithError", word(0), word(8)), word(16)), lambda: n.leave(0))
            n.write(at, n.at(n.read(at), 24))

        def cell(_: Value) -> None:
            content = n.call("PyCell_Get", word(0))
            n.when(n.f.not_(self._is_null(n, content)), lambda: n.call("Py_DecRef", content))
            n.when(n.is_("ne", content, word(8)), lambda: n.leave(0))
            n.write(at, n.at(n.read(at), 16))

        for each in (name, cell):
            count = n.get(n.read(at))
            n.write(at, n.at(n.read(at), 8))
            n.count(0, count, each)
        n.end(1)

    def _facts(self) -> None:
        """disjoint + 2 * wide for these arguments, or -1 if a read-only array would be written."""
        n = self.module.function("facts", [("spec", PTR), ("tensors", I64), ("reaches", PTR)], I64, inline=True)
        spec, tensors, reaches = n.params
        written = n.get(spec, Spec.WRITTEN)
        n.when(n.is_("ne", n.both(written, n.get(reaches, Reaches.READ_ONLY)), 0), lambda: n.leave(-1))
        disjoint = n.variable(n.pick(n.is_("eq", n.get(spec, Spec.ANYTHING), 0), 1, 0))

        def ends(number: Value) -> tuple[Value, Value]:
            pair = n.at(reaches, n.mul(number, Reaches.PAIR))
            return n.get(pair, Reaches.PAIRS), n.get(pair, Reaches.PAIRS + 8)

        def one(k: Value) -> None:
            low, high = ends(k)

            def overlapping(other: Value) -> None:
                their_low, their_high = ends(other)
                meet = n.is_("ult", n.greatest(low, their_low), n.least(high, their_high))  # not if one is empty
                n.when(n.both(meet, n.is_("ne", other, k)), lambda: n.write(disjoint, 0))

            is_written = n.is_("ne", n.both(n.op("lshr", written, k), 1), 0)
            n.when(is_written, lambda: n.count(0, tensors, overlapping))

        n.count(0, tensors, one)
        n.end(n.either(n.read(disjoint), n.get(reaches, Reaches.WIDE)))

    def _choose(self) -> None:
        """Which kernel these values get now: 1 with its record and object at `chosen`, else the launch has to go the
        slow way: 0 if that may teach this key, -1 if not."""
        n = self.module.function("choose", [("state", PTR), ("shape", PTR), ("tensors", I64), ("key", PTR),
                                            ("reaches", PTR), ("chosen", PTR)], I64)
        state, shape, tensors, key, reaches, chosen = n.params
        current = n.f.alloca(PTR, align=8)
        n.call("PyContextVar_Get", n.get(state, Launcher.VARIABLE, PTR), constant(PTR, 0), current)
        overrides = n.get(current, 0, PTR)
        n.when(n.f.not_(self._is_null(n, overrides)), lambda: n.call("Py_DecRef", overrides))
        n.when(n.is_("ne", overrides, n.get(state, Launcher.NOTHING, PTR)), lambda: n.leave(-1))
        spec = n.call("find_spec", state, shape, key)
        n.when(self._is_null(n, spec), lambda: n.leave(0))
        n.when(n.f.not_(n.call("hold", spec)), lambda: n.leave(0))
        facts = n.call("facts", spec, tensors, reaches)
        n.when(n.is_("slt", facts, 0), lambda: n.leave(-1))
        pair = n.at(n.at(spec, Spec.KERNELS), n.mul(facts, 16))
        record = n.get(pair, 0, PTR)
        n.when(self._is_null(n, record), lambda: n.leave(0))
        n.put(chosen, 0, record)
        n.put(chosen, 8, n.get(pair, 8, PTR))
        n.end(1)

    # -- the call

    def _slow(self) -> None:
        """Call SLOW(kernel, grid, key address, *args, **kwargs)."""
        n = self.module.function("slow", [("self", PTR), ("grid", PTR), ("args", PTR), ("positional", I64),
                                          ("names", PTR), ("key", I64)], PTR)
        bound, grid, args, positional, names, key = n.params
        number = n.call("PyLong_FromLongLong", key)
        n.when(self._is_null(n, number), lambda: n.leave(0))
        total = n.variable(positional)
        n.when(n.f.not_(self._is_null(n, names)),
               lambda: n.write(total, n.add(positional, n.call("PyTuple_Size", names))))
        count = n.read(total)
        more = n.f.emit(PTR, f"alloca i64, {n.add(count, 3)}, align 16")
        n.put(more, 0, n.get(bound, Bound.KERNEL, PTR))
        n.put(more, 8, grid)
        n.put(more, 16, number)
        n.count(0, count, lambda k: n.put(n.item(more, k), 24, n.get(n.item(args, k))))
        state = n.get(bound, Bound.STATE, PTR)
        result = n.call("PyObject_Vectorcall", n.get(state, Launcher.SLOW, PTR), more, n.add(positional, 3), names)
        n.call("Py_DecRef", number)
        n.end(result)

    def _run_spec(self) -> None:
        """Launch; the reference to the compiled kernel is passed on to the caller, or dropped with a Python error."""
        n = self.module.function("run_spec", [("state", PTR), ("record", PTR), ("compiled", PTR), ("slots", PTR),
                                              ("sizes", PTR)], PTR, inline=True)
        state, record, compiled, slots, sizes = n.params
        frame = n.f.alloca(I64, Frame.SIZE // 8)
        x, y, z = (n.get(sizes, 8 * k) for k in range(3))
        n.put(frame, Frame.SHARED, 0)
        launch = n.get(record, Kernel.LAUNCH, PTR)
        code = n.call_pointer(launch, I64, record, slots, x, y, z, frame)
        n.put(state, Launcher.HELPERS, n.get(frame, Frame.SHARED))
        n.when(n.is_("eq", code, 0), lambda: n.leave(compiled))
        arguments = n.f.alloca(PTR, 5)

        def report() -> None:
            for k, value in enumerate((n.as_int(frame), x, y, z)):
                n.put(arguments, 8 * (k + 1), n.call("PyLong_FromLongLong", value))
            n.put(arguments, 0, compiled)
            n.call("PyObject_Vectorcall", n.get(state, Launcher.FAIL, PTR), arguments, 5, constant(PTR, 0))
            for k in range(4):
                n.call("Py_DecRef", n.get(arguments, 8 * (k + 1), PTR))

        # Ctrl-C is said by FAIL, with program and line; what else a signal's handler has raised stays as it is.
        ctrl_c = n.is_("eq", n.as_int(n.call("PyErr_Occurred")), n.get(self.keyboard_interrupt))
        n.when(ctrl_c, lambda: n.call("PyErr_Clear"))
        n.when(self._is_null(n, n.call("PyErr_Occurred")), report)
        n.call("Py_DecRef", compiled)
        n.end(0)

    def _call(self) -> None:
        """The vectorcall of a bound launcher."""
        n = self.module.function("call", [("self", PTR), ("args", PTR), ("flagged", I64), ("names", PTR)], PTR,
                                 public=True)
        bound, args, flagged, names = n.params
        positional = n.both(flagged, _NARGS)
        state = n.get(bound, Bound.STATE, PTR)
        tables = Tables(n.f.alloca(I64, 2 * _MOST), n.f.alloca(I64, 3 * _MOST),
                        n.f.alloca(I64, Reaches.PAIRS // 8 + 2 * _MOST))

        def slowly(key: Value | int = 0) -> None:
            n.leave(n.call("slow", bound, n.get(bound, Bound.GRID, PTR), args, positional, names, key))

        shape = n.call("find_shape", state, positional, names)
        n.when(self._is_null(n, shape), slowly)
        tensors = n.call("read_values", state, shape, args, tables.key, tables.slots, tables.reaches)

        def not_read() -> None:
            n.when(n.f.not_(self._is_null(n, n.call("PyErr_Occurred"))), lambda: n.leave(0))
            slowly()

        n.when(n.is_("slt", tensors, 0), not_read)
        key = n.as_int(tables.key)
        chosen = n.f.alloca(PTR, 2)

        def choose() -> Value:
            return n.call("choose", state, shape, tensors, tables.key, tables.reaches, chosen)

        found = choose()
        n.when(n.is_("slt", found, 0), slowly)
        n.when(n.is_("eq", found, 0), lambda: slowly(key))

        def work_out_grid() -> None:
            returned = n.f.alloca(PTR, align=8)
            known = n.call("grid_of", state, shape, args, bound, tables.key, returned)
            n.when(n.is_("slt", known, 0), lambda: n.leave(0))
            answer = n.get(returned, 0, PTR)

            def not_asked() -> None:
                n.when(n.is_("eq", known, 0), slowly)

            def asked() -> None:
                # The function may have bound other objects to names that the kernel reads, set a hook or a knob, or
                # have made other launches, for which what was chosen had to go.
                still = n.is_("eq", choose(), 1)

                def answered() -> None:
                    result = n.call("slow", bound, answer, args, positional, names, Launcher.ANSWERED)
                    n.call("Py_DecRef", answer)
                    n.leave(result)

                n.when(n.f.not_(n.both(still, n.is_("eq", known, 1))), answered)
                n.call("Py_DecRef", answer)

            n.when(self._is_null(n, answer), not_asked, asked)

        n.when(n.is_("eq", n.get(bound, Bound.KNOWN), 0), work_out_grid)
        record, compiled = n.get(chosen, 0, PTR), n.get(chosen, 8, PTR)
        n.call("Py_IncRef", compiled)       # it must outlive the launch, whatever Python code does from here on
        n.end(n.call("run_spec", state, record, compiled, tables.slots, n.at(bound, Bound.SIZES)))

    # -- bound launchers

    def _visit(self) -> None:
        """The traverse function of bound launchers: the garbage collector sees the grid alone, which may refer to what
        keeps the launcher.  The kernel, whose state is used to the end, it takes for one that somebody needs."""
        n = self.module.function("visit", [("self", PTR), ("each", PTR), ("more", PTR)], I32, public=True)
        bound, each, more = n.params
        grid = n.get(bound, Bound.GRID, PTR)
        n.when(self._is_null(n, grid), lambda: n.leave(0))
        n.end(n.call_pointer(each, I32, grid, more))

    def _drop(self) -> None:
        """The deallocator of bound launchers: one is kept for the next, with its grid if that is a tuple of ints."""
        n = self.module.function("drop", [("self", PTR)], public=True)
        bound, = n.params
        state, kernel = n.get(bound, Bound.STATE, PTR), n.get(bound, Bound.KERNEL, PTR)
        grid = n.variable(n.get(bound, Bound.GRID, PTR))
        n.when(n.is_("eq", n.get(bound, Bound.KNOWN), 0), lambda: n.call("PyObject_GC_UnTrack", bound))

        def free() -> None:
            kind = n.get(bound, OB_TYPE, PTR)
            n.call("PyObject_GC_Del", bound)
            n.call("Py_DecRef", kind)

        def keep() -> None:
            known = n.is_("ne", n.get(bound, Bound.KNOWN), 0)
            n.when(known, lambda: n.write(grid, constant(PTR, 0)), lambda: n.put(bound, Bound.GRID, constant(PTR, 0)))
            n.put(state, Launcher.FREE, bound)

        n.when(self._is_null(n, n.get(state, Launcher.FREE, PTR)), keep, free)
        n.when(n.f.not_(self._is_null(n, n.read(grid))), lambda: n.call("Py_DecRef", n.read(grid)))
        n.call("Py_DecRef", kernel)     # the last: the state is the kernel's
        n.end()

    def _bind(self) -> None:
        """`bind(kernel, grid)`, a builtin whose own object is the address of the state: what `kernel[grid]` gives."""
        n = self.module.function("bind", [("self", PTR), ("args", PTR), ("count", I64)], PTR, public=True)
        own, args, _ = n.params
        state = n.call("PyLong_AsVoidPtr", own)
        helpers = n.get(state, Launcher.HELPERS, PTR)

        def rouse() -> None:
            asleep = n.is_("ne", n.atomic_get(helpers, Pool.SLEEPERS, I32, "monotonic"), 0)
            n.when(asleep, lambda: n.call_pointer(n.get(helpers, Pool.ROUSE, PTR), VOID, helpers))

        n.when(n.f.not_(self._is_null(n, helpers)), rouse)
        memory = n.variable(n.get(state, Launcher.FREE, PTR))
        n.put(state, Launcher.FREE, constant(PTR, 0))

        def new() -> None:
            n.write(memory, n.call("_PyObject_GC_New", n.get(state, Launcher.BOUND_TYPE, PTR)))
            n.when(self._is_null(n, n.read(memory)), lambda: n.leave(constant(PTR, 0)))
            n.put(n.read(memory), Bound.VECTORCALL, Value(PTR, "@call"))
            n.put(n.read(memory), Bound.STATE, state)
            n.put(n.read(memory), Bound.GRID, constant(PTR, 0))

        n.when(self._is_null(n, n.read(memory)), new, lambda: n.put(n.read(memory), 0, 1))     # one reference again
        bound = n.read(memory)
        kernel, grid = n.get(args, 0, PTR), n.get(args, 8, PTR)
        n.call("Py_IncRef", kernel)
        n.put(bound, Bound.KERNEL, kernel)
        before = n.get(bound, Bound.GRID, PTR)

        def other_grid() -> None:
            n.call("Py_IncRef", grid)
            n.put(bound, Bound.GRID, grid)
            n.put(bound, Bound.KNOWN, 0)
            n.when(n.f.not_(self._is_null(n, before)), lambda: n.call("Py_DecRef", before))

        n.when(n.is_("ne", before, grid), other_grid)
        # A tuple of ints refers to nothing else.
        is_tuple = n.is_("eq", n.get(grid, OB_TYPE, PTR), self.tuple_type)
        n.when(n.f.not_(is_tuple), lambda: n.call("PyObject_GC_Track", bound))
        n.end(bound)
