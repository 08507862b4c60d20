"""A third builder, for tests of the language alone: records IR, shows it, and runs it in the batched interpreter.

`trace(f, *types)` calls `f(b, *tensors)` with a builder and a tensor of each type.  `evaluate(f, *arrays)` does so
with tiles loaded from arrays and returns what `f` returned as arrays, in the storage of `ir.types.storage_dtype`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright import language as tl
from tilewright.diagnostics import UNKNOWN
from tilewright.interpret import batched
from tilewright.interpret.memory import Memory
from tilewright.ir import build, fp
from tilewright.ir.node import Block, Function, Module, Op, Value
from tilewright.ir.types import Pointer, shape_of, storage_dtype
from tilewright.language.builtin import Builtin
from tilewright.language.options import Options
from tilewright.language.tensor import tensor
from tilewright.language.types import block_type, dtype, make_type, pointer_type


class Recorder:
    """The builder protocol over `ir.build.Builder`; `warnings` collects what the language warned of."""

    def __init__(self, options: Options | None = None) -> None:
        self.options = options or Options()
        self.location = UNKNOWN
        self.warnings: list[str] = []
        self.calls: list[str] = []
        self.graph = build.Builder()

    def emit(self, name, operands=(), attrs=None, regions=()):
        return self.graph.create(name, operands, attrs, regions)

    def type_of(self, handle):
        return handle.type

    def region(self, arg_types, body, terminator="yield"):
        return self.graph.region(arg_types, body, terminator)

    def region_builder(self):
        return self

    def call_function(self, fn, args, kwargs):
        self.calls.append(fn.__name__)
        return fn(*args, **kwargs)

    def warn(self, message):
        self.warnings.append(message)

    def tell(self, say):
        say()

    def values(self, handle, type):
        return None


class Trace:
    """What a traced function did: its result, the ops in order, the warnings."""

    def __init__(self, result: Any, ops: Sequence[Op], builder: Recorder) -> None:
        self.result = result
        self.ops = list(ops)
        self.names = [op.name for op in ops]
        self.warnings = builder.warnings
        self.builder = builder

    def op(self, name: str) -> Op:
        """The only op of this name."""
        (found,) = [op for op in self.ops if op.name == name]
        return found


def call(b: Recorder, function: Builtin, *args: Any, **kwargs: Any) -> Any:
    """A call as the frontend makes it."""
    return function.call(b, args, kwargs)


def type_named(text: str) -> Any:
    """ "fp32", "*fp32", "fp32[4, 8]", "*int8[16]" as a language type."""
    name, _, sizes = text.partition("[")
    element = pointer_type(dtype(name[1:])) if name.startswith("*") else dtype(name)
    return make_type(tuple(int(s) for s in sizes.rstrip("]").split(",")) if sizes else (), element)


def trace(function: Callable[..., Any], *types: Any, options: Options | None = None) -> Trace:
    """Call `function(builder, *tensors)`; types as such or as `type_named` reads them."""
    b = Recorder(options)
    given = [type_named(t) if isinstance(t, str) else t for t in types]
    with b.graph.block() as ops:
        result = function(b, *(tensor(Value(t.to_ir()), t, b) for t in given))
    return Trace(result, ops, b)


def _pointer_to(b: Recorder, parameter: Value, t: Any) -> tensor:
    """A parameter as a pointer to the elements of a value of type `t`."""
    base = tensor(parameter, pointer_type(t.scalar), b)
    sizes = shape_of(t.to_ir())
    if not sizes:
        return base
    flat = base + tl.arange.call(b, (0, int(np.prod(sizes))))
    return tl.reshape.call(b, (flat, sizes))


def stored(values: Any, t: dtype) -> np.ndarray:
    """Numbers as the interpreters store type `t`."""
    scalar = t.to_ir()
    if scalar.is_float:
        return np.ascontiguousarray(fp.encode(np.asarray(values, np.float64), scalar))
    if t == tl.int1:
        return np.asarray(values, np.bool_)
    return np.asarray(values, t.name).view(storage_dtype(scalar))


def shown(array: np.ndarray, t: dtype) -> np.ndarray:
    """Storage as numbers: floats as float64, unsigned integers as such."""
    scalar = t.to_ir()
    if scalar.is_float:
        return fp.decode(array, scalar)
    return array.view(t.name) if t != tl.int1 else array


def evaluate(function: Callable[..., Any], *inputs: tuple[Any, str | dtype], options: Options | None = None) -> Any:
    """`function(builder, *tensors)` on (values, type) pairs; its tensors as arrays of numbers (see `shown`)."""
    arrays = []
    for values, name in inputs:
        element = dtype(name) if isinstance(name, str) else name
        arrays.append((np.atleast_1d(stored(values, element)), element, np.shape(values)))
    b = Recorder(options)
    parameters: list[Value] = []
    with b.graph.block() as ops:
        tensors = []
        for _, element, sizes in arrays:
            parameters.append(Value(Pointer(element.to_ir())))
            t = block_type(element, sizes) if sizes else element
            tensors.append(tl.load.call(b, (_pointer_to(b, parameters[-1], t),)))
        result = function(b, *tensors)
        outputs = list(result) if isinstance(result, tuple | list) else [result]
        buffers = []
        for value in outputs:
            parameters.append(Value(Pointer(value.dtype.to_ir())))
            tl.store.call(b, (_pointer_to(b, parameters[-1], value.type), value))
            buffers.append(np.zeros(shape_of(value.type.to_ir()) or (1,), storage_dtype(value.dtype.to_ir())))
        b.emit("return")
    entry = Function("kernel", tuple(f"p{i}" for i in range(len(parameters))), Block(tuple(parameters), tuple(ops)))
    _run(Module("kernel", {"kernel": entry}), [*(a for a, _, _ in arrays), *buffers])
    numbers = [shown(buffer, value.dtype).reshape(shape_of(value.type.to_ir()))
               for buffer, value in zip(buffers, outputs)]
    return tuple(numbers) if isinstance(result, tuple | list) else numbers[0]


def _run(module: Module, arrays: Sequence[np.ndarray]) -> None:
    memory = Memory.of_arrays({f"a{i}": a for i, a in enumerate(arrays)})
    batched.run(module, (1,), [a.ctypes.data for a in arrays], memory)
