"""`tilewright opt --passes=fold,cse file.ir`: run passes on a text file of IR and print what comes out.

`-` or no file reads standard input.  What is printed is valid input again, with `--facts` as comments.
Tests: tests/cli/test_opt.py.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from tilewright.analysis.alias import Alias, is_pointer
from tilewright.analysis.axis import Axis
from tilewright.analysis.effects import Effects
from tilewright.analysis.ranges import Ranges
from tilewright.diagnostics import InternalError
from tilewright.ir.node import Function, Module, Value
from tilewright.ir.parse import parse_module
from tilewright.ir.scan import ParseError
from tilewright.ir.text import op_lines, print_module, value_names
from tilewright.ir.verify import verify
from tilewright.passes import PASSES, STANDARD, Pass, run_passes, standard
from tilewright.passes.manager import Timing

LISTS: Mapping[str, tuple[Pass, ...]] = {"standard": STANDARD, "standard_fused": standard(enable_fp_fusion=True)}


def main(arguments: Sequence[str]) -> int:
    """Run the command; its exit status: 1 if the text is no IR or breaks a rule."""
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.stop_after is not None and given.stop_after not in {p.name for p in given.passes}:
        parser.error(f"--stop-after {given.stop_after}: no such pass among those of --passes")
    name = "<stdin>" if given.file == "-" else given.file
    try:
        text = sys.stdin.read() if given.file == "-" else Path(given.file).read_text(encoding="utf-8")
    except OSError as error:
        parser.error(f"cannot read {given.file}: {error.strerror}")
    try:
        _run(text, name, given)
    except (ParseError, InternalError) as error:
        print(f"tilewright opt: {error}", file=sys.stderr)
        return 1
    return 0


def _run(text: str, name: str, given: argparse.Namespace) -> None:
    module = parse_module(text, name)
    if given.verify:
        verify(module)
    timings: list[Timing] = []

    def show(pass_name: str, after: Module) -> None:
        if given.print_after_all or pass_name in given.print_after:
            print(f"// after {pass_name}\n{print_module(after, given.locations)}")

    module = run_passes(module, given.passes, check=2 if given.verify else 0, dump=show,
                        stop_after=given.stop_after, timings=timings)
    if given.facts is not None:
        print("\n".join(fact_lines(module, given.facts)))
    elif not given.print_after_all:
        sys.stdout.write(print_module(module, given.locations))
    if given.timing:
        for timing in timings:
            print(f"{timing.seconds * 1e3:9.3f} ms  {timing.name}{'' if timing.changed else '  (no change)'}",
                  file=sys.stderr)


def _pass_list(text: str) -> list[Pass]:
    """The passes of `name,name,...`; the names of lists stand for all of theirs."""
    passes: list[Pass] = []
    for name in filter(None, (n.strip() for n in text.split(","))):
        if name in LISTS:
            passes += LISTS[name]
        elif name in PASSES:
            passes.append(PASSES[name])
        else:
            raise argparse.ArgumentTypeError(f"no pass is called {name!r}; there are {', '.join([*PASSES, *LISTS])}")
    return passes


def _axis(module: Module, function: Function) -> Callable[[Value], str | None]:
    axis = Axis(module, function)
    return lambda value: str(axis.fact(value)) if axis.relevant(value) else None


def _ranges(module: Module, function: Function) -> Callable[[Value], str | None]:
    ranges = Ranges(function, module.most_programs)
    return lambda value: str(ranges.fact(value)) if ranges.relevant(value) else None


def _alias(module: Module, function: Function) -> Callable[[Value], str | None]:
    alias, names = Alias(module, function), value_names(function)

    def describe(value: Value) -> str | None:
        bases = alias.bases(value)
        if not is_pointer(value):
            return None
        if bases is None:
            return "based on anything"
        return "based on " + ", ".join(f"%{names[p]}" for p in function.params if p in bases)

    return describe


_FACTS: Mapping[str, Callable[[Module, Function], Callable[[Value], str | None]]] = {
    "axis": _axis, "ranges": _ranges, "alias": _alias}


def fact_lines(module: Module, analysis: str) -> Iterator[str]:
    """What an analysis finds of parameters, block arguments and results, a line each; `effects`: of ops."""
    effects = Effects(module)
    for function in module.functions.values():
        yield f"// @{function.name}"
        if analysis == "effects":
            for op, line in op_lines(function):
                name = effects.of(op).name
                yield f"{line} // {name.lower().replace('|', ', ') if effects.of(op) and name else 'none'}"
            continue
        describe = _FACTS[analysis](module, function)
        for value, name in value_names(function).items():
            fact = describe(value)
            if fact is not None:
                yield f"// %{name}: {value.type}: {fact}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tilewright opt", description="Run passes on a text file of tile IR and print what comes out.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join(["passes:", *(f"  {p.name:<14} {p.why}" for p in PASSES.values()),
                          *(f"  {name:<14} {', '.join(p.name for p in passes)}" for name, passes in LISTS.items())]))
    parser.add_argument("file", nargs="?", default="-", help="a file of IR; - is standard input")
    parser.add_argument("--passes", type=_pass_list, default=[], metavar="NAME,...", help="passes to run, in order")
    parser.add_argument("--verify", action="store_true", help="verify before the first and after each pass")
    parser.add_argument("--stop-after", metavar="PASS", help="stop after the first pass of this name")
    parser.add_argument("--print-after-all", action="store_true", help="print the module after each pass")
    parser.add_argument("--print-after", action="append", default=[], metavar="PASS", choices=sorted(PASSES),
                        help="print the module after this pass as well")
    parser.add_argument("--facts", choices=[*_FACTS, "effects"], help="print what an analysis finds, not the module")
    parser.add_argument("--locations", action="store_true", help="print where ops come from")
    parser.add_argument("--timing", action="store_true", help="say how long each pass took")
    return parser
