"""Locations in the user's source, the error classes, and how an error is shown.

Everything that a user may see as an error is one of these classes.  Class names are `triton`'s where it has one.
A message says what came, what is allowed and what to do; the location says where.  This module imports nothing of
the project.  Tests: tests/test_diagnostics.py, tests/errors/.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import linecache
import sys
import types
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from opcode import opmap
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C")

_PACKAGE = str(Path(__file__).parent) + "/"
_BETWEEN = frozenset({functools.__file__, contextlib.__file__})      # the files of frames between ours
_RAISE = opmap["RAISE_VARARGS"]
_MEANT = "_tilewright_meant"
_PRINTERS = frozenset({"traceback", "IPython"})
_STANDARD = str(Path(linecache.__file__).parent) + "/"


@dataclass(frozen=True, slots=True)
class Location:
    """A range in a user's file; `caller` is the call site when the code was inlined from another function.

    `line` and `end_line` count from 1, `column` and `end_column` from 0 (as `ast` does, in characters).
    """

    file: str
    line: int
    column: int = 0
    end_line: int = 0
    end_column: int = 0
    function: str = ""
    caller: Location | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column + 1}"

    def called_from(self, caller: Location | None) -> Location:
        """This location with `caller` at the end of its chain of call sites."""
        outer = caller if self.caller is None else self.caller.called_from(caller)
        return Location(self.file, self.line, self.column, self.end_line, self.end_column, self.function, outer)


UNKNOWN = Location("<unknown>", 0)


def location_record(location: Location | None) -> dict[str, Any] | None:
    """A location as plain data, for the metadata of a code object."""
    if location is None:
        return None
    return {"file": location.file, "line": location.line, "column": location.column, "end_line": location.end_line,
            "end_column": location.end_column, "function": location.function,
            "caller": location_record(location.caller)}


def recorded_location(record: Mapping[str, Any] | None) -> Location | None:
    """The opposite of `location_record`."""
    return Location(**{**record, "caller": recorded_location(record.get("caller"))}) if record else None


def display_width(text: str) -> int:
    """Columns that `text` takes in a terminal; wide East Asian characters take two."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def source_excerpt(location: Location, line_text: str | None = None) -> str:
    """The source line of `location` with carets under its range; empty if the line cannot be read."""
    text = line_text if line_text is not None else linecache.getline(location.file, location.line)
    text = text.rstrip("\n")
    if not text.strip():
        return ""
    start = min(location.column, len(text))
    end = location.end_column if location.end_line == location.line else len(text)
    end = max(start + 1, min(end, len(text)))
    indent = "".join("\t" if c == "\t" else " " * display_width(c) for c in text[:start])
    return f"    {text}\n    {indent}{'^' * max(1, display_width(text[start:end]))}"


def render(message: str, location: Location | None, line_text: str | None = None) -> str:
    """`message` below the place it speaks of, innermost place first, then the chain of call sites."""
    if location is None or location.line == 0:
        return message
    where = f" in {location.function}" if location.function else ""
    parts = [f"at {location}{where}:", source_excerpt(location, line_text), message]
    site = location.caller
    while site is not None:
        again = 0       # a recursion has the same call site many times
        while site.caller is not None and replace(site, caller=None) == replace(site.caller, caller=None):
            site, again = site.caller, again + 1
        times = f", {again + 1} times" if again else ""
        parts += [f"called from {site}{' in ' + site.function if site.function else ''}{times}:", source_excerpt(site)]
        site = site.caller
    return "\n".join(p for p in parts if p)


_SLOT: Any = vars(BaseException)["__cause__"]      # what `raise ... from` fills in


def _printed_cause(error: BaseException) -> BaseException | None:
    cause: BaseException | None = _SLOT.__get__(error)
    return cause


class TritonError(Exception):
    """Base of every error that the project raises on purpose.

    A cause that says the same is there for programs that ask for `__cause__`, as those written for triton do, and is
    not printed.  Python prints chains by what `raise ... from` fills in, until 3.12; from 3.13 on, and in `traceback`,
    `logging` and IPython, by the attribute, which therefore has no such cause for these.
    """

    _unprinted: BaseException | None = None

    @property
    def __cause__(self) -> BaseException | None:
        if sys._getframe(1).f_globals.get("__name__", "").partition(".")[0] in _PRINTERS:
            return _printed_cause(self)
        return _printed_cause(self) or self._unprinted

    @__cause__.setter
    def __cause__(self, cause: BaseException | None) -> None:
        self._unprinted = None
        _SLOT.__set__(self, cause)

    def __reduce__(self) -> tuple[Any, ...]:
        """Of a pickled error Python leaves the cause out."""
        kept = {name: value for name, value in self.__dict__.items() if name != "_unprinted"}
        return (type(self), self.args, kept) if kept else (type(self), self.args)


class CompilationError(TritonError):
    """A kernel that cannot be compiled.  `location` is the guilty place, `message` the bare text.

    `src` and `node` mirror `triton.compiler.CompilationError` (source text of the function, ast node).
    """

    def __init__(self, message: str, location: Location | None = None, *, src: str | None = None,
                 node: object = None, line_text: str | None = None) -> None:
        self.message = message
        self.location = location
        self.src = src
        self.node = node
        self.line_text = line_text
        super().__init__(message)

    source_line_count_max_in_message = 12       # triton's limit; the message here shows the one guilty line

    @property
    def error_message(self) -> str:
        """The bare text, under triton's name."""
        return self.message

    def __str__(self) -> str:
        return render(self.message, self.location, self.line_text)


class CompileTimeAssertionFailure(CompilationError):
    """A `tl.static_assert` that does not hold."""


class UnsupportedLanguageConstruct(CompilationError):
    """Python syntax that has no meaning in a kernel."""


class SourceNotFoundError(CompilationError, ValueError):
    """A function to be compiled whose source text is not to be found (a lambda, `exec` without `source=`)."""


class OutOfResources(TritonError):
    """A kernel needs more of a resource than the device has."""

    def __init__(self, required: int, limit: int, name: str,
                 advice: str = "Reducing block sizes or `num_stages` may help.") -> None:
        self.required, self.limit, self.name, self.advice = required, limit, name, advice
        super().__init__(f"out of resource: {name}, Required: {required}, Hardware limit: {limit}. {advice}")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.required, self.limit, self.name, self.advice)


class FewerStagesWarning(UserWarning):
    """A kernel was compiled with a smaller `num_stages` than was asked for, since its buffers would not fit.

    Tuners make it an error, and leave such a config out.
    """


class SingleCtaWarning(UserWarning):
    """A kernel asked for programs of several CTAs (`num_ctas`) on a GPU, and was compiled for one."""


class PTXASError(TritonError):
    """The GPU's assembler refused what a kernel was compiled to; tuners leave such a config out."""

    def __init__(self, error_message: str | None = None) -> None:
        self._said = error_message or ""
        super().__init__(f"PTXAS error: {self._said}")

    @property
    def error_message(self) -> str:
        """What the assembler said."""
        return self._said


class NoDriverError(TritonError, RuntimeError):
    """Something needs a GPU of NVIDIA's on a machine without its driver."""

class NotOnThisTargetError(CompilationError, NotImplementedError):
    """A kernel that only another target takes; it says which."""


class InterpreterError(TritonError):
    """An error raised while a kernel runs in an interpreter."""


class KernelAssertionError(TritonError, AssertionError):
    """A `tl.device_assert` that did not hold when the kernel ran; names program id, message and line."""


@dataclass(frozen=True, slots=True)
class BadAccess:
    """A memory access outside its argument: what an engine knows of it.

    Addresses are in bytes: of the access, what the argument points to, and the lowest and one past the highest byte
    that its tensor reaches.  `lane` is the element of the tile, where the engine knows it.
    """

    access: str
    argument: str
    element_bytes: int
    address: int
    pointer: int
    low: int
    high: int
    lane: tuple[int, ...] = ()

    @property
    def index(self) -> int:
        """The element that was accessed, counted from the argument's pointer."""
        return self._distance // self.element_bytes

    @property
    def _distance(self) -> int:
        """Bytes from the argument's pointer; addresses wrap at 2**64, so it is below 2**63 either way."""
        return (self.address - self.pointer + 2**63) % 2**64 - 2**63

    @property
    def elements(self) -> range:
        """The elements that the argument has, counted in the same way."""
        first = -((self.pointer - self.low) // self.element_bytes)
        return range(first, first + max(0, self.high - self.low) // self.element_bytes)

    def __str__(self) -> str:
        rest, has = self._distance % self.element_bytes, self.elements
        off = f" + {rest} byte{'s' if rest > 1 else ''}" if rest else ""
        bounds = f"whose elements {has[0]} to {has[-1]} are in bounds" if has else "which has no element"
        return f"{self.access} out of bounds: element {self.index}{off} of {self.argument!r}, {bounds}"


class OutOfBoundsError(TritonError, IndexError):
    """A load, store or atomic access of an address that is not within the argument it was made from.

    `kernel`, `argument`, `index` (of the element, counted from the argument's pointer), `elements` (the range of those
    that it has), `program` (id along x, y, z) and `location` say it for programs.
    """

    def __init__(self, bad: BadAccess, kernel: str, program: tuple[int, int, int],
                 location: Location | None) -> None:
        self.bad, self.kernel, self.program, self.location = bad, kernel, program, location
        self.argument, self.index, self.elements = bad.argument, bad.index, bad.elements
        lane = f"tile element {list(bad.lane)} of " if bad.lane else ""
        cure = ("if that element is not wanted, give the access a mask that is false there; if it "
                f"belongs to a larger tensor that {bad.argument!r} is a view of, pass that tensor, or launch within "
                "knobs.scope(check_bounds=False)")
        super().__init__(render(f"{kernel}: {bad} ({lane}program {program}); {cure}", location))

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.bad, self.kernel, self.program, self.location)


class MemoryFaultError(TritonError):
    """A compiled kernel touched an address that the process does not have: a segmentation fault, caught.

    Bounds tests find most such accesses before they happen; this is left to kernels compiled without them
    (`TILEWRIGHT_CHECK_BOUNDS=0`), to pointers that come out of memory, and to tensors whose memory has gone.
    `kernel`, `address`, `program` (id along x, y, z), and where it could be found out `what` (the access), `bad`,
    `argument`, `index` and `location`.  What the launch stored before is in memory.
    """

    def __init__(self, kernel: str, address: int, program: tuple[int, int, int], what: str = "",
                 bad: BadAccess | None = None, location: Location | None = None) -> None:
        self.kernel, self.address, self.program = kernel, address, program
        self.what, self.bad, self.location = what, bad, location
        self.argument = None if bad is None else bad.argument
        self.index = None if bad is None else bad.index
        self.slots: tuple[int, ...] = ()        # of the launch, for who looks for the access
        lane = f"tile element {list(bad.lane)} of " if bad is not None and bad.lane else ""
        told = f"{kernel}: memory fault at address {address:#x}{', ' if what else ''}{what} ({lane}program {program})"
        cure = ("launch it with check=True, which tests every access" if bad is None else
                "give the access a mask that is false there, and leave the tests of bounds on "
                "(TILEWRIGHT_CHECK_BOUNDS), which find it before anything is written")
        super().__init__(f"{render(told, location)}\nlikely cure: {cure}")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.kernel, self.address, self.program, self.what, self.bad, self.location)


@dataclass(frozen=True, slots=True)
class Finding:
    """What checked mode found: what happened, to which element of which argument, in which program, and the cure.

    `index` counts elements from the argument's pointer; `lane` is the element of the tile; both are None or empty
    where there is none (a branch).  `others` are the further places that it has to do with, each with its part in it.
    """

    what: str
    cure: str
    argument: str | None
    index: int | None
    program: tuple[int, int, int]
    lane: tuple[int, ...]
    location: Location | None
    others: tuple[tuple[str, Location], ...] = ()


class CheckError(TritonError):
    """A fault that checked mode found (`kernel[grid](..., check=True)`); `finding` has it in parts."""

    def __init__(self, finding: Finding, kernel: str) -> None:
        self.finding, self.kernel = finding, kernel
        self.argument, self.index, self.program = finding.argument, finding.index, finding.program
        self.location, self.cure = finding.location, finding.cure
        lane = f"tile element {list(finding.lane)} of " if finding.lane else ""
        parts = [render(f"{kernel}: {finding.what} ({lane}program {finding.program})", finding.location)]
        parts += [f"{part}: {place}\n{source_excerpt(place)}".rstrip() for part, place in finding.others]
        super().__init__("\n".join([*parts, f"likely cure: {finding.cure}"]))

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.finding, self.kernel)


class FootprintError(CheckError, IndexError):
    """An access between the elements of a strided tensor: within its extent, but no element of it."""


class DataRaceError(CheckError):
    """Two programs of a launch touch one element, one of them writes, and no atomic operation puts them in order."""


class WrappedOffsetError(CheckError, OverflowError):
    """An access whose offset left its integer type on the way, so that it is at another element than was meant."""


class UndefinedLaneError(CheckError):
    """A value that a masked load without `other` left undefined is stored, decides a branch, or makes an address."""


class UnwrittenReadError(CheckError):
    """A read of an element that the launch was told is not written yet, before the kernel wrote it."""


class AutotunerError(TritonError):
    """A tuner that was set up wrongly."""

    def __init__(self, message: str) -> None:
        super().__init__(f"Autotuner error: {message}")


class InternalError(TritonError):
    """A fault of the compiler itself: the verifier or a pass found IR that it should never see."""


def is_own(frame: types.FrameType) -> bool:
    """Whether a frame is of this package: nothing that a user wants to see or to step through."""
    file = frame.f_code.co_filename
    return file.startswith(_PACKAGE) or (file == "<string>" and str(frame.f_globals.get("__name__")).startswith(
        "tilewright."))     # an `__init__` that a dataclass wrote


def cut_own_frames(error: BaseException) -> None:
    """Leave the user's frames alone in the traceback of an error and of its causes, for what a program calls:

        try: ...
        except BaseException as error:
            cut_own_frames(error)
            raise

    What was handled within the call is cut out of the chain, too, and a cause that only repeats the error is not
    printed (`TritonError`).  This is for errors of kernels (`TritonError`), Ctrl-C, the end of a debugger, what a
    `raise` of ours says of an argument, and what a function of the program raises that we called (a grid, a hook); any
    other may be a fault.

    Frames of a kernel in the eager engine stay, for a debugger to look into.  The frame that has the `try` is cut out,
    too: Python does not add it again at a bare `raise`.  An `InternalError` keeps all, and so does a
    cause that is no error of ours and has no frame of the user: it shows a fault.  This is no context manager since
    leaving one is a call, in which a step debugger would stop.
    """
    is_known = (isinstance(error, TritonError | KeyboardInterrupt) or type(error).__module__ == "bdb"
                or _is_meant(error))
    is_fault = isinstance(error, InternalError) or type(error) is AssertionError     # a kernel's assertion is none
    if is_known and not is_fault:
        _cut_chain(error)
        error.__traceback__ = _of_users(error.__traceback__)
    if sys.version_info < (3, 11) and sys.exc_info()[1] is error:
        _show_in_handler(error)


def _cut_chain(error: BaseException) -> None:
    """Cut our frames out of an error and of its causes, and what is not to be printed out of the chain."""
    cause, outside = error.__cause__, _context_outside(error)
    kept = _of_users(error.__traceback__)
    if kept is not None or _is_of_ours(error):
        error.__traceback__ = kept
    if cause is not None and cause is not error:
        _cut_chain(cause)
    if isinstance(error, TritonError) and cause is not None and _printed_cause(error) is cause and _repeats(cause):
        _SLOT.__set__(error, None)
        error._unprinted = cause
    if error.__context__ is not outside:
        error.__context__, error.__suppress_context__ = outside, False


def _context_outside(error: BaseException) -> BaseException | None:
    """What was being handled around the call when the error came: the frame that handles it is the user's.

    A context is of the call if its traceback, whose first frame is that of the handler, begins with a frame of ours.
    """
    context = error.__context__
    while context is not None:
        trace = context.__traceback__
        if trace is not None and not is_own(trace.tb_frame) and trace.tb_frame.f_code.co_filename not in _BETWEEN:
            break
        context = context.__context__
    return context


def _repeats(cause: BaseException) -> bool:
    """Whether a cause has nothing to show that its error does not: it is of ours, no fault, and has no cause to print.
    """
    return (_is_of_ours(cause) and not isinstance(cause, InternalError) and cause.__traceback__ is None
            and _printed_cause(cause) is None)


def _is_of_ours(error: BaseException) -> bool:
    return type(error).__module__.startswith("tilewright.")


def has_users_frames(error: BaseException) -> bool:
    """Whether an error that we caught has passed code of the program."""
    return _of_users(error.__traceback__) is not None


def shows_users_frames(call: Callable[P, R]) -> Callable[P, R]:
    """Decorator of what a program calls to make something (`compile`, `autotune`): errors show the user's frames only.

    What launches does it by hand, since a step debugger would stop in this wrapper.
    """
    @functools.wraps(call)
    def entered(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return call(*args, **kwargs)
        except BaseException as error:
            cut_own_frames(error)
            raise

    return entered


def shows_users_frames_when_made(cls: type[C]) -> type[C]:
    """The same for a class whose objects a program makes."""
    cls.__init__ = shows_users_frames(cls.__init__)     # type: ignore[method-assign]
    return cls


def _is_meant(error: BaseException) -> bool:
    """Whether a `raise` statement of this package raised the error, or a function of the program that we called.

    The error remembers it, since the frame that tells is cut out before frames further out are.
    """
    last: types.TracebackType | None = None     # our innermost frame
    trace = error.__traceback__
    while trace is not None:
        last = trace if is_own(trace.tb_frame) else last
        trace = trace.tb_next
    if last is not None:
        inner, says = last.tb_next, last.tb_frame.f_code.co_code[last.tb_lasti] == _RAISE
        if says if inner is None else not _is_library(inner.tb_frame):
            error.__dict__[_MEANT] = True
    return _MEANT in error.__dict__


def _is_library(frame: types.FrameType) -> bool:
    """Whether a frame is of Python's own modules or of an installed package."""
    file = frame.f_code.co_filename
    return file.startswith((_STANDARD, "<frozen")) or "site-packages" in file or "dist-packages" in file


def _show_in_handler(error: BaseException) -> None:
    """Until Python 3.10 a bare `raise` shows the traceback that the error had when the handler was entered."""
    set_handled = ctypes.pythonapi.PyErr_SetExcInfo
    set_handled.argtypes, set_handled.restype = [ctypes.py_object] * 3, None
    parts = type(error), error, error.__traceback__
    for part in parts:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(part))      # it takes over a reference to each
    set_handled(*parts)


def _of_users(trace: types.TracebackType | None) -> types.TracebackType | None:
    """The entries of a traceback whose frames are neither ours nor between ours."""
    kept = []
    while trace is not None:
        if not is_own(trace.tb_frame) and trace.tb_frame.f_code.co_filename not in _BETWEEN:
            kept.append(trace)
        trace = trace.tb_next
    made = None
    for entry in reversed(kept):
        made = types.TracebackType(made, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return made
