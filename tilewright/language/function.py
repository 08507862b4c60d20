"""The source-level function: what the frontend, the runtime and the language's own library share of a `@jit` function.

A `SourceFunction` knows its parameters, the names that it can see, and its syntax tree with the *file's* true lines
and columns, whatever the function is nested in.  Decorating is cheap: neither the signature nor the source is looked
at before the first use, so a function whose source cannot be found can be defined; `SourceNotFoundError` is raised
when it is compiled.  Sources are files, notebook cells and whatever else `linecache` knows, or the text in `source=`.
Only for a function that is in no file (`python -c`, `exec`) is the text looked for at once, see `source_text`.

Tests: tests/frontend/test_function.py.
"""

from __future__ import annotations

import ast
import enum
import inspect
import linecache
import textwrap
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

from tilewright.computed import computed
from tilewright.diagnostics import Location, SourceNotFoundError, cut_own_frames
from tilewright.language.constexpr import constexpr
from tilewright.language.source_text import found_text, is_in_no_file
from tilewright.language.types import const, dtype, pointer_type
from tilewright.locks import ForkSafeLock

Name = str | int


class ParamKind(enum.Enum):
    """How arguments reach a parameter."""

    POSITIONAL_ONLY = "positional only"
    POSITIONAL = "positional or keyword"
    VARIADIC = "variadic"
    KEYWORD_ONLY = "keyword only"


_KINDS: dict[Any, ParamKind] = {
    inspect.Parameter.POSITIONAL_ONLY: ParamKind.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD: ParamKind.POSITIONAL,
    inspect.Parameter.VAR_POSITIONAL: ParamKind.VARIADIC,
    inspect.Parameter.KEYWORD_ONLY: ParamKind.KEYWORD_ONLY,
}


@dataclass(frozen=True, slots=True, eq=False)
class Param:
    """One parameter of a function; `annotation` is None where there is none, `default` is `inspect`'s `empty`."""

    name: str
    index: int
    annotation: Any = None
    default: Any = inspect.Parameter.empty
    has_default: bool = False
    is_constexpr: bool = False
    do_not_specialize: bool = False
    do_not_specialize_on_alignment: bool = False
    kind: ParamKind = ParamKind.POSITIONAL

    @property
    def num(self) -> int:
        """The index, under triton's name."""
        return self.index

    @property
    def annotation_type(self) -> str:
        """The type text that the annotation fixes (`i32`, `u1`), empty where it fixes none."""
        return str(self.annotation) if isinstance(self.annotation, dtype) else ""

    @property
    def is_const(self) -> bool:
        """Whether nothing may be stored through it: annotated as `tl.const`, as `*k...`, or as such a type."""
        if isinstance(self.annotation, str):
            text = self.annotation.strip("\"' ").rpartition("tl.")[2]
            return text.rpartition(".")[2] == "const" or text.startswith("*k")
        return self.annotation is const or (isinstance(self.annotation, pointer_type) and self.annotation.const)


def is_constexpr_class(cls: object) -> bool:
    """Whether `cls` is the language's class `constexpr` or derived from it."""
    return isinstance(cls, type) and issubclass(cls, constexpr)


def is_constexpr_annotation(annotation: object) -> bool:
    """Whether an annotation, evaluated or as text, says `constexpr`."""
    if isinstance(annotation, str):
        return annotation.strip("\"' ").rpartition(".")[2] == "constexpr"
    return is_constexpr_class(annotation)


class _Parsed(NamedTuple):
    """A definition with the file's lines, the text that it was read from, and file line minus line of that text."""

    node: ast.FunctionDef
    lines: list[str]
    shift: int


class SourceFunction:
    """A Python function that is compiled from its source.

    `source` is needed only for functions that `linecache` cannot find (made by `exec`): the text that was executed,
    or the text of the function alone.  `do_not_specialize` and `do_not_specialize_on_alignment` hold names or indices
    of parameters.
    """

    def __init__(self, fn: Callable[..., Any], *, source: str | None = None, noinline: bool = False,
                 do_not_specialize: Iterable[Name] = (), do_not_specialize_on_alignment: Iterable[Name] = ()) -> None:
        if not isinstance(fn, types.FunctionType):
            raise TypeError(f"@jit takes a Python function, not {type(fn).__name__} {fn!r}")
        if fn.__code__.co_flags & inspect.CO_VARKEYWORDS:
            raise TypeError(f"{fn.__qualname__}: a @jit function cannot take **keywords; name the parameters")
        self.fn = fn
        self.noinline = noinline
        if source is None and is_in_no_file(fn.__code__):
            source = found_text(fn.__code__)
        self.given_source = source
        self._unspecialized = frozenset(do_not_specialize)
        self._unaligned = frozenset(do_not_specialize_on_alignment)
        self.__name__ = fn.__name__
        self.__qualname__ = fn.__qualname__
        self.__module__ = fn.__module__
        self.__doc__ = fn.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            raise RuntimeError(f"Cannot call @triton.jit'd outside of the scope of a kernel: {self.__name__} is "
                               f"compiled code; launch it with {self.__name__}[grid](...), or call it from a @jit "
                               "function")
        except RuntimeError as error:
            cut_own_frames(error)
            raise

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.__module__}.{self.__qualname__}>"

    # -- what it can see ------------------------------------------------------------------------------------------

    @property
    def globals(self) -> dict[str, Any]:
        """The global names of the function's module, as they are now."""
        return self.fn.__globals__

    @property
    def closure(self) -> dict[str, Any]:
        """The values of its free variables, as they are now; names without a value are left out."""
        found: dict[str, Any] = {}
        for name, cell in zip(self.fn.__code__.co_freevars, self.fn.__closure__ or (), strict=True):
            try:
                found[name] = cell.cell_contents
            except ValueError:     # not assigned yet
                continue
        return found

    @computed
    def params(self) -> tuple[Param, ...]:
        """The parameters in order."""
        return tuple(self._param(i, p) for i, p in enumerate(inspect.signature(self.fn).parameters.values()))

    def _param(self, index: int, p: inspect.Parameter) -> Param:
        annotation = None if p.annotation is inspect.Parameter.empty else p.annotation
        if isinstance(annotation, str) and self.fn.__code__.co_flags & _FUTURE_ANNOTATIONS:
            annotation = self._evaluated(annotation)
        has_default = p.default is not inspect.Parameter.empty
        marks = {p.name, index}
        return Param(p.name, index, annotation, p.default, has_default,
                     is_constexpr_annotation(annotation), bool(marks & self._unspecialized),
                     bool(marks & self._unaligned), _KINDS[p.kind])

    def _evaluated(self, annotation: str) -> Any:
        """An annotation that `from __future__ import annotations` left as text; the text itself if it means nothing."""
        try:
            return eval(annotation, self.globals, self.closure)
        except Exception:
            return annotation

    # -- its source -----------------------------------------------------------------------------------------------

    @property
    def file(self) -> str:
        """The file's name as the code object has it."""
        return self.fn.__code__.co_filename

    @property
    def first_line(self) -> int:
        """The line of `def` in the file."""
        return self._parsed.node.lineno

    @property
    def source(self) -> str:
        """The text from `def` on, without decorators, dedented."""
        node, lines, shift = self._parsed
        margin = lines[node.lineno - 1 - shift][:node.col_offset]
        own = lines[node.lineno - 1 - shift:(node.end_lineno or node.lineno) - shift]
        return "".join(line.removeprefix(margin) for line in own)

    def tree(self) -> ast.FunctionDef:
        """The function's syntax tree with the file's lines and (byte) columns; not to be changed."""
        return self._parsed.node

    def line_text(self, line: int) -> str:
        """The text of a line of the file, as far as the function's source covers it; else empty."""
        _, lines, shift = self._parsed
        index = line - 1 - shift
        return lines[index].rstrip("\n") if 0 <= index < len(lines) else ""

    def location(self, node: ast.AST, caller: Location | None = None) -> Location:
        """Where `node`, which belongs to this function, stands in the file; columns count characters."""
        line = getattr(node, "lineno", 0)
        end_line = getattr(node, "end_lineno", None) or line
        column, end_column = getattr(node, "col_offset", 0), getattr(node, "end_col_offset", None) or 0
        return Location(self.file, line, self._in_characters(line, column), end_line,
                        self._in_characters(end_line, end_column), self.__name__, caller)

    def _in_characters(self, line: int, byte_column: int) -> int:
        if self._is_ascii:
            return byte_column
        text = self.line_text(line)
        return byte_column if text.isascii() else len(text.encode()[:byte_column].decode(errors="ignore"))

    @computed
    def _is_ascii(self) -> bool:
        return all(line.isascii() for line in self._parsed.lines)

    @computed
    def _parsed(self) -> _Parsed:
        if self.__name__ == "<lambda>":
            self._not_found("a lambda cannot be compiled", "write it as a function with `def`")
        if self.given_source is not None:
            return self._parse_given(self.given_source)
        if is_in_no_file(self.fn.__code__):
            self._not_found(f"its source is not to be found: {self.file} is no file, and no text that is at hand "
                            "compiles to it", "define it in a file or a notebook, or give the text: jit(source=...)")
        linecache.checkcache(self.file)
        lines = linecache.getlines(self.file, self.globals)
        first = self.fn.__code__.co_firstlineno
        if not lines:
            self._not_found(f"its source is not to be found: {self.file} cannot be read",
                            "define it in a file or a notebook, or give the text: jit(source=...)")
        if first > len(lines):
            self._not_found(f"{self.file} has no line {first}: it was changed after it was imported", "import it again")
        node = _definition_at(lines, first, self.fn.__name__)
        if node is None:
            self._not_found(f"line {first} of {self.file} does not define it: the file was changed after its import",
                            "import it again, or give the text: jit(source=...)")
        return _Parsed(node, lines, 0)

    def _parse_given(self, text: str) -> _Parsed:
        text = text if text[:1] not in " \t" else textwrap.dedent(text)
        try:
            module = _parsed(text)
        except SyntaxError as error:
            self._not_found(f"the text given as `source` is no Python: {error.msg} (line {error.lineno})",
                            "give the text that was executed")
        found = [n for n in ast.walk(module) if isinstance(n, ast.FunctionDef) and n.name == self.fn.__name__]
        first = self.fn.__code__.co_firstlineno
        exact = [n for n in found if first in (n.lineno, *(d.lineno for d in n.decorator_list[:1]))]
        if len(exact or found) != 1:
            self._not_found(f"the text given as `source` has {len(found)} definitions of it", "give the text of one")
        node = (exact or found)[0]
        shift = first - min([node.lineno, *(d.lineno for d in node.decorator_list)])
        return _Parsed(ast.increment_lineno(node, shift), text.splitlines(keepends=True), shift)

    def _not_found(self, what: str, cure: str) -> NoReturn:
        code = self.fn.__code__
        text = linecache.getline(code.co_filename, code.co_firstlineno)
        raise SourceNotFoundError(f"cannot compile {self.__name__}: {what}; {cure}",
                                  Location(code.co_filename, code.co_firstlineno, len(text) - len(text.lstrip()),
                                           function=self.__name__))


_PARSING = ForkSafeLock()


def _parsed(text: str) -> ast.Module:
    """The syntax tree of `text`.

    One thread at a time: CPython up to 3.11 counts the depth of trees for all threads together, and raises SystemError
    where two of them are at it (CPython's issue 106905).
    """
    with _PARSING:
        return ast.parse(text)


_FUTURE_ANNOTATIONS = 0x1000000     # CO_FUTURE_ANNOTATIONS of Include/cpython/code.h


def _definition_at(lines: Sequence[str], first: int, name: str) -> ast.FunctionDef | None:
    """The definition of `name` whose first line (of the first decorator, or `def`) is `first`.

    Only the function's own lines are parsed, behind empty ones, so that line numbers are those of the file.  They keep
    their indentation, below an `if`, so columns stay true and strings over several lines stay as they are.
    """
    head, shift = ("if True:\n", first - 2) if lines[first - 1][:1] in (" ", "\t") else ("", first - 1)
    for end in _possible_ends(lines, first):
        try:
            module = _parsed("\n" * shift + head + "".join(lines[first - 1:end]))
            break
        except SyntaxError:
            continue
    else:
        return None
    body = module.body[0].body if head and isinstance(module.body[0], ast.If) else module.body
    node = body[0] if body else None
    if not isinstance(node, ast.FunctionDef) or node.name != name:
        return None
    return node if min([node.lineno, *(d.lineno for d in node.decorator_list)]) == first else None


def _possible_ends(lines: Sequence[str], first: int) -> Iterator[int]:
    """Lines before which the block that begins at line `first` may end, the nearest first.

    It ends before a line that is not indented more than its first one.  Such a line may also be inside brackets or a
    string, but a block that is cut there is no Python, so the first end that gives Python is right.  (`inspect` finds
    it by tokens, which takes milliseconds at first.)
    """
    margin = _indent(lines[first - 1])
    for number in range(first, len(lines)):
        text = lines[number].lstrip()
        if text and text[0] != "#" and _indent(lines[number]) <= margin:
            yield number
    yield len(lines)


def _indent(line: str) -> int:
    return len(line.expandtabs()) - len(line.expandtabs().lstrip())


class ConstexprFunction:
    """A plain Python function that a kernel may call with compile-time values; its result is one again.

    Called outside a kernel it is the function itself.  `constexpr` arguments are unwrapped.
    """

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn = fn
        self.__name__ = getattr(fn, "__name__", type(fn).__name__)
        self.__qualname__ = getattr(fn, "__qualname__", self.__name__)
        self.__module__ = getattr(fn, "__module__", __name__)
        self.__doc__ = fn.__doc__
        self.__wrapped__ = fn       # whose signature `inspect` shows

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.fn(*map(unwrapped, args), **{k: unwrapped(v) for k, v in kwargs.items()})

    def __get__(self, obj: object, owner: type | None = None) -> Any:
        return self if obj is None else types.MethodType(self, obj)

    @property
    def src(self) -> str:
        """The source text from `def` on."""
        return SourceFunction(self.fn).source

    def __repr__(self) -> str:
        return f"<ConstexprFunction {self.__module__}.{self.__qualname__}>"


def unwrapped(value: Any) -> Any:
    """The Python value of a `constexpr`, also inside plain tuples and lists; anything else as it is."""
    if isinstance(value, constexpr):        # (torch's compiler reads this, in the functions of grids)
        return unwrapped(value.value)
    if type(value) in (tuple, list):
        return type(value)(unwrapped(v) for v in value)
    return value
