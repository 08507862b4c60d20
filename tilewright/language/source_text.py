"""The text of functions that are in no file: of `python -c`, of `exec`, of notebooks.

A text that was found is used only if it is proved to be the function's: it is compiled again, and the code object of
that name and line has to be equal to the function's own.  Tests: tests/frontend/test_source_text.py.
"""

from __future__ import annotations

import ast
import linecache
import sys
import types
from collections.abc import Iterator, Sequence

_FRAMES = 24            # how far up callers are asked for texts that they hold
_LONGEST = 1 << 20
_FUTURE_FLAGS = 0x1FF0000       # CO_FUTURE_* of Include/cpython/code.h: what `from __future__ import` turns on
_WITH_ARGUMENT = "WX"           # options of python whose rest, or next word, is their argument


def is_in_no_file(code: types.CodeType) -> bool:
    """Whether the code's file name is a stand-in, such as `<string>` or `<stdin>`."""
    return code.co_filename.startswith("<") and code.co_filename.endswith(">")


def is_text_of(text: str, code: types.CodeType) -> bool:
    """Whether compiling `text` gives `code` again."""
    flags = code.co_flags & _FUTURE_FLAGS
    for more in (0, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT):        # cells of notebooks may have `await` outside functions
        try:
            module = compile(text, code.co_filename, "exec", flags | more, dont_inherit=True)
        except (SyntaxError, ValueError):
            continue
        if code in _nested(module):
            return True
    return False


def _nested(code: types.CodeType) -> Iterator[types.CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield constant
            yield from _nested(constant)


def found_text(code: types.CodeType) -> str | None:
    """The text that `code` was compiled from, if `code` is in no file: from `linecache`, `python -c` or a caller.

    To be asked while those who have executed the text are still there: when the function is decorated.
    """
    known = "".join(linecache.getlines(code.co_filename))
    for text in (known, command_text(sys.orig_argv), *_texts_of_callers(f"def {code.co_name}")):
        if text and is_text_of(text, code):
            return text
    return None


def command_text(words: Sequence[str]) -> str | None:
    """The program in the command line `python ... -c PROGRAM ...`, which `words` are."""
    rest = iter(words[1:])
    for word in rest:
        if not word.startswith("-") or word.startswith("--") or word == "-":
            return None
        for place, letter in enumerate(word[1:], 2):
            if letter == "c":
                return word[place:] or next(rest, None)
            if letter == "m":       # a module; what follows is its
                return None
            if letter in _WITH_ARGUMENT:
                if not word[place:]:
                    next(rest, None)
                break
    return None


def _texts_of_callers(mark: str) -> Iterator[str]:
    """Texts with `mark` in them that callers have in variables or in their code, innermost caller first."""
    frame: types.FrameType | None = sys._getframe(2)
    for _ in range(_FRAMES):
        if frame is None:
            return
        for value in (*list(frame.f_locals.values()), *frame.f_code.co_consts):
            if isinstance(value, str) and mark in value and len(value) <= _LONGEST:
                yield value
        frame = frame.f_back
