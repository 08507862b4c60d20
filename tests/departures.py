"""`@differs`: marks the tests that pin where Tilewright departs from triton on purpose.

    @differs("A masked lane without `other` is zero", topic="Memory",
             peer="It is undefined.", ours="It is zero on every engine.")
    def test_masked_lanes_are_zero(launch): ...

`docs/differences.md` is made from these marks (`tools/differences_page.py`).  The first mark of a title says all; more
tests of the same departure name the title only.  `peer` speaks of triton 3.6 and 3.9 alike if it names no release.
Tests: tests/test_differences.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T", bound=Callable[..., object])

TOPICS = ("Memory", "Numbers", "Shapes", "Control flow", "Compile-time values", "Names and signatures",
          "Launching and tuning", "Errors and debugging")


def differs(title: str, *, topic: str = "", peer: str = "", ours: str = "") -> Callable[[T], T]:
    """The decorator; it changes nothing."""
    if bool(topic) != bool(peer) or bool(peer) != bool(ours):
        raise TypeError(f"{title}: topic, peer and ours go together")
    if topic and topic not in TOPICS:
        raise ValueError(f"{title}: no topic is called {topic!r}; there are {', '.join(TOPICS)}")
    return lambda test: test
