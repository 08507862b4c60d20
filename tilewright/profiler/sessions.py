"""Profiles of the launches of a process: which session takes which launch, under which scopes.

A session is a tree of frames (`tree.py`).  While one is active, a hook around launches adds each to the frame of its
kernel's name, inside of the frames of the scopes that are entered; with `hook="triton"` what the kernel's
`launch_metadata` tells (a name, operations, bytes) is added too.  A scope in which nothing was launched through
Tilewright, such as one around a product of torch's, has the time that passes in it.  Scopes are those of the process:
entered on one thread, they hold for launches on all.  Semantics of triton's proton 3.6, but for times on a GPU
(`clock.py`) and for kernels that others launch, which only such a scope sees.  Tests: tests/profiler/.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tilewright.profiler import clock
from tilewright.profiler.tree import COUNT, TIME, Node, write
from tilewright.runtime.hooks import HOOKS

DEFAULT_PROFILE_NAME = "proton"
_MOST_PENDING = 4096        # intervals on a GPU that are not read yet


@dataclass
class Session:
    """A profile that is being made; `path` is its file without the suffix."""

    path: str
    with_metadata: bool
    active: bool = True
    root: Node = field(default_factory=lambda: Node("ROOT"))
    pending: list[tuple[Node, Any, Any]] = field(default_factory=list)

    def took(self, node: Node, start: Any, end: Any) -> None:
        """Something in `node` took from `start` to `end`."""
        node.add({COUNT: 1})
        self.pending.append((node, start, end))
        if len(self.pending) >= _MOST_PENDING:
            self.read_clock()

    def read_clock(self) -> None:
        """Add what is pending to the sums."""
        for node, start, end in self.pending:
            node.add({TIME: clock.nanoseconds(start, end)})
        self.pending.clear()


@dataclass
class Entered:
    """A scope that has not ended: the launches before it, and when it began."""

    name: str
    start: Any
    launches: int


class Profiler:
    """The sessions of this process, and the scopes."""

    def __init__(self) -> None:
        self.sessions: dict[int, Session] = {}
        self.scopes: list[Entered] = []
        self._next = 0
        self._launches = 0
        self._under_way: dict[int, tuple[list[tuple[Session, Node]], Any, bool]] = {}

    # -- sessions

    def start(self, path: str, with_metadata: bool) -> int:
        """A new session, which is active; its number."""
        number, self._next = self._next, self._next + 1
        self.sessions[number] = Session(path, with_metadata)
        self._watch()
        return number

    def set_active(self, number: int | None, active: bool) -> None:
        """Let a session, or all, take launches or not."""
        for session in self._of(number).values():
            session.active = active
        self._watch()

    def finish(self, number: int | None) -> None:
        """End a session, or all, and write the files."""
        for key, session in self._of(number).items():
            session.read_clock()
            write(session.root, Path(f"{session.path}.hatchet"))
            del self.sessions[key]
        self._watch()

    def _of(self, number: int | None) -> dict[int, Session]:
        if number is None:
            return dict(self.sessions)
        if number not in self.sessions:
            raise ValueError(f"there is no session {number}; there are {sorted(self.sessions) or 'none'}")
        return {number: self.sessions[number]}

    def _active(self) -> Iterator[Session]:
        return (session for session in self.sessions.values() if session.active)

    def _watch(self) -> None:
        """Have launches told while somebody wants them, which slows them."""
        watching = any(self._active())
        for name, hook in (("launch_enter_hook", self._enter), ("launch_exit_hook", self._leave)):
            chain = HOOKS.get(name)
            (chain.add if watching else chain.remove)(hook)

    # -- launches

    def _enter(self, told: Any) -> None:
        plain: Mapping[str, Any] = dict(told.data)
        full: Mapping[str, Any] = plain
        if any(session.with_metadata for session in self._active()):
            full = told.get()
        nodes = []
        for session in self._active():
            data = full if session.with_metadata else plain
            node = session.root.at([*(entered.name for entered in self.scopes), str(data["name"])])
            node.add({name: value for name, value in data.items() if _is_number(value)})
            nodes.append((session, node))
        on_gpu = plain["function"].metadata.backend_name == "cuda"
        self._under_way[id(told)] = nodes, clock.now(on_gpu), on_gpu

    def _leave(self, told: Any) -> None:
        nodes, start, on_gpu = self._under_way.pop(id(told), ((), None, False))
        self._launches += 1
        end = clock.now(on_gpu) if nodes else None
        for session, node in nodes:
            session.took(node, start, end)

    # -- scopes

    def enter(self, name: str) -> None:
        """What follows is inside of a frame `name`."""
        wanted = any(self._active())
        self.scopes.append(Entered(name, clock.now(clock.works_on_gpu()) if wanted else None, self._launches))

    def leave(self, metrics: Mapping[str, float]) -> None:
        """The innermost scope ends, and `metrics` are added to its frame."""
        if not self.scopes:
            raise RuntimeError("no scope is entered")
        entered = self.scopes[-1]
        path = [scope.name for scope in self.scopes]
        for session in self._active():
            node = session.root.at(path)
            node.add(metrics)
            if entered.start is not None and entered.launches == self._launches:
                session.took(node, entered.start, clock.now(not isinstance(entered.start, int)))
        self.scopes.pop()


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


PROFILER = Profiler()       # launches are the process's


def depth(session: int | None = 0) -> int:
    """How many scopes are entered."""
    return len(PROFILER.scopes)
