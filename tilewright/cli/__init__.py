"""The `tilewright` command: finds the subcommand and hands the rest of the line to it.

Each subcommand is a module of this package with `main(arguments) -> exit status`.  Tests: tests/cli/.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Command:
    """A subcommand: what it is for, and the function that runs it."""

    purpose: str
    main: Callable[[Sequence[str]], int]


COMMANDS: Mapping[str, Command] = {
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `tilewright ARGUMENTS...`; the exit status."""
    parser = _parser()
    given = parser.parse_args(sys.argv[1:] if arguments is None else arguments)
    if given.command is None:
        parser.print_help()
        return 2
    return COMMANDS[given.command].main(given.rest)


def _parser() -> argparse.ArgumentParser:
    width = max((len(name) for name in COMMANDS), default=0)
    lines = [f"  {name:<{width}}  {command.purpose}" for name, command in COMMANDS.items()]
    parser = argparse.ArgumentParser(
        prog="tilewright", description="Kernels on tiles: run and look at them.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join(["commands:", *lines, "", "tilewright COMMAND --help says more."]))
    parser.add_argument("--version", action="version", version=f"tilewright {importlib.metadata.version('tilewright')}")
    parser.add_argument("command", nargs="?", metavar="COMMAND", choices=list(COMMANDS), help="one of those below")
    parser.add_argument("rest", nargs=argparse.REMAINDER, metavar="...", help="arguments of the command")
    return parser
