"""`tilewright knobs`: what the environment sets, and what each setting means.

`--page` prints docs/knobs.md.  Tests: tests/cli/test_knobs.py.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tilewright.runtime.knobs import TABLE, Knob, read, tell_of_unknown_variables

_HEAD = """\
# Knobs

Settings of a process, read from the environment. Where a knob has two variables, the first one wins.
The values of bool knobs are 1, true, on, yes or 0, false, off, no; numbers are 0 or more. A variable that begins with
`TILEWRIGHT_` and is none of these is a warning, once a process.

A kernel sees the environment as it was when it was decorated. `tilewright.knobs.scope(name=value)` overrides knobs in
a `with` block, for launches inside it, in this thread; `tilewright.knobs.name` is what counts now. It can be read,
assigned (for this thread, until the `scope()` around it ends) and deleted. Where triton has a name for a knob
(`triton.knobs.runtime.debug`), `tilewright.knobs` has it too.

This page is made from the table in `tilewright/runtime/knobs.py`: `tilewright knobs --page > docs/knobs.md`.
"""


def main(arguments: Sequence[str]) -> int:
    """Print the knobs; the exit status."""
    parser = argparse.ArgumentParser(prog="tilewright knobs",
                                     description="Show the settings of the environment and what they mean.")
    parser.add_argument("--page", action="store_true", help="print the page of the documentation")
    if parser.parse_args(arguments).page:
        sys.stdout.write(page())
        return 0
    tell_of_unknown_variables()
    for knob in TABLE.values():
        value = read(knob.name)
        mark = "*" if value != knob.default else " "
        sys.stdout.write(f"{mark} {knob.name} = {_shown(value)}\n    {', '.join(knob.variables)}: {knob.doc}\n")
    sys.stdout.write("(* is not the default)\n")
    return 0


def page() -> str:
    """docs/knobs.md."""
    return "\n".join([_HEAD, *(section(knob) for knob in TABLE.values())])


def section(knob: Knob) -> str:
    """What the page says of a knob."""
    facts = [f"{knob.kind.__name__}, {_shown(knob.default)} by default"]
    if knob.affects_code:
        facts.append("changes generated code")
    if knob.triton:
        facts.append(f"`knobs.{knob.triton}`")
    variables = ", ".join(f"`{variable}`" for variable in knob.variables)
    return f"## {knob.name}\n\n{variables} ({'; '.join(facts)})\n\n{knob.doc}\n"


def _shown(value: object) -> str:
    return repr(value) if isinstance(value, str) else str(value)
