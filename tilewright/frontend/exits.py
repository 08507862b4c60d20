"""How control may leave a stretch of statements: by its end, or by `return`, `break`, `continue`.

IR has no jumps, so exits are flags.  While a function is traced, `Exits` says for the block traced so far whether its
end can be reached (`falls`) and which exits may have been taken: always (True), or when an i1 value holds.  At most
one flag holds at run time.  The rules, in `branches.py` and `loops.py`:

* `if c: return a` followed by `rest`: only one side goes on, so `rest` is traced inside the other side.
* Where both sides may go on and an exit is pending, what follows is put under `if not flag`.
* `continue` ends at the end of the loop's body, `break` and `return` end the loop: a `for` that has one becomes a
  `while` that carries the flag, and the returned value (zero until it is known).

Tests: tests/frontend/test_control_flow.py, tests/frontend/test_structure.py.
"""

from __future__ import annotations

import ast
import enum
from dataclasses import dataclass, field
from typing import Any, Literal

from tilewright.ir.node import Value


class Exit(enum.Enum):
    """A way out other than by the end."""

    RETURN = "return"
    BREAK = "break"
    CONTINUE = "continue"


Flag = Literal[True] | Value


@dataclass(slots=True)
class Exits:
    """See the module's docstring.  `value` is what RETURN returns, by the statement `where`.

    `unset` names the variables that have no value where an exit was taken although they have one at the end.
    """

    falls: bool = True
    flags: dict[Exit, Flag] = field(default_factory=dict)
    value: Any = None
    where: ast.AST | None = None
    unset: dict[Exit, set[str]] = field(default_factory=dict)

    def take(self, kind: Exit, value: Any = None, where: ast.AST | None = None) -> None:
        """The exit `kind` is taken here, unconditionally."""
        self.falls = False
        self.flags[kind] = True
        if kind is Exit.RETURN:
            self.value, self.where = value, where

    @property
    def reaches_variables(self) -> bool:
        """Whether some way on, other than `return`, leads to code that may read variables."""
        return self.falls or Exit.BREAK in self.flags or Exit.CONTINUE in self.flags

    @property
    def pending(self) -> list[Value]:
        """The flags of exits that may or may not have been taken."""
        return [f for f in self.flags.values() if f is not True]

    def end(self, kind: Exit) -> set[str]:
        """The place where `kind` leads is here: forget its flag; returns the variables that it leaves unset."""
        if self.flags.pop(kind, None) is not None:
            self.falls = True
        return self.unset.pop(kind, set())
