"""Which arguments a grid function reads, by its code: `lambda meta: (cdiv(n, meta["BLOCK"]),)` reads `BLOCK`.

A grid function gets a new dict of all arguments, which it may keep and change.  Making one costs more than all else
about such a grid, and nearly every grid function only subscripts its parameter with constant names: then it cannot
tell a dict of these items from the whole one, nor see whether it is a new one.  Whatever else the code does with its
parameter, and every instruction that is not known here, makes it a function that gets the whole dict.

Not seen is a function that reads its caller's frame and is called by another name than Python's own.
Instructions differ between versions of Python: https://docs.python.org/3/library/dis.html.
Tests: tests/runtime/test_grid_reads.py.
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Sequence
from types import CodeType

# Calls of these, or what they lead to, see local variables; `super()` reads the first parameter.
_FRAME_READERS = frozenset({"locals", "vars", "dir", "eval", "exec", "super", "breakpoint", "sys", "inspect", "gc",
                            "traceback", "pdb", "_getframe", "currentframe", "settrace", "set_trace", "__import__"})
_NOT_FUNCTIONS = (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
                  | inspect.CO_ITERABLE_COROUTINE)      # they run after the call
_LOADS = frozenset({"LOAD_FAST", "LOAD_FAST_BORROW"})
_PAIRS = frozenset({"LOAD_FAST_LOAD_FAST", "LOAD_FAST_BORROW_LOAD_FAST_BORROW", "STORE_FAST_LOAD_FAST"})


def names_read(code: CodeType) -> tuple[str, ...] | None:
    """The names that a function with this code subscripts its first parameter with, each once; None if it may see more
    of that than these items."""
    if not code.co_argcount or code.co_flags & _NOT_FUNCTIONS or not _FRAME_READERS.isdisjoint(code.co_names):
        return None
    parameter = code.co_varnames[0]
    if parameter in code.co_cellvars or not _FRAME_READERS.isdisjoint(code.co_freevars):
        return None
    instructions = [i for i in dis.get_instructions(code) if i.opname != "EXTENDED_ARG"]
    names = []
    for place, instruction in enumerate(instructions):
        if not _is_local(instruction) or not _mentions(instruction, parameter):
            continue
        name = _subscript(instructions[place:place + 3]) if _loads_last(instruction, parameter) else None
        if name is None:
            return None
        names.append(name)
    return tuple(dict.fromkeys(names))


def _is_local(instruction: dis.Instruction) -> bool:
    """Whether an instruction reads or writes local variables."""
    return instruction.opcode in dis.haslocal or "FAST" in instruction.opname


def _mentions(instruction: dis.Instruction, parameter: str) -> bool:
    """Whether a local variable of an instruction is the parameter, or may be."""
    named = instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
    return parameter in named or not all(isinstance(name, str) for name in named)


def _loads_last(instruction: dis.Instruction, parameter: str) -> bool:
    """Whether an instruction does nothing with the parameter but push it, above all else that it pushes."""
    if instruction.opname in _LOADS:
        return bool(instruction.argval == parameter)
    return instruction.opname in _PAIRS and instruction.argval[1:] == (parameter,) != instruction.argval[:1]


def _subscript(three: Sequence[dis.Instruction]) -> str | None:
    """The name in `[name]` behind the first instruction."""
    if len(three) < 3 or three[1].is_jump_target or three[2].is_jump_target:
        return None
    key, subscript = three[1:]
    if subscript.opname != "BINARY_SUBSCR" and (subscript.opname, subscript.argrepr) != ("BINARY_OP", "[]"):
        return None
    return key.argval if key.opname == "LOAD_CONST" and type(key.argval) is str else None
