"""What a compiled kernel depends on beside its arguments: functions, and the values of outside names that they read.

`dependencies(fn)` follows the names that the function reads from its module and closure, attributes of modules among
them, and goes on in every jit function that it finds.  It is syntactic, so it may name more than one specialisation
really read.  `hold` asks whether every name is still bound to the same object; the launcher asks it before each reuse
of a compiled kernel.  Names of the language and of `math` are taken to be constant.
Tests: tests/frontend/test_dependencies.py.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tilewright.diagnostics import SourceNotFoundError
from tilewright.frontend.liveness import assigned_names
from tilewright.language.constexpr import constexpr
from tilewright.language.function import ConstexprFunction, SourceFunction

_MISSING = object()
_CONSTANT_MODULES = ("tilewright", "triton", "math", "builtins")


@dataclass(frozen=True, slots=True, eq=False)
class Read:
    """An outside name that `function` reads, and its value; `name` is dotted for an attribute of a module."""

    function: str
    name: str
    value: Any


@dataclass(slots=True, eq=False)
class Dependencies:
    """See the module's docstring.  `functions` begins with the function itself."""

    functions: tuple[SourceFunction, ...]
    reads: tuple[Read, ...]
    _bound: tuple[tuple[Mapping[str, Any], str, Any], ...] = ()
    _cells: tuple[tuple[types.CellType, Any], ...] = ()
    python: frozenset[types.FunctionType] = frozenset()     # functions that run at compile time, of which all is told

    def hold(self) -> bool:
        """Whether every name that was read is still bound to the same object."""
        for names, name, value in self._bound:
            if names.get(name, _MISSING) is not value:
                return False
        return all(_contents(cell) is value for cell, value in self._cells)

    def bound_names(self) -> Sequence[tuple[Mapping[str, Any], str, Any]]:
        """What `hold` compares: namespace, name, value."""
        return self._bound

    def bound_cells(self) -> Sequence[tuple[types.CellType, int]]:
        """What `hold` compares: closure cell, and the `id` of its content or 0 if it had none."""
        return [(cell, 0 if value is _MISSING else id(value)) for cell, value in self._cells]


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _MISSING


def dependencies(fn: SourceFunction, values: Iterable[Any] = ()) -> Dependencies:
    """What `fn` depends on; `values` may hold further functions, e.g. constexpr arguments."""
    search = _Search()
    search.follow(fn)
    for value in values:
        search.found(value)
    while search.waiting:
        search.visit(search.waiting.pop())
    return Dependencies(tuple(search.functions), tuple(search.reads),
                        tuple((names, name, value) for (_, name), (names, value) in search.bound.items()),
                        tuple(search.cells.values()), frozenset(search.python))


@dataclass(slots=True)
class _Search:
    functions: dict[SourceFunction, None] = field(default_factory=dict)
    reads: list[Read] = field(default_factory=list)
    bound: dict[tuple[int, str], tuple[Mapping[str, Any], Any]] = field(default_factory=dict)
    cells: dict[int, tuple[types.CellType, Any]] = field(default_factory=dict)
    waiting: list[SourceFunction] = field(default_factory=list)
    python: set[types.FunctionType] = field(default_factory=set)

    def follow(self, fn: SourceFunction) -> None:
        if fn not in self.functions:
            self.functions[fn] = None
            self.waiting.append(fn)

    def found(self, value: Any) -> None:
        """Go on in what was found behind a name."""
        if isinstance(value, SourceFunction):
            self.follow(value)
        elif isinstance(value, ConstexprFunction) and isinstance(value.fn, types.FunctionType):
            self._python_function(value.fn)
        elif isinstance(value, constexpr) and isinstance(value.value, types.FunctionType):
            self._python_function(value.value)
        elif isinstance(value, types.FunctionType):
            if _package(value) in {_package(f.fn) for f in self.functions}:     # the program's own, not a library's
                self._python_function(value)
        elif isinstance(value, types.MethodType):
            self.found(value.__func__)

    def visit(self, fn: SourceFunction) -> None:
        try:
            tree = fn.tree()
        except SourceNotFoundError:     # it is an error when it is compiled, not here
            return
        own = assigned_names(tree.body) | {p.name for p in fn.params}
        for path in _paths(tree.body):
            if path[0] not in own:
                self._read(fn.__name__, fn.fn, path)

    def _python_function(self, fn: types.FunctionType) -> None:
        """A function that runs at compile time: the global names in its code, and so on in what it calls."""
        if fn in self.python or _is_constant(fn.__module__):
            return
        self.python.add(fn)
        for name in (*fn.__code__.co_names, *fn.__code__.co_freevars):
            self._read(fn.__name__, fn, (name,))

    def _read(self, function: str, fn: types.FunctionType, path: tuple[str, ...]) -> None:
        value = self._bind_root(fn, path[0])
        if value is _MISSING:
            return
        used = 1
        while used < len(path) and isinstance(value, types.ModuleType) and not _is_constant(value.__name__):
            names = vars(value)
            if path[used] not in names:
                break
            value = names[path[used]]
            self.bound[id(names), path[used]] = (names, value)
            used += 1
        if not isinstance(value, types.ModuleType):
            self.reads.append(Read(function, ".".join(path[:used]), value))
        self.found(value)

    def _bind_root(self, fn: types.FunctionType, name: str) -> Any:
        if name in fn.__code__.co_freevars and fn.__closure__ is not None:
            cell = fn.__closure__[fn.__code__.co_freevars.index(name)]
            value = _contents(cell)
            self.cells[id(cell)] = (cell, value)
            return value
        if name not in fn.__globals__:
            return _MISSING
        value = fn.__globals__[name]
        self.bound[id(fn.__globals__), name] = (fn.__globals__, value)
        return value


def _package(fn: types.FunctionType) -> str:
    return (fn.__module__ or "").partition(".")[0]


def _is_constant(module: str | None) -> bool:
    return (module or "").partition(".")[0] in _CONSTANT_MODULES


def _paths(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, ...]]:
    """Names read in `nodes` with the attributes that follow them: `a.b.c` is ("a", "b", "c")."""
    seen: dict[tuple[str, ...], None] = {}
    for top in nodes:
        for node in ast.walk(top):
            attributes: list[str] = []
            while isinstance(node, ast.Attribute):
                attributes.append(node.attr)
                node = node.value
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                seen[(node.id, *reversed(attributes))] = None
    return iter(seen)
