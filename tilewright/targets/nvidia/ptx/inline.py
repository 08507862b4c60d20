"""Calls of a module's own functions, put in place (PTX ISA 7.1, 9.7.12.5).

Before: a function with `call`.  After: calls of functions that the module defines are gone; the callee's registers,
labels and variables have names of their own, its parameters are the caller's `.param` variables, its `ret` a branch
behind the call.  Calls of the runtime (vprintf, __assertfail) stay.
Tests: tests/targets/nvidia/ptx/test_program.py, test_control.py.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.targets.nvidia.ptx.operands import (
    Address,
    Function,
    Group,
    Guard,
    Instruction,
    Module,
    Operand,
    Pair,
    Register,
    Symbol,
    Vector,
)
from tilewright.targets.nvidia.ptx.report import PtxSyntaxError

RUNTIME = frozenset({"vprintf", "__assertfail"})


def inline_calls(function: Function, module: Module) -> Function:
    """`function` with no call of the module's own functions.  Raises `PtxSyntaxError` for recursion."""
    if not any(_calls_own(instruction, module) for instruction in function.code):
        return function
    flat = replace(function, registers=dict(function.registers), variables=dict(function.variables), code=[],
                   labels={}, tables=dict(function.tables), undefined={})
    _Inliner(module, flat).place(function, "", {}, (function.name,))
    return flat


def _calls_own(instruction: Instruction, module: Module) -> bool:
    """Is it a call of anything but the runtime?"""
    if instruction.family != "call":
        return False
    return not any(isinstance(o, Symbol) and o.name in RUNTIME for o in instruction.operands)


class _Inliner:
    def __init__(self, module: Module, into: Function) -> None:
        self.module, self.into, self.calls = module, into, 0

    def place(self, function: Function, prefix: str, formals: dict[str, str], chain: tuple[str, ...]) -> None:
        """Append the code of `function`; its names get `prefix`, its formal parameters their actual names."""
        positions = sorted((index, label) for label, index in function.labels.items())
        after = f"{prefix}ret"
        for index, instruction in enumerate(function.code):
            while positions and positions[0][0] <= index:
                self.into.labels[prefix + positions.pop(0)[1]] = len(self.into.code)
            if index in function.undefined:
                self.into.undefined[len(self.into.code)] = [prefix + name for name in function.undefined[index]]
            self._instruction(instruction, function, prefix, formals, chain, after)
        for _, label in positions:
            self.into.labels[prefix + label] = len(self.into.code)
        if prefix:
            self.into.labels[after] = len(self.into.code)

    def _instruction(self, instruction: Instruction, function: Function, prefix: str, formals: dict[str, str],
                     chain: tuple[str, ...], after: str) -> None:
        guard = instruction.guard
        if guard is not None and prefix:
            guard = Guard(prefix + guard.register, guard.negated)
        if prefix and instruction.family == "ret":
            self.into.code.append(Instruction("bra", ("bra",), (Symbol(after),), guard, instruction.line,
                                              instruction.location))
            return
        operands = instruction.operands
        if prefix:
            operands = tuple(_rename(o, function, prefix, formals) for o in operands)
        placed = replace(instruction, operands=operands, guard=guard)
        callee = self._callee(instruction)
        if callee is None:
            self.into.code.append(placed)
        else:
            self._call(placed, callee, chain)

    def _callee(self, instruction: Instruction) -> Function | None:
        if instruction.family != "call":
            return None
        names = [o.name for o in instruction.operands if isinstance(o, Symbol)]
        if names and names[0] in RUNTIME:
            return None
        callee = self.module.functions.get(names[0]) if names else None
        if callee is None or not callee.code:
            called = names[0] if names else "a function through a register"
            raise PtxSyntaxError(f"a call of {called}, which this module does not define", instruction.line)
        return callee

    def _call(self, call: Instruction, callee: Function, chain: tuple[str, ...]) -> None:
        if callee.name in chain:
            raise PtxSyntaxError(f"{callee.name} calls itself; the machine inlines calls", call.line)
        self.calls += 1
        prefix = f"{callee.name}#{self.calls}:"
        groups = [o for o in call.operands if isinstance(o, Group)]
        results = groups.pop(0) if isinstance(call.operands[0], Group) else Group(())
        arguments = groups[0] if groups else Group(())
        formals: dict[str, str] = {}
        for formal, actual in [*zip(callee.results, results.items), *zip(callee.parameters, arguments.items)]:
            if not isinstance(actual, Symbol) or formal.space != "param":
                raise PtxSyntaxError("arguments of a call are .param variables here", call.line)
            formals[formal.name] = actual.name
        for name, type in callee.registers.items():
            self.into.registers[prefix + name] = type
        for name, variable in callee.variables.items():
            self.into.variables[prefix + name] = replace(variable, name=prefix + name)
        for name, labels in callee.tables.items():
            self.into.tables[prefix + name] = tuple(prefix + label for label in labels)
        skip = f"{prefix}skip"
        if call.guard is not None:
            around = Guard(call.guard.register, not call.guard.negated)
            self.into.code.append(Instruction("bra", ("bra",), (Symbol(skip),), around, call.line, call.location))
        self.place(callee, prefix, formals, (*chain, callee.name))
        self.into.labels[skip] = len(self.into.code)


def _rename(operand: Operand, function: Function, prefix: str, formals: dict[str, str]) -> Operand:
    def again(inner: Operand) -> Operand:
        return _rename(inner, function, prefix, formals)

    if isinstance(operand, Register):
        return Register(prefix + operand.name, operand.negated)
    if isinstance(operand, Symbol):
        if operand.name in formals:
            return Symbol(formals[operand.name], operand.offset)
        local = operand.name in function.labels or operand.name in function.variables or \
            operand.name in function.tables
        return Symbol(prefix + operand.name if local else operand.name, operand.offset)
    if isinstance(operand, Vector):
        return Vector(tuple(again(i) for i in operand.items))
    if isinstance(operand, Group):
        return Group(tuple(again(i) for i in operand.items))
    if isinstance(operand, Pair):
        return Pair(again(operand.first), again(operand.second))
    if isinstance(operand, Address):
        inner = None if operand.coordinates is None else tuple(again(i) for i in operand.coordinates)
        return Address(again(operand.base), operand.offset, inner)
    return operand
