"""One specialisation of a kernel on its way to machine code: found in the disk cache, or compiled and put there.

A `Build` knows what the kernel writes (which decides the launch facts) and the code for each combination of facts.
Both come from the cache where it has them, and then neither the compiler nor LLVM is loaded.
What is stored is relative to the functions' `def`, since they may move within their files (`relocate`).
Tests: tests/runtime/test_build.py.
"""

from __future__ import annotations

import itertools
import marshal
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.analysis.written import Written
from tilewright.computed import computed
from tilewright.diagnostics import FewerStagesWarning, SingleCtaWarning, TritonError, recorded_location
from tilewright.frontend.dependencies import Dependencies
from tilewright.language.function import SourceFunction
from tilewright.language.options import Options, Signature
from tilewright.locks import NO_FORK
from tilewright.runtime.cache import Store
from tilewright.runtime.compile_times import Clock, CompileTimes, tell
from tilewright.runtime.hooks import HOOKS, Inspection
from tilewright.runtime.key import Part, UncacheableError, kernel_parts, key_text
from tilewright.targets.base import CodeObject, Stage, Target

if TYPE_CHECKING:
    from tilewright.lowering import Dump, Lowered

_LINES = ("line", "end_line")
_COLUMNS = ("column", "end_column")
_CATEGORIES = {c.__name__: c for c in (FewerStagesWarning, SingleCtaWarning)}      # of targets' warnings
_PLACE = frozenset(("file", *_LINES, *_COLUMNS))


class Build:
    """See the module's docstring.  `reads` False compiles even what is stored; `compiler` is its text for the key."""

    def __init__(self, fn: SourceFunction, signature: Signature, options: Options, guards: Dependencies,
                 target: Target, store: Store, compiler: Callable[[], str], *, reads: bool = True,
                 check: int = 1, inspection: Inspection | None = None) -> None:
        self.fn = fn
        self.signature = signature
        self.options = options
        self.guards = guards
        self.target = target
        self._store = store
        self._compiler = compiler
        self._reads = reads
        self._check = check
        self._inspection = inspection
        self._lowering = 0      # microseconds that `lowered` took
        self._warned = False    # whether the frontend's warnings were given

    @computed
    def parts(self) -> list[Part]:
        """What the code depends on, the launch facts left out; none if the kernel cannot be stored."""
        inspection = self._inspection
        if self._store.folder is None or (inspection is not None and inspection.key is None):
            return []
        try:
            return [*kernel_parts(self.guards, self.signature, self.options),
                    *([] if inspection is None else [Part("inspection of stages", str(inspection.key))]),
                    Part("compiler", self._compiler()), Part("target", self.target.key())]
        except (UncacheableError, TritonError):      # a missing source is said by the frontend
            return []

    @computed
    def lowered(self) -> Lowered:
        """The tile IR; makes it now."""
        with NO_FORK:
            self.target.prepare()      # starts while the compiler is loaded and the frontend works
            from tilewright.lowering import lower
            self.target.import_compiler()
        clock, self._warned = Clock(), True
        made = lower(self.fn, self.signature, self.options, check=self._check if self._check > 1 else 0)
        self._lowering = clock.mark()
        return made

    @computed
    def written(self) -> Written:
        """What the kernel writes."""
        fields = self._stored(self.parts)
        if fields is not None:
            return Written(frozenset(marshal.loads(fields["params"])), fields["anything"] == b"True")
        written = self.lowered.written
        self._keep(self.parts, {"params": marshal.dumps(sorted(written.params)),
                                "anything": repr(written.anything).encode()})
        return written

    def code(self, disjoint: bool, wide: bool, dump: Dump | None = None) -> CodeObject:
        """Machine code under these launch facts.  With `dump` it is compiled, since stages are wanted."""
        parts = [*self.parts, Part("launch facts", f"disjoint={disjoint} wide={wide}")] if self.parts else []
        fields = self._stored(parts) if dump is None else None
        listener = HOOKS.get("compilation_listener")
        if fields is not None:
            code = decode_code(fields, self.guards.functions)
            self._warn_again(code.metadata["warnings"])
            if listener is not None:
                tell(listener, self.fn, self.signature, self.options, code, CompileTimes(0, [], 0), True)
            return code
        lowered, clock = self.lowered.with_facts(disjoint, wide), Clock()
        spent: list[tuple[str, int]] = []

        def inspect(target: Target, stages: dict[str, Stage], *rest: Any) -> None:
            if self._inspection is not None:
                self._inspection.hook(target, stages, *rest)
            clock.timed(stages, spent)

        with NO_FORK:
            from tilewright.lowering import finish
        code = finish(lowered, self.target, check=self._check, dump=dump, inspect=inspect)
        clock.mark()
        self._keep(parts, {**encode_code(code, self.guards.functions), "made": b"%d" % time.time_ns()})
        if listener is not None:
            times = CompileTimes(self._lowering, spent, clock.mark())
            tell(listener, self.fn, self.signature, self.options, code, times, False)
        return code

    def _warn_again(self, given: Sequence[Mapping[str, Any]]) -> None:
        """Give the warnings of a compilation that another process did: once, as a compilation here would."""
        for warning in given:
            place = recorded_location(warning.get("place"))
            if place is None:
                warnings.warn(warning["message"], _CATEGORIES[warning["category"]], stacklevel=2)
            elif not self._warned:
                warnings.warn_explicit(warning["message"], UserWarning, place.file, place.line)
        self._warned = True

    def _stored(self, parts: Sequence[Part]) -> Mapping[str, bytes] | None:
        if not parts or not self._reads:
            return None
        return self._store.get(self.fn.__name__, key_text(parts))

    def _keep(self, parts: Sequence[Part], fields: Mapping[str, bytes]) -> None:
        if parts:
            self._store.put(self.fn.__name__, key_text(parts), fields)


def stage_writer(kernel: str, settings: Mapping[str, Any]) -> Dump | None:
    """A writer of stages under the directory of the knob `dump_dir`, when the knob `dump` is on."""
    if not settings["dump"]:
        return None
    folder = Path(settings["dump_dir"]) / kernel
    folder.mkdir(parents=True, exist_ok=True)
    count = itertools.count()

    def write(stage: str, text: str) -> None:
        (folder / f"{next(count):02}-{stage}.txt").write_text(text)

    return write


def encode_code(code: CodeObject, functions: Sequence[SourceFunction]) -> dict[str, bytes]:
    """A code object as the fields of a record."""
    metadata = map_places(dict(code.metadata), lambda place: _relative(place, functions))
    return {"target": code.target.encode(), "name": code.name.encode(), "binary": code.binary,
            "metadata": marshal.dumps(metadata),
            **{f"text {name}": text.encode("utf-8", "surrogatepass") for name, text in code.texts.items()}}


def decode_code(fields: Mapping[str, bytes], functions: Sequence[SourceFunction]) -> CodeObject:
    """The opposite of `encode_code`, with the places where `functions` are now."""
    metadata = marshal.loads(fields["metadata"])        # plain data; a record is of this version of Python
    texts = {name.removeprefix("text "): value.decode("utf-8", "surrogatepass")
             for name, value in fields.items() if name.startswith("text ")}
    return CodeObject(fields["target"].decode(), fields["name"].decode(), fields["binary"], texts,
                      map_places(metadata, lambda place: _absolute(place, functions)))


def map_places(data: Any, change: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> Any:
    """Plain data (dicts, lists, tuples) with `change` applied to every record of a place in a file."""
    if isinstance(data, dict):
        if "file" in data and data.keys() >= _PLACE:
            data = change(data)
        return {key: map_places(value, change) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [map_places(item, change) for item in data]
    return data


def _relative(place: Mapping[str, Any], functions: Sequence[SourceFunction]) -> Mapping[str, Any]:
    """A place with lines and columns counted from its function's `def`, and that function's number for the file."""
    for number, fn in enumerate(functions):
        tree = fn.tree()
        if place["file"] == fn.file and tree.lineno <= place["line"] <= (tree.end_lineno or tree.lineno):
            return _moved({**place, "file": number}, -tree.lineno, -tree.col_offset)
    return place


def _absolute(place: Mapping[str, Any], functions: Sequence[SourceFunction]) -> Mapping[str, Any]:
    if isinstance(place["file"], str):
        return place
    fn = functions[place["file"]]
    return _moved({**place, "file": fn.file}, fn.tree().lineno, fn.tree().col_offset)


def _moved(place: dict[str, Any], lines: int, columns: int) -> dict[str, Any]:
    return {**place, **{k: place[k] + lines for k in _LINES}, **{k: place[k] + columns for k in _COLUMNS}}
