"""Rows that the next program, or the next iteration, will load are asked for while this one computes.

A processor fetches ahead by itself only along what it has seen, and not beyond a page: at the start of a row, which is
often the start of a page, its units wait for memory.  So where a load is read by a nest that has time (`Ahead.loads`),
each whole vector also prefetches the same place of the next tile.  How far that is away is the change of the address
from one iteration of the innermost loop around the nest, or from one program along x, to the next; a wrong guess
costs time and nothing else.  Measured: softmax of rows of 4 KiB that come from the last-level cache, 1.65 times as
fast (Emerald Rapids, 2026-11-30).
Before: the load and what it is made from is bound.  Tests: tests/targets/cpu/test_ahead.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from tilewright.ir.node import Module, Op, Value
from tilewright.ir.types import Pointer, Scalar, element_of, shape_of
from tilewright.ir.walk import definitions
from tilewright.targets.cpu.lanes import Lane, LaneMath
from tilewright.targets.cpu.plan import Plan, work
from tilewright.targets.cpu.state import Kernel, Virtual
from tilewright.targets.llvm.types import I64, constant, integer_value
from tilewright.targets.llvm.types import Value as LlvmValue

DEAR = 8                    # work (`plan.work`) from which a nest that reads a tile only once has time
_MOST_BYTES = 1 << 18       # of a tile; more would not stay in the second cache
_KEEPS = ("splat", "broadcast", "expand_dims", "permute", "reshape", "hint", "bitcast", "ext_s", "ext_u", "trunc")


class Ahead:
    """The distances of one kernel."""

    def __init__(self, kernel: Kernel, module: Module, plan: Plan) -> None:
        self.kernel = kernel
        self.plan = plan
        self._definitions = definitions(module.entry.body)
        self._known: dict[tuple[Value, Op | None], LlvmValue | None] = {}
        self._starting: Op | None = None        # a loop whose first iteration is asked for

    def loads(self, ops: Iterable[Op], root: Op | None) -> Mapping[Op, LlvmValue]:
        """For loads among `ops`, which a nest for `root` computes: bytes to where the next one of the same kind reads.

        A load that several nests read, which has the tile in a cache from the second one on, or one of a nest that
        computes much.  Others are as fast as memory is.
        """
        ops = list(ops)
        self._known.clear()         # what was computed for another nest may stand in another branch
        found: dict[Op, LlvmValue] = {}
        for op in ops:
            if op.name != "load" or root is None or not self._is_due(op, root, work(ops)):
                continue
            distance = self._step(op.operands[0], self._loop_around(root))
            if distance is not None and integer_value(distance) != 0:
                found[op] = distance
        return found

    def distance(self, pointer: Value, user: Op) -> LlvmValue | None:
        """Bytes from where `pointer` points to where it will the next time that `user` runs; None: unknown, or none.

        After the last iteration of a loop that is where the next run of the loop begins, if that is known.
        """
        self._known.clear()
        loop = self._loop_around(user)
        step = self._step(pointer, loop)
        if step is None:
            return None
        distance = step if loop is None or loop.name != "for" else self._over_the_end(pointer, loop, step)
        return None if integer_value(distance) == 0 else distance

    def _over_the_end(self, pointer: Value, loop: Op, step: LlvmValue) -> LlvmValue:
        """`step`, the change of `pointer` from one iteration of `loop` to the next; in the last one, that to the first
        one of the loop's next run."""
        self._known.clear()
        self._starting = loop
        again = self._step(pointer, self._loop_around(loop))
        self._starting = None
        self._known.clear()
        if again is None:
            return step
        code, here = self.kernel.code, self.kernel.loops[-1]
        gone = code.fold("mul", here.count, step)
        is_last = code.icmp("eq", code.op("add", here.count, constant(I64, 1)), here.total)
        return code.select(is_last, code.fold("sub", again, gone), step)

    def _is_due(self, op: Op, root: Op, nest_work: int) -> bool:
        value, roots = op.result, self.plan.roots(op.result)
        shape = shape_of(value.type)
        size = math.prod(shape) * element_of(value.type).bytes
        if not shape or not roots or size > _MOST_BYTES:
            return False
        last = max(roots, key=lambda r: self.plan.places[r].number)
        return (value in self.plan.kept or root is last) and (len(roots) > 1 or nest_work >= DEAR)

    def _loop_around(self, op: Op) -> Op | None:
        around = self.plan.places[op].around
        while around is not None and around.name not in ("for", "while"):
            around = self.plan.places[around].around
        return around

    # --- how a value changes from one iteration to the next; for pointers in bytes, the same for all lanes of a tile

    def _step(self, value: Value, loop: Op | None) -> LlvmValue | None:
        key = value, loop
        if key not in self._known:
            self._known[key] = None         # what goes round comes back here
            if len(self._known) < 1000:     # bounds the depth of recursion
                self._known[key] = self._find(value, loop)
        return self._known[key]

    def _find(self, value: Value, loop: Op | None) -> LlvmValue | None:
        definition = self._definitions.get(value)
        zero = constant(I64, 0)
        if definition is None or (loop is not None and not self._is_within(definition.op, loop)):
            return zero
        op = definition.op
        if op is None:
            return zero
        if definition.is_argument and op is self._starting:
            return self._step(op.operands[2 + definition.index if definition.index else 0], loop)
        if definition.is_argument:
            return self._carried(op, value, definition.index) if op is loop and op.name == "for" else None
        if op is loop:
            return zero
        if op.name == "program_id":
            return constant(I64, int(loop is None and op.attrs["axis"] == 0))
        if op.name in _KEEPS:
            return self._step(op.operands[0], loop)
        if op.name in ("add", "sub", "mul", "ptr_add", "rem_s", "rem_u", "div_s", "div_u"):
            return self._arithmetic(op, *(self._step(v, loop) for v in op.operands))
        same = not op.regions and op.name != "load" and all(
            (known := self._step(v, loop)) is not None and integer_value(known) == 0 for v in op.operands)
        return zero if same else None

    def _arithmetic(self, op: Op, a: LlvmValue | None, b: LlvmValue | None) -> LlvmValue | None:
        if a is None or b is None:
            return None
        code, name = self.kernel.code, op.name
        if name in ("add", "sub"):
            return code.fold(name, a, b)
        if name == "ptr_add":
            pointer = element_of(op.operands[0].type)
            assert isinstance(pointer, Pointer)
            return code.fold("add", a, code.fold("mul", b, constant(I64, pointer.element.bytes)))
        if name == "mul":
            if integer_value(a) != 0 and integer_value(b) != 0:
                return None
            moving, other = (a, op.operands[1]) if integer_value(b) == 0 else (b, op.operands[0])
            if integer_value(moving) == 0:
                return moving
            factor = self._number(other)
            return None if factor is None else code.fold("mul", moving, factor)
        if integer_value(b) != 0:
            return None
        return a if name.startswith("rem") else constant(I64, 0)      # true but where they wrap

    def _carried(self, loop: Op, value: Value, index: int) -> LlvmValue | None:
        """The step of the loop's index, or of a value that the body makes from itself."""
        if index == 0:
            return self._number(loop.operands[2])
        following = loop.regions[0].terminator.operands[index - 1]
        definition = self._definitions.get(following)
        if definition is None or definition.op is None or definition.is_argument or (
                definition.op.name not in ("add", "ptr_add") or definition.op.operands[0] is not value):
            return None
        step = self._number(definition.op.operands[1])
        if step is None or definition.op.name == "add":
            return step
        pointer = element_of(value.type)
        assert isinstance(pointer, Pointer)
        return self.kernel.code.fold("mul", step, constant(I64, pointer.element.bytes))

    def _is_within(self, op: Op | None, loop: Op) -> bool:
        while op is not None and op is not loop:
            op = self.plan.places[op].around if op in self.plan.places else None
        return op is loop

    def _number(self, value: Value) -> LlvmValue | None:
        """An integer that all lanes hold, in 64 bits."""
        binding = self.kernel.bindings.get(value)
        while isinstance(binding, Virtual) and binding.op.name in ("splat", "broadcast", "expand_dims", "ext_s"):
            binding = self.kernel.bindings.get(binding.op.operands[0])
        if not isinstance(binding, Lane) or not binding.is_uniform or not isinstance(binding.element, Scalar):
            return None
        if binding.known is not None:
            return constant(I64, binding.known)
        return self.kernel.code.cast("sext", LaneMath(self.kernel.code, 1).scalar(binding), I64)
