"""The one picture: source → frontend → tile IR → passes → target → code object.

    lower            a @jit function and a signature become a verified module without calls; what it writes is known
    with_facts       the launch facts that the written parameters decide
    finish           the target's passes run, the target makes a code object
    compile_kernel   all of it

Nothing here keeps state.  The runtime, an ahead-of-time builder and the tests call it.
Tests: tests/runtime/test_compile.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from tilewright.analysis.element_functions import check_element_functions
from tilewright.analysis.written import Written, written_params
from tilewright.collecting import COLLECTOR_RESTS
from tilewright.diagnostics import CompilationError, location_record
from tilewright.frontend import compile_function
from tilewright.frontend.graph import Warned
from tilewright.frontend.nesting import too_deep
from tilewright.ir.node import Module
from tilewright.ir.text import print_module
from tilewright.ir.verify import verify
from tilewright.language.function import SourceFunction
from tilewright.language.options import Options, Signature
from tilewright.passes.inline import INLINE
from tilewright.passes.manager import run_passes, verify_tile_ir
from tilewright.targets.base import MEANWHILE, CodeObject, Stage, Target

# What is called with the name of a stage and its text, when somebody wants to see the stages.
Dump = Callable[[str, str], None]
# What may change the stages: called with target, stages by name (which run in this order, each on what the one before
# it gave), options, language, and None.
Inspect = Callable[[Target, dict[str, Stage], Options, str, None], object]


@dataclass(frozen=True, slots=True)
class Lowered:
    """Fresh tile IR of one specialisation, without calls, before the launch facts are known; what was warned of."""

    fn: SourceFunction
    module: Module
    options: Options
    written: Written
    warned: tuple[Warned, ...] = ()

    def with_facts(self, disjoint: bool, wide: bool) -> Lowered:
        return replace(self, module=replace(self.module, disjoint=disjoint, wide=wide))


def lower(fn: SourceFunction, signature: Signature, options: Options, *, check: int = 1) -> Lowered:
    """Tile IR of `fn` for `signature`.  `check` 0 leaves the verifier out: `finish` has one."""
    with COLLECTOR_RESTS:
        warned: list[Warned] = []
        module = compile_function(fn, signature, options, bool(dict(options.extra).get("allow_non_constexpr_globals")),
                                  warned)
        with _nesting_of(fn):
            if check:
                verify(module)
            module = INLINE.run(module)
            check_element_functions(module)
            return Lowered(fn, module, options, written_params(module), tuple(warned))


@contextmanager
def _nesting_of(fn: SourceFunction) -> Iterator[None]:
    """What nests deeper than Python goes is an error of the kernel's, also behind the frontend."""
    try:
        yield
    except RecursionError:
        node, message = too_deep(fn.tree(), fn.tree())
        location = fn.location(node)
        raise CompilationError(message, location, src=fn.source, node=node,
                               line_text=fn.line_text(location.line)) from None


def finish(lowered: Lowered, target: Target, *, check: int = 1, dump: Dump | None = None,
           inspect: Inspect | None = None) -> CodeObject:
    """Machine code for `lowered`; `check` as in `passes.manager.run_passes`.

    With 1 the IR is verified, before the passes and after them, while the compiler works.  The garbage collector rests
    until then.
    """
    with ExitStack() as resting:
        resting.enter_context(COLLECTOR_RESTS)
        return _finished(lowered, target, _Pending(check, resting.close), check, dump, inspect)


def _finished(lowered: Lowered, target: Target, pending: _Pending, check: int, dump: Dump | None,
              inspect: Inspect | None) -> CodeObject:
    module = lowered.module
    if dump is not None:
        dump("source", lowered.fn.source)
        dump("ttir", print_module(module))

    def optimised(module: Module, metadata: dict[str, Any]) -> Module:
        pending.modules = module,
        made = run_passes(module, list(target.passes(lowered.options)), check=check if check > 1 else 0,
                          dump=None if dump is None else lambda name, m: dump(f"after-{name}", print_module(m)))
        pending.modules = module, made
        metadata[MEANWHILE] = pending.do
        return made

    stages: dict[str, Stage] = {"ttir": optimised, **target.stages(lowered.options)}
    if inspect is not None:
        inspect(target, stages, lowered.options, "triton", None)
    try:
        with _nesting_of(lowered.fn):
            try:
                module, code = _staged(module, stages)
            finally:
                pending.do()
            tile_text = pending.text if pending.modules[-1:] == (module,) else print_module(module)
    except CompilationError as error:
        if error.location is None:      # the code generator speaks of the kernel as a whole
            error.location = lowered.fn.location(lowered.fn.tree())
        raise
    entry = lowered.module.entry
    code = replace(
        code, texts={"source": lowered.fn.source, "ttir": tile_text, "tile": tile_text, **code.texts},
        metadata={**code.metadata, "param_names": list(entry.param_names),
                  "warnings": [*warnings_of(lowered), *code.metadata.get("warnings", ())],
                  "written_params": sorted(lowered.written.params), "writes_anything": lowered.written.anything})
    if dump is not None:
        for name in code.texts.keys() - {"source", "ttir", "tile"}:
            dump(name, code.texts[name])
    return code


def warnings_of(lowered: Lowered) -> list[dict[str, Any]]:
    """What the frontend warned of, as the metadata of a code object has it."""
    return [{"message": message, "place": location_record(location)} for message, location in lowered.warned]


class _Pending:
    """What can be done while the compiler works: verifying `modules`, those before and after the passes, where it is
    asked to `check`, and printing the latter; `awake` is called before."""

    def __init__(self, check: int, awake: Callable[[], object]) -> None:
        self.modules: tuple[Module, ...] = ()
        self.text = ""
        self._check = check
        self._awake = awake

    def do(self) -> None:
        """Do it, once."""
        self._awake()
        if self.text or not self.modules:
            return
        if self._check == 1:
            for module, when in zip(self.modules, ("before", "after"), strict=False):
                verify_tile_ir(module, f"{when} the passes")
        self.text = print_module(self.modules[-1])


def _staged(module: Module, stages: Mapping[str, Stage]) -> tuple[Module, CodeObject]:
    """Run the stages: the last tile IR, and the code."""
    value: Any = module
    metadata: dict[str, Any] = {}
    last = ""
    for last, stage in stages.items():      # noqa: B007  (the name is for the message)
        value = stage(value, metadata)
        module = value if isinstance(value, Module) else module
    metadata.pop(MEANWHILE, None)       # of stages that have no use for it
    if not isinstance(value, CodeObject):
        raise TypeError(f"the last stage ({last}) gives a {type(value).__name__}, not a CodeObject; "
                        "put stages before it")
    return module, value


def compile_kernel(fn: SourceFunction, signature: Signature, target: Target, options: Options, *,
                   check: int = 1, dump: Dump | None = None) -> CodeObject:
    """Machine code of `fn` for one specialisation, its launch facts taken from the signature."""
    lowered = lower(fn, signature, options, check=check if check > 1 else 0)
    return finish(lowered.with_facts(signature.disjoint, signature.wide), target, check=check, dump=dump)
