"""Functions of elements, which reductions, scans and `map_elementwise` apply, write no memory.

Which threads of a GPU apply one to which elements, and how often (to padding too, and twice where a sum is made in
steps), is the compiler's business; a store or an atomic operation in one would mean something else on each target.
Before: a module without calls.  Tests: tests/lang/test_mapping.py.
"""

from __future__ import annotations

from tilewright.diagnostics import CompilationError
from tilewright.ir.node import Module
from tilewright.ir.ops.table import Effect
from tilewright.ir.walk import ops_in

_APPLYING = {"map": "tl.map_elementwise", "reduce": "a reduction", "scan": "a scan"}


def check_element_functions(module: Module) -> None:
    """CompilationError at the first store or atomic operation in a function of elements."""
    for op in ops_in(module.entry.body):
        if op.name in _APPLYING:
            for inner in ops_in(op.regions[0]):
                if inner.row.effects & Effect.WRITES:
                    raise CompilationError(f"a function of elements, which {_APPLYING[op.name]} applies, may not write "
                                           f"memory ({inner.name}); return the values, and store them as a tile",
                                           inner.loc)
