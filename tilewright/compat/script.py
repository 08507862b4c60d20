"""Running a Python file or module as `python FILE` or `python -m MODULE` would, in this process.

The script is `__main__`: pickling, multiprocessing and `if __name__ == "__main__"` work as usual, and a traceback
starts at the script's own frames.
Tests: tests/cli/test_run.py.
"""

from __future__ import annotations

import io
import os
import runpy
import sys
import types
from collections.abc import Callable, Sequence
from importlib.machinery import SourceFileLoader

Hint = Callable[[Exception], str]       # a line to show below an error, or ""


def run_file(path: str, arguments: Sequence[str], hint: Hint = lambda error: "") -> int:
    """Run the file `path` with `sys.argv = [path, *arguments]`; the exit status."""
    full = os.path.abspath(path)
    if os.path.isdir(full):
        full = os.path.join(full, "__main__.py")
    try:
        with io.open_code(full) as file:
            source = file.read()
    except OSError as error:
        print(f"tilewright run: cannot open {path}: {error.strerror}", file=sys.stderr)
        return 2
    module = types.ModuleType("__main__")
    module.__file__ = full
    module.__loader__ = SourceFileLoader("__main__", full)
    sys.modules["__main__"] = module
    sys.argv[:] = [path, *arguments]
    sys.path.insert(1, os.path.dirname(full))
    return _guarded(lambda: exec(compile(source, full, "exec"), module.__dict__), hint)


def run_module(name: str, arguments: Sequence[str], hint: Hint = lambda error: "") -> int:
    """Run the module `name` as `python -m name` does; the exit status."""
    sys.argv[:] = [name, *arguments]
    sys.path.insert(1, os.getcwd())
    return _guarded(lambda: runpy.run_module(name, run_name="__main__", alter_sys=True), hint)


def _guarded(work: Callable[[], object], hint: Hint) -> int:
    """Run `work`; an exception is shown without the frames of what runs it."""
    try:
        work()
    except Exception as error:
        error.__traceback__ = _without_runner(error.__traceback__)
        sys.excepthook(type(error), error, error.__traceback__)
        if text := hint(error):
            print(text, file=sys.stderr)
        return 1
    return 0


def _without_runner(traceback: types.TracebackType | None) -> types.TracebackType | None:
    """The traceback from the first frame on that is neither of this module nor of `runpy`."""
    while traceback is not None and traceback.tb_frame.f_code.co_filename in _RUNNERS:
        traceback = traceback.tb_next
    return traceback


_RUNNERS = frozenset({__file__, runpy.run_module.__code__.co_filename, "<frozen runpy>"})
