"""Names of the language that this version does not have yet.

Each is a builtin, so that importing and decorating work, and that raises on use, naming itself; the frontend shows
the line.  Implementing a name means to delete it here.  Tests: tests/lang/test_surface.py.
"""

from __future__ import annotations

from typing import Any

from tilewright.language.builder import Builder
from tilewright.language.builtin import Builtin, tensor_member
from tilewright.language.errors import NotYetImplementedError

# name: what can be done meanwhile ("" if nothing)
_NAMES: dict[str, str] = {
    "atomic_poll": "", "expect_zero": "",
}
_METHODS = ("atomic_poll",)


def pending(name: str, cure: str = "") -> Builtin:
    """A builtin that says on use that `tl.{name}` is not there yet."""
    def meaning(*args: Any, _builder: Builder, **kwargs: Any) -> Any:
        raise NotYetImplementedError(f"tl.{name} is not implemented yet by this version{'; ' + cure if cure else ''}")

    meaning.__name__ = meaning.__qualname__ = name
    meaning.__doc__ = "Not implemented yet: raises NotImplementedError when it is used in a kernel."
    return Builtin(meaning)


PENDING: dict[str, Builtin] = {name: pending(name, cure) for name, cure in _NAMES.items()}
for _method in _METHODS:
    tensor_member(PENDING[_method])
