"""The `tilewright` command: finds the subcommand and hands the rest of the line to it.

Each subcommand is a module of this package with `main(arguments) -> exit status`.  Tests: tests/cli/.
"""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tilewright.cli import cache, knobs, opt, run
from tilewright.version import VERSION


@dataclass(frozen=True, slots=True)
class Command:
    """A subcommand: what it is for, and the function that runs it."""

    purpose: str
    main: Callable[[Sequence[str]], int]


COMMANDS: Mapping[str, Command] = {
    "cache": Command("look at the compiled kernels on disk, ask why one was compiled again, remove them", cache.main),
    "knobs": Command("show the settings of the environment and what they mean", knobs.main),
    "opt": Command("run passes on a text file of tile IR", opt.main),
    "run": Command("run a program that says `import triton`, unchanged", run.main),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `tilewright ARGUMENTS...`; the exit status."""
    parser = _parser()
    given = parser.parse_args(sys.argv[1:] if arguments is None else arguments)
    if given.command is None:
        parser.print_help()
        return 2
    if given.command not in COMMANDS:
        near = difflib.get_close_matches(given.command, COMMANDS, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(COMMANDS)}"
        if given.command.endswith(".py"):
            hint = f"to run a script: tilewright run {given.command}"
        parser.error(f"no command {given.command!r}; {hint}")
    try:
        return COMMANDS[given.command].main(given.rest)
    except BrokenPipeError:
        if given.command == "run":      # the program's own
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())     # what Python flushes at its end
        return 1


def _parser() -> argparse.ArgumentParser:
    width = max((len(name) for name in COMMANDS), default=0)
    lines = [f"  {name:<{width}}  {command.purpose}" for name, command in COMMANDS.items()]
    parser = argparse.ArgumentParser(
        prog="tilewright", description="Kernels on tiles: run and look at them.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join(["commands:", *lines, "", "tilewright COMMAND --help says more."]))
    parser.add_argument("--version", action="version", version=f"tilewright {VERSION}")
    parser.add_argument("command", nargs="?", metavar="COMMAND", help="one of those below")
    parser.add_argument("rest", nargs=argparse.REMAINDER, metavar="...", help="arguments of the command")
    return parser
