"""Inlining: every `call` becomes the callee's body.

Calls are inlined always, those of `noinline` functions too: no target emits calls of device functions, and code that
is not inlined would hide what a pointer is based on.  Copies have fresh values, and their locations get the call site
at the end of the chain of callers.  After it no function but the entry is left.
Tests: tests/passes/golden/inline.
"""

from __future__ import annotations

from tilewright.ir.node import Block, Module, Op
from tilewright.ir.rewrite import Replacement, Rewriter, inlined, without_unreachable
from tilewright.passes.manager import Pass


class _Inliner(Rewriter):
    """Replaces calls; callees are inlined themselves first, once each."""

    def __init__(self, module: Module, bodies: dict[str, Block]) -> None:
        super().__init__()
        self._module = module
        self._bodies = bodies       # bodies without calls, by function, shared by all inliners of a module

    def visit(self, op: Op) -> Replacement | None:
        if op.name != "call":
            return None
        ops, values = inlined(self._flat_body(op.attrs["callee"]), op.operands, op.loc)
        return Replacement(values, ops)

    def _flat_body(self, name: str) -> Block:
        if name not in self._bodies:
            self._bodies[name] = _Inliner(self._module, self._bodies).block(self._module.functions[name].body)
        return self._bodies[name]


def run(module: Module) -> Module:
    """`module` as its entry alone, without calls."""
    body = _Inliner(module, {}).block(module.entry.body)
    functions = {**module.functions, module.entry_name: module.entry.with_body(body)}
    return without_unreachable(module.with_functions(functions))


INLINE = Pass("inline", run, why="all other passes see whole kernels")
