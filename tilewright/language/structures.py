"""Values that are made of other values: block pointers, tensor descriptors.

A `structure` is a tuple of its parts, so that loops, branches and calls carry the run-time ones among them; where a
tuple with other parts is made of it (`frontend.values.as_tuple`), `rebuilt` keeps its class.  `members` are its
methods.  Tests: tests/lang/test_blocks.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from tilewright.language.tuples import tuple


class structure(tuple):
    """A tuple of parts with a meaning of its own."""

    members: ClassVar[dict[str, Any]] = {}
    part_names: ClassVar[Sequence[str]] = ()        # what follows the name of an argument in those of its parts

    @classmethod
    def rebuilt(cls, items: Sequence[Any]) -> structure:
        """The same kind of value of other parts."""
        return cls(items)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"a {type(self).__name__} has no attribute {name!r}; it has "
                             f"{', '.join(sorted(type(self).members))}")


def part_name(whole: str, kind: Any, index: int) -> str:
    """How part `index` of an argument called `whole`, of class `kind`, is called: `pair[0]`, `desc.shape`."""
    names = getattr(kind, "part_names", ())
    return f"{whole}{names[index]}" if names else f"{whole}[{index}]"
