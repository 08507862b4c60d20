"""Tests of loads and stores against the extents of their arguments (docs/design.md, Launch facts and memory).

An access whose pointer is based on parameters of the kernel may touch only bytes that these parameters reach.  Every
access is tested once before the nest that makes it, so that a violation is found before anything of the nest is
written: a scalar by its address; a tile by the span of its addresses (`spans`), which are a few scalar instructions;
where that fails, a *probe* looks at every active lane: a function for all accesses of a common form (`probes`), or a
nest of its own.  Where no span is known (the address depends
on loaded numbers), a *sketch* looks at the ends of each regular dimension and at all indices of the others, in
vectors, and a probe follows only where it finds anything.  The first violation claims the launch's status record
(`host.records`), as a failed assertion does, and leaves the kernel; the host raises `OutOfBoundsError`.
Pointers that come out of memory or out of integers have no extent and are not tested.

Before: what the access needs is bound.  Tests: tests/targets/cpu/test_extents.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tilewright.analysis.alias import Alias
from tilewright.diagnostics import location_record
from tilewright.ir.node import Module, Op, Value
from tilewright.ir.ops.table import Effect
from tilewright.ir.types import Pointer, element_of, shape_of
from tilewright.targets.cpu.aliasing import Aliases
from tilewright.targets.cpu.bounds import assume
from tilewright.targets.cpu.code import COLD
from tilewright.targets.cpu.evaluate import Evaluator, Facts, Index
from tilewright.targets.cpu.host.records import Status
from tilewright.targets.cpu.lanes import Lane
from tilewright.targets.cpu.nest import Nest, fixed, iterate
from tilewright.targets.cpu.probes import Report, form_of, is_written, write_report
from tilewright.targets.cpu.regular import constant_along, regular
from tilewright.targets.cpu.spans import Spans
from tilewright.targets.cpu.state import Kernel, Virtual
from tilewright.targets.llvm.text import ModuleWriter
from tilewright.targets.llvm.types import I1, I64, PTR, VOID, constant
from tilewright.targets.llvm.types import Value as LlvmValue


def is_access(op: Op) -> bool:
    """Whether `op` reads or writes through a pointer operand."""
    return bool(op.row.effects & (Effect.READS | Effect.WRITES)) and bool(op.operands) and isinstance(
        element_of(op.operands[0].type), Pointer)


@dataclass(frozen=True, slots=True)
class Extent:
    """A parameter's extent in bytes, as i64 scalars; elements of `size` bytes start at `count` places from `low` on."""

    base: Value
    size: int
    pointer: LlvmValue
    low: LlvmValue
    high: LlvmValue
    count: LlvmValue


class Guards:
    """The tests of one kernel's accesses."""

    def __init__(self, kernel: Kernel, module: Module, aliases: Aliases) -> None:
        self.kernel = kernel
        self.code = kernel.code
        self._aliases = aliases
        self._alias = Alias(module)
        pointers = [v for v in module.entry.params if isinstance(v.type, Pointer)]
        first = len(module.entry.params)
        self._words = {v: first + 2 * k for k, v in enumerate(pointers)}
        self._names = dict(zip(module.entry.params, module.entry.param_names, strict=True))

    # --- what is tested

    def scalar(self, op: Op) -> None:
        """Test an access to one element, before it."""
        self.kernel.tested.add(op)
        extents = self._extents(op)
        if not extents:
            return
        mask = op.operand("mask")
        address = self._address(self.kernel.scalar(op.operands[0]), 1)
        outside = self._outside(address, extents)
        if mask is not None:
            outside = self.code.fold("and", outside, self._flag(mask))
        self.code.leave_if(outside, lambda: self._record(op, extents, address))

    def tiles(self, ops: Iterable[Op]) -> None:
        """Test the accesses among `ops`, which are in program order, before the nest that makes them.

        What a probe reads to find addresses and masks has been tested before it.
        """
        ops = list(ops)
        certain: list[LlvmValue] = []
        doubtful: list[tuple[Op, Sequence[Extent]]] = []

        def settle() -> None:
            pending = list(doubtful)
            if pending:
                doubt = self.code.fold_not(self._all(certain))
                self.code.branch(doubt, lambda: self._probe_all(pending), unlikely=True)
            certain.clear()
            doubtful.clear()

        for op in ops:
            if not is_access(op) or not shape_of(op.operands[0].type) or op in self.kernel.tested:
                continue
            self.kernel.tested.add(op)
            extents = self._extents(op)
            if not extents or self._is_off(op):
                continue
            inside = self._by_span(op, extents)
            if inside is None:
                settle()
                self._sketch(op, extents, ops)
            else:
                certain.append(inside)
                doubtful.append((op, extents))
        settle()

    def _is_off(self, op: Op) -> bool:
        """Whether the mask is known to be false."""
        mask = op.operand("mask")
        binding = self.kernel.bindings[mask] if mask is not None else None
        while isinstance(binding, Virtual) and binding.op.name in ("splat", "broadcast"):
            binding = self.kernel.bindings[binding.op.operands[0]]
        return isinstance(binding, Lane) and binding.known == 0

    # --- extents

    def _extents(self, op: Op) -> Sequence[Extent]:
        """The extents of the parameters that the access may be based on; none if it may be based on anything."""
        bases = self._alias.bases(op.operands[0])
        if bases is None or not all(base in self._words for base in bases):
            return ()
        pointer = element_of(op.operands[0].type)
        assert isinstance(pointer, Pointer)
        return [self._extent(base, pointer.element.bytes) for base in sorted(bases, key=self._words.__getitem__)]

    def _extent(self, base: Value, size: int) -> Extent:
        code, first = self.code, self._words[base]
        low, high = (code.shared_load(f"load i64, {code.gep(code.params[0], word, I64)}, align 8", I64, 0)
                     for word in (first, first + 1))
        pointer = self._address(self.kernel.scalar(base), 1)
        places = code.op("sub", code.op("sub", high, low), constant(I64, size - 1))
        count = code.binary_intrinsic("smax", places, constant(I64, 0))
        return Extent(base, size, pointer, low, high, count)

    # --- tests

    def _address(self, lane: Lane, width: int) -> LlvmValue:
        pointers = Evaluator(self.kernel, width, 0).full(lane)
        return self.code.cast("ptrtoint", pointers, I64 if width == 1 else pointers.type.of("i64"))

    def _flag(self, mask: Value) -> LlvmValue:
        return Evaluator(self.kernel, 1, 0).scalar(self.kernel.scalar(mask))

    def _all(self, conditions: Iterable[LlvmValue]) -> LlvmValue:
        total = constant(I1, 1)
        for condition in dict.fromkeys(conditions):
            total = self.code.fold("and", total, condition)
        return total

    def _outside(self, address: LlvmValue, extents: Sequence[Extent]) -> LlvmValue:
        """Where an address, or each of a vector, lies in none of the extents."""
        code, total = self.code, None
        for extent in extents:
            low, count = (v if not address.type.lanes else code.splat(v, address.type.lanes)
                          for v in (extent.low, extent.count))
            outside = code.icmp("uge", code.op("sub", address, low), count)
            total = outside if total is None else code.op("and", total, outside)
        assert total is not None
        return total

    def _by_span(self, op: Op, extents: Sequence[Extent]) -> LlvmValue | None:
        """Whether the span of the active lanes' addresses lies in the extent; None if no span is known."""
        if len(extents) != 1:
            return None
        (extent,), code = extents, self.code
        spans = Spans(self.kernel, op.operand("mask"), op.operands[0])
        span = spans.address(op.operands[0], extent.base)
        if span is None:
            return None
        least = code.op("sub", extent.low, extent.pointer)
        most = code.op("sub", code.op("sub", extent.high, extent.pointer), constant(I64, extent.size))
        inside = self._all([*spans.conditions, code.icmp("sge", span.low, least), code.icmp("sle", span.high, most)])
        for gate in dict.fromkeys(spans.gates):
            inside = code.fold("or", inside, code.fold_not(gate))
        return inside

    def _probe_all(self, ops: Sequence[tuple[Op, Sequence[Extent]]]) -> Sequence[LlvmValue]:
        for op, extents in ops:
            self._probe(op, extents, len(ops) > 1)
        return ()

    def _sketch(self, op: Op, extents: Sequence[Extent], ops: Sequence[Op]) -> None:
        """Look for addresses that may be outside, and probe if there are any; `ops` are those of the whole nest."""
        code, byte = self.code, I1.of("i8")
        doubt = code.alloca(byte, align=1)
        code.store(constant(byte, 0), doubt, 1)
        facts, condition = assume(self.kernel, ops)
        if condition is None:
            self._sketch_under(facts, op, extents, doubt)
        else:
            code.branch(condition, lambda: self._sketch_under(facts, op, extents, doubt),
                        lambda: self._sketch_under(Facts(), op, extents, doubt))
        found = code.icmp("ne", code.here(byte, f"load i8, {doubt}, align 1"), constant(byte, 0))
        code.branch(found, lambda: self._probe_all([(op, extents)]), unlikely=True)

    def _sketch_under(self, facts: Facts, op: Op, extents: Sequence[Extent], doubt: LlvmValue) -> Sequence[LlvmValue]:
        """Look at the corners of the regular dimensions, at all indices of the others."""
        pointer, mask, code = op.operands[0], op.operand("mask"), self.code
        shape = shape_of(pointer.type)
        ends = regular(self.kernel, pointer)
        corners = list(itertools.product(*([fixed(0), fixed(n - 1)] if d in ends and n > 1 else [None]
                                           for d, n in enumerate(shape))))
        flags = self._flags_across(mask, ends) if mask is not None else []

        def body(e: Evaluator, index: Index) -> None:
            outside: LlvmValue | None = None
            for corner in corners:
                at = tuple(i if end is None else end for i, end in zip(index, corner, strict=True))
                here = self._outside(self._address(e.at(pointer, at), e.width), extents)
                outside = here if outside is None else code.op("or", outside, here)
            assert outside is not None
            for flag in flags:
                if flag not in facts.true:
                    outside = code.op("and", outside, e.full(e.at(flag, index)))

            def note() -> Sequence[LlvmValue]:
                code.store(constant(I1.of("i8"), 1), doubt, 1)
                return ()

            code.branch(code.any_lane(outside), note, unlikely=True)

        reduced = tuple(1 if d in ends else n for d, n in enumerate(shape))
        with code.scope() as floor:
            iterate(Nest(self.kernel, reduced, self.kernel.lanes_for(wide=False), floor, facts, unroll=4), body)
        return ()

    def _flags_across(self, mask: Value, ends: frozenset[int]) -> list[Value]:
        """The parts of a mask that are the same along all of the dimensions `ends`."""
        binding = self.kernel.bindings[mask]
        if isinstance(binding, Virtual) and binding.op.name == "and":
            return [flag for part in binding.op.operands for flag in self._flags_across(part, ends)]
        return [mask] if ends <= constant_along(self.kernel, mask) else []

    def _probe(self, op: Op, extents: Sequence[Extent], of_several: bool) -> None:
        """Look at every active lane, and leave the kernel at a violation."""
        pointer, mask, code = op.operands[0], op.operand("mask"), self.code
        is_worth = is_written(code.module) or of_several or sum(size > 1 for size in shape_of(pointer.type)) > 1
        form = form_of(self.kernel, self._aliases, op) if is_worth and len(extents) == 1 else None
        if form is not None:
            found = form.probe(code.module, self._report(op, extents))
            code.leave_if(code.here(I1, found), lambda: None)
            return

        def body(e: Evaluator, index: Index) -> None:
            address = self._address(e.at(pointer, index), e.width)
            outside = self._outside(address, extents)
            if mask is not None:
                outside = code.op("and", outside, e.full(e.at(mask, index)))
            code.leave_if(outside, lambda: self._record(op, extents, address))

        with code.scope() as floor:
            iterate(Nest(self.kernel, shape_of(pointer.type), 1, floor, Facts(), minor=True), body)

    # --- the report

    def _record(self, op: Op, extents: Sequence[Extent], address: LlvmValue) -> None:
        code, report = self.code, self._report(op, extents)
        code.call(_reporter(code.module), VOID, [report.status, report.number, report.program, address, report.pointer,
                                                 report.words])

    def _report(self, op: Op, extents: Sequence[Extent]) -> Report:
        """What to say of the access `op`, which gets a number."""
        code, kernel = self.code, self.kernel
        accesses = kernel.messages.accesses
        number = constant(I64, Status.FIRST_ACCESS + len(accesses))
        extent = extents[0]
        accesses.append({"access": "atomic access" if op.name.startswith("atomic") else op.name,
                         "argument": self._names[extent.base], "bytes": extent.size,
                         "location": location_record(op.loc)})
        words = code.gep(code.params[0], self._words[extent.base], I64)
        return Report(kernel.context_word(4, PTR), number, kernel.program[3], extent.pointer, words, extent.size)


def _reporter(module: ModuleWriter) -> str:
    """The name of the function that fills the status record, if nobody has; `words` are the extent's low and high."""
    name = "report_outside"
    if not module.has_function(name):
        f = module.function(name, [("status", PTR), ("number", I64), ("program", I64), ("address", I64),
                                   ("pointer", I64), ("words", PTR)], attributes=COLD, linkage="internal")
        write_report(f, *f.params)
        f.ret()
    return name
