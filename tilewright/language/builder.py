"""The interface between the meaning of the language and what is done with it.

Every `tl.*` name is written once, against `Builder`.  The graph builder (`frontend`) records IR, the eager builder
(`interpret.eager`) computes at once.  A `Handle` is the builder's own: an IR value there, an array with its type here;
the language layer never looks into one.  Tests: tests/lang/recorder.py has a small third builder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from tilewright.diagnostics import Location
from tilewright.ir.node import Block
from tilewright.ir.types import Type
from tilewright.language.options import Options

Handle = Any


class Builder(Protocol):
    """What the language layer asks of an engine."""

    options: Options
    location: Location          # where the user is; kept current by the owner of the builder

    def emit(self, name: str, operands: Sequence[Handle] = (), attrs: Mapping[str, Any] | None = None,
             regions: Sequence[Block] = ()) -> tuple[Handle, ...]:
        """Do the op `name` of `ir.ops.TABLE`; operands have exactly the types that its row asks for."""
        ...

    def type_of(self, handle: Handle) -> Type:
        """The IR type of a handle."""
        ...

    def region(self, arg_types: Sequence[Type], body: Callable[..., Sequence[Handle]],
               terminator: str = "yield") -> Block:
        """A region with arguments of `arg_types`; `body` gets handles of `region_builder()` and returns results."""
        ...

    def region_builder(self) -> Builder:
        """The builder to use inside `region`'s body: self in a graph builder, a recording one in the eager engine."""
        ...

    def call_function(self, fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call another jit function with language values."""
        ...

    def warn(self, message: str) -> None:
        """Tell the user of something doubtful at the current location."""
        ...

    def tell(self, say: Callable[[], None]) -> None:
        """Call `say`, which shows the user something: now, or when it is certain that this place is compiled."""
        ...

    def values(self, handle: Handle, type: Any) -> np.ndarray[Any, Any] | None:
        """The numbers of a tensor of this language type, decoded; None in a builder that does not know them."""
        ...
