"""Kernels that must be refused: how a file of cases is written, and how a case is checked.

A file in this folder holds kernels, each with exactly one comment `# error: ClassName: text` on the guilty line, in
the kernel itself or in a function that it calls:

    @case(x="*fp32", n="i32", BLOCK=16)          # what the kernel is compiled for
    def undefined(x, n, BLOCK: tl.constexpr):
        tl.store(x, y)  # error: CompilationError: y is not defined

`@launch_case` marks a Python function that launches something, for errors of the launch; its `# error:` is on the
line that raises.  `kernel_case(kernel, grid, *args)` is a kernel that fails while it runs, on every engine; a file
lists such cases in `CASES`.  Checked are the class, the text (a part of the message) and the line.
"""

from __future__ import annotations

import inspect
import re
import traceback

import numpy as np

from tilewright.diagnostics import CompilationError, TritonError
from tilewright.frontend import compile_function, dependencies
from tilewright.language.core import parse_type
from tilewright.language.function import SourceFunction
from tilewright.language.options import ConstantArg, Options, RuntimeArg, Signature
from tilewright.testing.engines import ENGINES, launch

_EXPECTED = re.compile(r"# error: (\w+): (.+?)\s*$", re.MULTILINE)


def jit(fn):
    """A function that kernels call."""
    return SourceFunction(fn)


class Case:
    """A kernel with the types and values that it is compiled for."""

    def __init__(self, fn, args):
        self.fn = fn if isinstance(fn, SourceFunction) else SourceFunction(fn)
        self.name = self.fn.__name__
        self.args = args

    has_file = True

    def expected(self):
        """(class name, text, line) of the one `# error:` comment in the kernel and the functions that it reaches."""
        found = [e for f in dependencies(self.fn).functions if f.file == self.fn.file for e in expected_in(f.fn)]
        assert len(found) == 1, f"{self.name} has {len(found)} `# error:` comments; a case has one"
        return found[0]

    def check(self):
        name, text, line = self.expected()
        try:
            compile_function(self.fn, Signature({k: argument(v) for k, v in self.args.items()}), Options(debug=True))
        except CompilationError as error:
            assert type(error).__name__ == name, f"{type(error).__name__}: {error}"
            assert text in error.message, f"{text!r} is not in {error.message!r}"
            assert error.location is not None and error.location.line == line, f"{error} is not at line {line}"
            shown = str(error)
            assert f":{line}:" in shown and ("^" in shown or not self.has_file), shown
            assert not re.search(r"tilewright/\w+/\w+\.py", shown), f"a frame of the compiler is shown: {shown}"
            return
        raise AssertionError(f"{self.name} compiles, but should be refused with {name}: {text}")


def argument(spec):
    """A string spells a run-time type; an argument of a signature is itself; anything else is a compile-time value."""
    if isinstance(spec, str):
        return RuntimeArg(parse_type(spec))
    return spec if isinstance(spec, RuntimeArg | ConstantArg) else ConstantArg(spec)


class TextCase(Case):
    """A kernel made by `exec` from a text with the comment; `source` is what `jit(source=...)` is given.

    With `forget`, another text was executed than the one that is at hand.
    """

    has_file = False

    def __init__(self, name, text, source=None, forget=False):
        names = {}
        exec(text.replace("return x", "return x + 1") if forget else text, names)
        (function,) = [v for v in names.values() if inspect.isfunction(v)]
        super().__init__(SourceFunction(function, source=source), {"x": "*fp32"})
        self.name = name
        self.text = text

    def expected(self):
        ((name, message, line),) = expected_on(self.text.splitlines(), 1)
        return name, message, line


class LaunchCase:
    """A function that must raise while it launches something."""

    def __init__(self, fn):
        self.fn = fn
        self.name = fn.__name__

    def check(self):
        ((name, text, line),) = expected_in(self.fn)
        try:
            self.fn()
        except Exception as error:
            assert type(error).__name__ == name, f"{type(error).__name__}: {error}"
            assert text in str(error), f"{text!r} is not in {str(error)!r}"
            file = inspect.getfile(self.fn)
            own = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
            assert own and own[-1] == line, f"raised at line {own[-1:]} of the file, not at {line}"
            return
        raise AssertionError(f"{self.name} runs, but should be refused with {name}: {text}")


class KernelCase(Case):
    """A kernel that fails when it runs, on every engine; the `# error:` is on its own guilty line."""

    def __init__(self, kernel, grid, args):
        super().__init__(kernel, {})
        self.grid = grid
        self.values = args

    def check(self):
        name, text, line = self.expected()
        for engine in ENGINES:
            values = [v.copy() if isinstance(v, np.ndarray) else v for v in self.values]
            try:
                launch(engine, self.fn, self.grid, *values)
            except TritonError as error:
                shown = _EXPECTED.sub("", str(error))      # the comment is a part of the line that is shown
                assert type(error).__name__ == name and text in shown, f"{engine}: {type(error).__name__}: {shown}"
                assert f"{self.fn.file}:{line}:" in shown and "^" in shown, f"{engine}: {shown}"
                continue
            raise AssertionError(f"{self.name} runs on {engine}, but should fail with {name}: {text}")


def expected_in(fn):
    """The (class name, text, line) of each `# error:` comment in a function."""
    return expected_on(*inspect.getsourcelines(fn))


def expected_on(lines, first):
    found = [(_EXPECTED.search(line), first + i) for i, line in enumerate(lines)]
    return [(match[1], match[2], line) for match, line in found if match]


def case(_fn=None, /, **args):
    """Mark a kernel as a case; `args` says what it is compiled for."""
    return Case(_fn, args) if _fn is not None else lambda fn: Case(fn, args)


def kernel_case(kernel, grid, *args):
    """A kernel that must fail when it runs with these arguments."""
    return KernelCase(kernel, grid, args)


def launch_case(fn):
    """Mark a Python function that launches something as a case."""
    return LaunchCase(fn)
