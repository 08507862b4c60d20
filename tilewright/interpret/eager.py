"""The eager builder: each op of the language is computed at once, for one program.

It is the second of the two builders behind the language layer (docs/design.md, Two builders, one meaning).  A handle
is an `EagerValue`, an IR value that carries its array.  The op's meaning, memory, messages and the regions of
reductions are those of the batched interpreter's `Engine`; only what runs when is decided by Python.
Tests: tests/interpret/test_eager.py, tests/interpret/test_eager_traps.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.diagnostics import UNKNOWN, CompilationError, Location
from tilewright.frontend.graph import GraphBuilder
from tilewright.interpret.batched import Engine
from tilewright.interpret.frame import Frame
from tilewright.interpret.known import Known, result_shapes
from tilewright.interpret.memory import Memory
from tilewright.ir import fp
from tilewright.ir.build import make_op
from tilewright.ir.node import Block, Function, Module, Op, Value
from tilewright.ir.types import I32, I64, Pointer, Type, element_of, with_element
from tilewright.language.function import SourceFunction
from tilewright.language.options import Options
from tilewright.language.types import ValueType, pointer_type
from tilewright.passes.widen import ARITHMETIC, COMPARISONS, HOLDS

Array = np.ndarray[Any, Any]
CallRule = Callable[[SourceFunction, Sequence[Any], Mapping[str, Any]], Any]


class EagerValue(Value):
    """A value with its array, whose program axis has size 1.

    Of a pointer, `pointers` are those of the arguments that it is derived from; None: it came out of memory.
    Of an offset in a wide launch, `exact` is what it would be in 64 bits (`EagerBuilder._in_64_bits`).
    """

    __slots__ = ("array", "exact", "pointers")

    def __init__(self, type: Type, array: Array, pointers: frozenset[int] | None = None) -> None:
        super().__init__(type)
        self.array = array
        self.pointers = pointers
        self.exact: EagerValue | None = None

    def numbers(self) -> Array:
        """The value's array without the program axis, in storage form."""
        return np.asarray(self.array[0])

    @property
    def data(self) -> Array:
        """The array as programs for triton's interpreter look at it: a scalar has the shape (1,)."""
        return self.numbers() if self.array.ndim > 1 else self.array


class EagerMachine(Engine):
    """The batched engine with one program at a time and one op at a time."""

    def __init__(self, kernel: str, grid: tuple[int, int, int], memory: Memory,
                 write: Callable[[str], object] | None, wide: bool = False) -> None:
        super().__init__(Known(Module(kernel, {})), grid, memory, write)
        self.wide = wide        # an argument reaches 2**30 elements
        self.program = np.zeros(1, np.int64)

    def compute(self, op: Op) -> tuple[Array, ...]:
        """The results of one op, whose operands are eager values."""
        frame = Frame(self.program)
        for operand in op.operands:
            assert isinstance(operand, EagerValue)
            frame.values[operand] = operand.array
        results = self.evaluate(op, frame)
        for lines in self._printed.values():
            self.write("".join(line + "\n" for line in lines))
        self._printed.clear()
        return results

    def current_program(self) -> tuple[int, int, int]:
        return self._program(int(self.program[0]))

    def use_functions(self, functions: Mapping[str, Function]) -> None:
        """Let the regions of reductions call `functions`."""
        self.module = Module(self.module.entry_name, dict(functions))

    def _expected(self, op: Op) -> Any:
        return result_shapes(op)        # ops do not come back, so nothing is kept

    def _where(self) -> tuple[bool, frozenset[int] | None]:
        pointer = self._op.operands[0] if self._op is not None else None
        pointers = pointer.pointers if isinstance(pointer, EagerValue) else None
        return isinstance(pointer, EagerValue) and pointers is None, pointers


class EagerBuilder:
    """`language.builder.Builder` on arrays.  `call` runs a jit function; `record` does so in a graph builder.

    `warned` is Python's registry of the warnings that were given: each program comes to the same lines.
    """

    def __init__(self, options: Options, machine: EagerMachine, call: CallRule, graph: GraphBuilder,
                 warned: dict[Any, Any]) -> None:
        self.options = options
        self.location: Location = UNKNOWN
        self.machine = machine
        self._call = call
        self._graph = graph
        self._warned = warned

    def emit(self, name: str, operands: Sequence[EagerValue] = (), attrs: Mapping[str, Any] | None = None,
             regions: Sequence[Block] = ()) -> tuple[EagerValue, ...]:
        exact = self._in_64_bits(name, operands, attrs) if self.machine.wide else ()
        if exact and (name == "ptr_add" or name in COMPARISONS):
            return exact
        results = self._plain(name, operands, attrs, regions)
        for result, value in zip(results, exact, strict=False):
            result.exact = value
        return results

    def _in_64_bits(self, name: str, operands: Sequence[EagerValue],
                    attrs: Mapping[str, Any] | None) -> tuple[EagerValue, ...]:
        """What an op gives in 64 bits if it is arithmetic of offsets, or made from it; else nothing.

        `passes/widen.py` says what belongs to an offset; here every comparison with one does.
        """
        if name == "ptr_add":
            held: Sequence[int] = (1,)
        elif name == "ext_s" or name in COMPARISONS:
            held = range(len(operands))
        else:
            held = HOLDS.get(name, ())
        if not held or any(element_of(operands[i].type) not in (I32, I64) for i in held):
            return ()
        starts = name in ARITHMETIC and element_of(operands[0].type) == I32
        if not starts and all(operands[i].exact is None for i in held):
            return ()
        wider = [self._widened(v) if i in held else v for i, v in enumerate(operands)]
        if name == "ext_s":
            return (wider[0],)
        return self._plain(name, wider, attrs)

    def _widened(self, value: EagerValue) -> EagerValue:
        if value.exact is not None or element_of(value.type) == I64:
            return value.exact or value
        return EagerValue(with_element(value.type, I64), value.array.astype(np.int64))

    def _plain(self, name: str, operands: Sequence[EagerValue],
               attrs: Mapping[str, Any] | None, regions: Sequence[Block] = ()) -> tuple[EagerValue, ...]:
        op = make_op(name, operands, attrs, regions, self.location)
        return tuple(EagerValue(v.type, array, _origin(op, v))
                     for v, array in zip(op.results, self.machine.compute(op), strict=True))

    def type_of(self, handle: EagerValue) -> Type:
        return handle.type

    def region(self, arg_types: Sequence[Type], body: Callable[..., Sequence[Value]],
               terminator: str = "yield") -> Block:
        """Regions are recorded, not run: the op that has the region runs it."""
        self._graph.location = self.location
        block = self._graph.region(arg_types, body, terminator)
        self.machine.use_functions(self._graph.functions)
        return block

    def region_builder(self) -> GraphBuilder:
        return self._graph

    def call_function(self, fn: SourceFunction, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Run a jit function; an error in it is shown with this call in its chain of call sites."""
        site = self.location
        try:
            return self._call(fn, args, kwargs)
        except CompilationError as error:
            error.location = site if error.location is None else error.location.called_from(site)
            raise
        finally:
            self.location = site

    def warn(self, message: str) -> None:
        warnings.warn_explicit(message, UserWarning, self.location.file, self.location.line, registry=self._warned)

    def tell(self, say: Callable[[], None]) -> None:
        say()

    def values(self, handle: EagerValue, type: ValueType) -> Array:
        """The numbers of a tensor: bf16 and fp8 decoded, unsigned integers without a sign."""
        numbers, element = handle.numbers(), type.scalar
        if isinstance(element, pointer_type):
            return numbers.view(np.uint64)
        if element.is_floating():
            known = numbers.dtype.kind == "f"
            return numbers if known else fp.decode(numbers, element.to_ir()).astype(np.float32)
        unsigned = element.is_int_unsigned() and not element.is_int1()
        return numbers.view(f"u{numbers.dtype.name}") if unsigned else numbers


def _origin(op: Op, result: Value) -> frozenset[int] | None:
    """The pointers of the arguments that a result is derived from; None for what is loaded or made of an integer."""
    if not isinstance(element_of(result.type), Pointer) or op.name == "load":
        return None
    sources = [v.pointers for v in op.operands if isinstance(v, EagerValue) and isinstance(element_of(v.type), Pointer)]
    known = [s for s in sources if s is not None]
    return frozenset().union(*known) if known and len(known) == len(sources) else None
