"""The native launcher's grids, as LLVM text: from what stands in `kernel[...]` to three sizes.

A grid that is a function gets a new dict of the arguments by name, as in Python.  Most grid functions can see nothing
of it but the items that they read, `meta["BLOCK"]`; which these are is known by the function's code (`GridReads`,
filled by `runtime.native_launch`), and such a function gets a dict of these items alone, which is kept for the next
launch and in which what differs is set.  A kept dict that somebody has a second reference to after the call is
given up, and while a call has it, others (the grid function's own launches, other threads) make new ones.
A grid function is called once a launch: what it returns and is not read here goes the slow way in its place.
Tests: tests/runtime/test_native_launch.py, tests/runtime/test_grid_reads.py.
"""

from __future__ import annotations

from tilewright.targets.cpu.host.launcher_values import ValueCode
from tilewright.targets.cpu.host.native import Jump, Native, NativeModule
from tilewright.targets.cpu.host.records import OB_TYPE, Bound, GridReads, Launcher, Tag
from tilewright.targets.llvm.types import I32, I64, PTR, VOID, Value, constant

_LIMIT = 2**31 - 1          # of a grid's size


class GridCode:
    """Writes `sizes_of` and `grid_of`; `source` and `read_int` are in the module."""

    def __init__(self, module: NativeModule, values: ValueCode) -> None:
        self.module = module
        self.values = values
        for name, result, params in (
                ("PyDict_New", PTR, ()), ("PyDict_Copy", PTR, (PTR,)), ("PyDict_SetItem", I32, (PTR, PTR, PTR)),
                ("PyCallable_Check", I32, (PTR,)), ("PyFunction_GetCode", PTR, (PTR,)),
                ("PyTuple_Size", I64, (PTR,)), ("PyTuple_GetItem", PTR, (PTR, I64)),
                ("PyList_Size", I64, (PTR,)), ("PyList_GetItem", PTR, (PTR, I64))):
            module.external(name, result, *params)
        self.tuple_type = module.external_object("PyTuple_Type")
        self.list_type = module.external_object("PyList_Type")
        self.function_type = module.external_object("PyFunction_Type")
        self._sizes_of()
        self._bound_arguments()
        self._find_reads()
        self._take_kept()
        self._give_back()
        self._asked()
        self._grid_of()

    def _is_null(self, n: Native, pointer: Value) -> Value:
        return n.is_("eq", n.as_int(pointer), 0)

    def _is_tensor(self, n: Native, key: Value, k: Value) -> Value:
        """Whether value number `k` is a tensor, by its key words."""
        return n.is_("ne", n.both(n.get(n.at(key, n.mul(k, 16))), Tag.TENSOR), 0)

    def _sizes_of(self) -> None:
        """The three sizes of a tuple or list of exact ints; 1, or 0 if it has to go the slow way, as one has with any
        but ones behind the third."""
        n = self.module.function("sizes_of", [("grid", PTR), ("sizes", PTR)], I64, inline=True)
        grid, sizes = n.params
        further = n.f.alloca(I64, align=8)
        n.put(sizes, 8, 1)
        n.put(sizes, 16, 1)

        def read(kind: str) -> None:
            count = n.call(f"Py{kind}_Size", grid)
            n.when(n.is_("eq", count, 0), lambda: n.leave(0))

            def size(k: Value, place: Value, wrong: str, limit: int) -> None:
                thing = n.call(f"Py{kind}_GetItem", grid, k)
                n.when(n.is_("ne", n.get(thing, OB_TYPE, PTR), self.values.int_type), lambda: n.leave(0))
                n.when(n.is_("eq", n.call("read_int", thing, place), 0), lambda: n.leave(0))
                n.when(n.is_(wrong, n.get(place), limit), lambda: n.leave(0))

            n.count(0, n.least(count, 3), lambda k: size(k, n.item(sizes, k), "ugt", _LIMIT))
            n.count(3, count, lambda k: size(k, further, "ne", 1))

        def others() -> None:
            n.when(n.is_("ne", n.get(grid, OB_TYPE, PTR), self.list_type), lambda: n.leave(0))
            read("List")

        n.when(n.is_("eq", n.get(grid, OB_TYPE, PTR), self.tuple_type), lambda: read("Tuple"), others)
        plane = n.mul(n.get(sizes), n.get(sizes, 8))
        huge = n.both(n.is_("ugt", plane, _LIMIT), n.is_("ugt", n.get(sizes, 16), 1))
        n.when(huge, lambda: n.leave(0))
        n.end(1)

    # -- the arguments by name

    def _bound_arguments(self) -> None:
        """A new dict of the arguments by name, or null with a Python error.

        It is a copy of a dict that the state keeps, in which only what differs from the last launch is set, and None
        for tensors, which must not outlive the launch; `META_VALUES` says what it holds.
        """
        n = self.module.function("bound_arguments", [("state", PTR), ("shape", PTR), ("args", PTR), ("key", PTR)], PTR)
        state, shape, args, key = n.params
        names, held = n.get(state, Launcher.NAMES, PTR), n.get(state, Launcher.META_VALUES, PTR)
        count, none = n.get(state, Launcher.PARAMS), self.values.none

        def put(into: Value, k: Value, thing: Value, failed: Jump) -> None:
            result = n.call("PyDict_SetItem", into, n.get(n.item(names, k), 0, PTR), thing)
            n.when(n.is_("ne", result, 0), failed)

        def make() -> None:
            made = n.call("PyDict_New")
            n.when(self._is_null(n, made), lambda: n.leave(0))
            n.put(state, Launcher.META, made)
            n.count(0, count, lambda k: n.put(n.item(held, k), 0, 0))

        n.when(self._is_null(n, n.get(state, Launcher.META, PTR)), make)
        kept = n.get(state, Launcher.META, PTR)

        def keep(k: Value) -> None:
            thing = n.pick(self._is_tensor(n, key, k), none, n.call("source", shape, k, args))

            def differs() -> None:
                put(kept, k, thing, lambda: n.leave(0))
                n.put(n.item(held, k), 0, thing)

            n.when(n.is_("ne", n.get(n.item(held, k), 0, PTR), thing), differs)

        n.count(0, count, keep)
        copy = n.call("PyDict_Copy", kept)
        n.when(self._is_null(n, copy), lambda: n.leave(0))

        def failed() -> None:
            n.call("Py_DecRef", copy)
            n.leave(0)

        n.count(0, count, lambda k: n.when(
            self._is_tensor(n, key, k), lambda: put(copy, k, n.call("source", shape, k, args), failed)))
        n.end(copy)

    def _find_reads(self) -> None:
        """What is known of the code of a grid function, or null."""
        n = self.module.function("find_reads", [("state", PTR), ("code", PTR)], PTR, inline=True)
        state, code = n.params
        reads = n.variable(n.get(state, Launcher.GRIDS, PTR))

        def look(stop: Jump, again: Jump) -> None:
            now = n.read(reads)
            n.when(self._is_null(n, now), stop)
            n.write(reads, n.get(now, GridReads.NEXT, PTR))
            n.when(n.is_("ne", n.get(now, GridReads.CODE, PTR), code), again)
            n.leave(now)

        n.loop(look)
        n.end(0)

    def _take_kept(self) -> None:
        """The kept dict of a code, its items set for this launch; null if the launch has to make a new dict."""
        n = self.module.function("take_kept", [("state", PTR), ("shape", PTR), ("args", PTR), ("key", PTR),
                                               ("reads", PTR)], PTR, inline=True)
        state, shape, args, key, reads = n.params
        names, count = n.get(state, Launcher.NAMES, PTR), n.get(reads, GridReads.COUNT)
        n.when(n.is_("slt", count, 0), lambda: n.leave(0))
        n.when(n.is_("ne", n.get(reads, GridReads.TAKEN), 0), lambda: n.leave(0))

        def item(k: Value) -> Value:
            return n.at(n.at(reads, n.mul(k, GridReads.ITEM)), GridReads.ITEMS)

        n.count(0, count, lambda k: n.when(self._is_tensor(n, key, n.get(item(k))), lambda: n.leave(0)))

        def make() -> None:
            made = n.call("PyDict_New")
            n.when(self._is_null(n, made), refuse)
            n.put(reads, GridReads.META, made)
            n.count(0, count, lambda k: n.put(item(k), 8, 0))

        def refuse() -> None:
            n.call("PyErr_Clear")
            n.put(reads, GridReads.TAKEN, 0)
            n.leave(0)

        n.put(reads, GridReads.TAKEN, 1)        # first: code that runs when an old value goes may launch, too
        n.when(self._is_null(n, n.get(reads, GridReads.META, PTR)), make)
        meta = n.get(reads, GridReads.META, PTR)

        def fill(k: Value) -> None:
            at = item(k)
            thing = n.call("source", shape, n.get(at), args)

            def differs() -> None:
                result = n.call("PyDict_SetItem", meta, n.get(n.item(names, n.get(at)), 0, PTR), thing)
                n.when(n.is_("ne", result, 0), refuse)
                n.put(at, 8, thing)

            n.when(n.is_("ne", n.get(at, 8, PTR), thing), differs)

        n.count(0, count, fill)
        n.end(meta)

    def _give_back(self) -> None:
        """Keep a dict for the next launch, unless somebody else has it, too."""
        n = self.module.function("give_back", [("reads", PTR), ("meta", PTR)], VOID, inline=True)
        reads, meta = n.params

        def give_up() -> None:
            n.put(reads, GridReads.META, constant(PTR, 0))
            n.call("Py_DecRef", meta)

        n.when(n.is_("ne", n.get(meta, 0, I32), 1), give_up)
        n.put(reads, GridReads.TAKEN, 0)
        n.end()

    # -- the sizes

    def _asked(self) -> None:
        """What a grid function returns for these arguments, or null with a Python error."""
        n = self.module.function("asked", [("state", PTR), ("shape", PTR), ("args", PTR), ("key", PTR),
                                           ("grid", PTR), ("reads", PTR)], PTR, inline=True)
        state, shape, args, key, grid, reads = n.params
        argument = n.f.alloca(PTR, align=8)
        kept = n.variable(constant(PTR, 0))
        n.when(n.f.not_(self._is_null(n, reads)),
               lambda: n.write(kept, n.call("take_kept", state, shape, args, key, reads)))
        n.put(argument, 0, n.read(kept))

        def make() -> None:
            made = n.call("bound_arguments", state, shape, args, key)
            n.when(self._is_null(n, made), lambda: n.leave(0))
            n.put(argument, 0, made)

        is_new = self._is_null(n, n.read(kept))
        n.when(is_new, make)
        answer = n.call("PyObject_Vectorcall", grid, argument, 1, constant(PTR, 0))
        n.when(is_new, lambda: n.call("Py_DecRef", n.get(argument, 0, PTR)),
               lambda: n.call("give_back", reads, n.read(kept)))
        n.end(answer)

    def _grid_of(self) -> None:
        """Find the sizes of a grid, which may be a function of the arguments by name.

        1, 0 if the launch has to go the slow way, -1 with a Python error.  With 1 or 0, `returned` is what the grid
        function gave, a reference of the caller's, or null if it has not been called.
        """
        n = self.module.function("grid_of", [("state", PTR), ("shape", PTR), ("args", PTR), ("bound", PTR),
                                             ("key", PTR), ("returned", PTR)], I64)
        state, shape, args, bound, key, returned = n.params
        sizes, grid = n.at(bound, Bound.SIZES), n.get(bound, Bound.GRID, PTR)
        kind = n.get(grid, OB_TYPE, PTR)
        reads = n.variable(constant(PTR, 0))
        n.put(returned, 0, constant(PTR, 0))

        def constant_sizes() -> None:
            known = n.call("sizes_of", grid, sizes)
            n.put(bound, Bound.KNOWN, known)
            n.leave(known)

        def find() -> None:
            n.write(reads, n.call("find_reads", state, n.call("PyFunction_GetCode", grid)))
            n.when(n.both(self._is_null(n, n.read(reads)), n.is_("ne", n.get(state, Launcher.ASKS), 0)),
                   lambda: n.leave(0))

        def is_callable() -> None:
            n.when(n.is_("eq", n.call("PyCallable_Check", grid), 0), lambda: n.leave(0))

        n.when(n.is_("eq", kind, self.tuple_type), constant_sizes)
        n.when(n.is_("eq", kind, self.list_type), lambda: n.leave(n.call("sizes_of", grid, sizes)))    # it may change
        n.when(n.is_("eq", kind, self.function_type), find, is_callable)
        answer = n.call("asked", state, shape, args, key, grid, n.read(reads))
        n.when(self._is_null(n, answer), lambda: n.leave(-1))

        n.put(returned, 0, answer)
        n.end(n.call("sizes_of", answer, sizes))
