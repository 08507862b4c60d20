"""A kernel as the machine runs it: flat instructions, branch targets, where divergent threads meet again.

Before: a parsed module.  After: calls of the module's own functions are inlined; every branch knows the instruction
where its ways join (the immediate post-dominator); registers that may be read before they are written are known, so
that only they need be watched.  Nothing here depends on a launch.
Tests: tests/targets/nvidia/ptx/test_program.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from tilewright.targets.nvidia.ptx.declarations import TYPE_BYTES
from tilewright.targets.nvidia.ptx.dominance import post_dominators
from tilewright.targets.nvidia.ptx.inline import inline_calls
from tilewright.targets.nvidia.ptx.operands import (
    Address,
    Function,
    Group,
    Instruction,
    Module,
    Operand,
    Pair,
    Register,
    Symbol,
    Variable,
    Vector,
)
from tilewright.targets.nvidia.ptx.report import PtxSyntaxError
from tilewright.targets.nvidia.ptx.table import row_of
from tilewright.targets.nvidia.ptx.text import parse

# how instructions end a run of plain ones
ENDS = ("ret", "exit", "trap")


@dataclass(slots=True)
class Parameter:
    """A parameter of the entry, at `offset` in its parameter space."""

    variable: Variable
    offset: int


@dataclass(slots=True)
class Program:
    """See the module's docstring.  `blocks` are the first instructions of basic blocks, in order."""

    module: Module
    function: Function
    parameters: dict[str, Parameter]
    parameter_bytes: int
    code: list[Instruction] = field(default_factory=list)
    blocks: list[int] = field(default_factory=list)
    joins: dict[int, int | None] = field(default_factory=dict)
    suspects: set[str] = field(default_factory=set)
    uses: list[tuple[list[str], list[str]]] = field(default_factory=list)     # registers written, and read
    compared: set[Address] = field(default_factory=set)      # where a compare-and-swap is made
    lines: tuple[str, ...] = ()

    def target(self, name: str) -> int:
        return self.function.labels[name]

    def text(self, line: int) -> str:
        return self.lines[line - 1] if 0 < line <= len(self.lines) else ""

    def smallest_access(self, space: str) -> int:
        """log2 of the fewest bytes that an instruction touches in `space` (races are tracked that finely)."""
        sizes = [4]
        for instruction in self.code:
            parts = instruction.parts
            if parts[0] in ("ld", "st", "atom", "red", "ldu") and (space in instruction.opcode or not
                                                                   _NAMED_SPACES.intersection(parts)):
                sizes.append(TYPE_BYTES.get(parts[-1], 4))
            elif (parts[:2] == ("cp", "async") and "bulk" not in parts) or parts[0] in ("ldmatrix", "stmatrix"):
                sizes.append(4)
        return min(sizes).bit_length() - 1


_NAMED_SPACES = frozenset({"global", "shared", "local", "param", "const", "shared::cta", "shared::cluster",
                           "param::entry", "param::func"})


@lru_cache(maxsize=256)
def decode(text: str, kernel: str = "") -> Program:
    """The program of entry `kernel` (the only one if empty).  Raises `PtxSyntaxError`."""
    module = parse(text)
    entries = [f for f in module.functions.values() if f.entry]
    if kernel not in module.functions and not (kernel == "" and len(entries) == 1):
        raise PtxSyntaxError(f"the module has no entry {kernel!r}; it has {', '.join(f.name for f in entries)}", 1)
    function = inline_calls(module.functions[kernel] if kernel else entries[0], module)
    parameters, end = _layout(function.parameters)
    program = Program(module, function, parameters, end, function.code, lines=module.lines)
    for instruction in program.code:
        row_of(instruction, program.text(instruction.line))
    program.uses = [written_and_read(instruction) for instruction in program.code]
    program.compared = {o for i in program.code if i.family == "atom" and "cas" in i.parts
                        for o in i.operands if isinstance(o, Address)}
    _find_blocks(program)
    program.suspects = _through_results(program, read_unwritten(program, guarded=False))
    return program


def _layout(variables: list[Variable]) -> tuple[dict[str, Parameter], int]:
    """Offsets of parameters, each aligned as it says."""
    offset, places = 0, {}
    for variable in variables:
        offset = -(-offset // variable.align) * variable.align
        places[variable.name] = Parameter(variable, offset)
        offset += variable.size
    return places, offset


def successors(program: Program, pc: int) -> list[int]:
    """Where control may go after instruction `pc`; len(code) is the end."""
    instruction, after = program.code[pc], pc + 1
    if instruction.family == "bra":
        target = instruction.operands[0]
        assert isinstance(target, Symbol)
        return [program.target(target.name)] + ([after] if instruction.guard is not None else [])
    if instruction.family == "brx":
        table = instruction.operands[1]
        assert isinstance(table, Symbol)
        targets = [program.target(name) for name in program.function.tables[table.name]]
        return targets + ([after] if instruction.guard is not None else [])
    if instruction.family in ENDS:
        return [len(program.code)] + ([after] if instruction.guard is not None else [])
    return [after]


def _find_blocks(program: Program) -> None:
    code, size = program.code, len(program.code)
    starts = {0, size, *program.function.labels.values()}
    for pc, instruction in enumerate(code):
        if instruction.family in ("bra", "brx", *ENDS):
            starts.update((pc + 1, *successors(program, pc)))
        elif instruction.guard is not None and row_of(instruction).control:
            starts.add(pc + 1)      # lanes that the guard keeps out wait there
    program.blocks = sorted(s for s in starts if s < size)
    last = {start: (program.blocks[i + 1] if i + 1 < len(program.blocks) else size) - 1
            for i, start in enumerate(program.blocks)}
    edges = {start: successors(program, last[start]) for start in program.blocks}
    join = post_dominators(edges, size)
    for start, end in last.items():
        if len(edges[start]) > 1:
            program.joins[end] = join.get(start)


# ---- registers read before they are written
def registers_of(operand: Operand) -> list[str]:
    """Registers in an operand, in addresses too."""
    if isinstance(operand, Register):
        return [operand.name]
    if isinstance(operand, Vector | Group):
        return [name for item in operand.items for name in registers_of(item)]
    if isinstance(operand, Pair):
        return registers_of(operand.first) + registers_of(operand.second)
    if isinstance(operand, Address):
        inner = [name for item in operand.coordinates or () for name in registers_of(item)]
        return registers_of(operand.base) + inner
    return []


def written_and_read(instruction: Instruction) -> tuple[list[str], list[str]]:
    """Registers that an instruction writes, and reads (its guard too)."""
    results = row_of(instruction).results
    writes: list[str] = []
    reads: list[str] = []
    for index, operand in enumerate(instruction.operands):
        if isinstance(operand, Register):
            (writes if index < results else reads).append(operand.name)
        elif index < results and not isinstance(operand, Address):
            writes += registers_of(operand)
        else:
            reads += registers_of(operand)
    if instruction.guard is not None:
        reads.append(instruction.guard.register)
    return writes, reads


@lru_cache(maxsize=256)
def not_always_written(text: str, kernel: str) -> tuple[str, ...]:
    """Registers of `kernel` that are read where some way to the place does not write them, not even under a guard.

    A program that runs may find the value of an earlier turn of a loop in them, so only this sees such a fault.  What
    is written nowhere and only moved has no such value: LLVM packs a half that nobody looks at with it.
    """
    program = decode(text, kernel)
    written = {name for writes, _ in program.uses for name in writes}
    used = {name for (_, reads), i in zip(program.uses, program.code) if i.family != "mov" for name in reads}
    return tuple(sorted(read_unwritten(program, guarded=True) & (written | used)))


def read_unwritten(program: Program, guarded: bool) -> set[str]:
    """Registers with a read that some way reaches with no write before (definite assignment, forwards, by bit sets).

    `guarded`: a write under a guard is one, too.
    """
    number: dict[str, int] = {}
    facts = []
    for pc, instruction in enumerate(program.code):
        writes, reads = program.uses[pc]
        write = read = defined = 0
        for name in reads:
            read |= 1 << number.setdefault(name, len(number))
        if guarded or instruction.guard is None:
            for name in writes:
                write |= 1 << number.setdefault(name, len(number))
        for name in program.function.undefined.get(pc, ()):
            defined |= 1 << number.setdefault(name, len(number))
        facts.append((read, write, defined))
    everything = (1 << len(number)) - 1
    size = len(program.code)
    before = dict.fromkeys(program.blocks, everything)
    before[0] = 0
    work, found = list(program.blocks), 0
    ends = [*program.blocks[1:], size]
    last = dict(zip(program.blocks, ends))
    while work:
        start = work.pop(0)
        known = before[start]
        for pc in range(start, last[start]):
            known |= facts[pc][1] | facts[pc][2]
        for after in successors(program, last[start] - 1):
            if after < size and before[after] & known != before[after]:
                before[after] &= known
                work.append(after)
    for start in program.blocks:
        known = before[start]
        for pc in range(start, last[start]):
            known |= facts[pc][2]
            found |= facts[pc][0] & ~known
            known |= facts[pc][1]
    return {name for name, bit in number.items() if found >> bit & 1}


def _through_results(program: Program, suspects: set[str]) -> set[str]:
    """What is computed from an unwritten value is as good as unwritten; lanes that nobody looks at do it often."""
    pure = [uses for uses, i in zip(program.uses, program.code) if row_of(i).pure]
    grown = True
    while grown:
        grown = False
        for writes, reads in pure:
            if not suspects.isdisjoint(reads) and not suspects.issuperset(writes):
                suspects.update(writes)
                grown = True
    return suspects
