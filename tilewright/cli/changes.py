"""What differs between two stored codes of a kernel, in words: `tilewright cache explain`.

Before: the parts of two keys (`runtime.key`), texts by label.  After: lines for people; no hash among them, since it
says that something changed and not what.  A text whose form is not known here is shown as it is.
Tests: tests/cli/test_changes.py.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping

_LONG = 60      # characters from which a change of a text is shown as a difference of its lines or words
_HASH = re.compile(r"[0-9a-f]{64}")
# launch facts: what is said where they hold, and where they do not
_FACTS = {
    "disjoint": ("no tensor that is written overlaps another one", "a tensor that is written overlaps another one"),
    "wide": ("a tensor has 2**30 elements or more", "all tensors have less than 2**30 elements"),
}


def changed_labels(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """The labels whose texts differ."""
    return [label for label in dict.fromkeys((*before, *after)) if before.get(label) != after.get(label)]


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    """What differs, a line or more for each label."""
    for label in changed_labels(before, after):
        old, new = before.get(label), after.get(label)
        if old is None or new is None:
            yield f"{_called(label)}: " + (f"is new: {new}" if old is None else f"was {old}, and is no more")
        else:
            yield from _change(label, old, new)


def _change(label: str, old: str, new: str) -> Iterator[str]:
    if label.startswith("argument "):
        yield f"{label}: was {_argument(old)}, is {_argument(new)}"
    elif label == "launch facts":
        yield from _facts(old, new)
    elif label == "compiler":
        yield from _compiler(old, new)
    elif label == "target":
        yield from _target(old, new)
    else:
        yield from _text(_called(label), old, new)


def _called(label: str) -> str:
    """A label in words: `N in f` is a global that a function reads."""
    name, inside, reader = label.partition(" in ")
    return f"{name}, which {reader} reads" if inside else label


def _argument(text: str) -> str:
    """How an argument is compiled for: `*fp32 divisible by 16` is a pointer's type and what is known of it."""
    if text.startswith("= "):
        return f"the compile-time value {text[2:]}"
    kind, divisible, _ = text.partition(" divisible by ")
    if re.fullmatch(r"\*k?\w+", kind):
        return f"a pointer to {kind.lstrip('*')} {'at a multiple of 16 bytes' if divisible else 'at any address'}"
    if re.fullmatch(r"[iu]\d+", kind):
        return f"a multiple of 16, as {kind}" if divisible else f"any {kind}"
    return text


def _facts(old: str, new: str) -> Iterator[str]:
    was, is_now = (dict(part.split("=") for part in text.split()) for text in (old, new))
    for name, (holds, holds_not) in _FACTS.items():
        if was.get(name) != is_now.get(name):
            yield f"at the launch: {holds if is_now.get(name) == 'True' else holds_not}"


def _compiler(old: str, new: str) -> Iterator[str]:
    """Versions; a hash of the sources tells of changes between equal versions."""
    was, is_now = (_versions(text) for text in (old, new))
    told = False
    for name in was.keys() | is_now.keys():
        if name != "sources" and was.get(name) != is_now.get(name):
            yield f"version of {name}: was {was.get(name, 'none')}, is {is_now.get(name, 'none')}"
            told = True
    if not told:
        yield f"Tilewright's own source files are others, of the same version {is_now.get('Tilewright', '')}".rstrip()


def _versions(text: str) -> dict[str, str]:
    """The parts of `tilewright 0.1.0 HASH cpython-311 llvmlite version_a = ...`."""
    found = re.fullmatch(r"tilewright (\S+) (\S+) (\S+) llvmlite (.*)", text)
    return dict(zip(("Tilewright", "sources", "Python", "llvmlite"), found.groups(), strict=True)) if found else {}


def _target(old: str, new: str) -> Iterator[str]:
    """`cpu-2 TRIPLE PROCESSOR +feature,-feature llvm-22.1.0`, and what assembles for GPUs behind that."""
    (was, had, rest), (is_now, has, other_rest) = _machine(old), _machine(new)
    for what, a, b in zip(("code generator", "system", "processor"), was, is_now, strict=False):
        if a != b:
            yield f"{what}: was {a}, is {b}"
    if was[2:] == is_now[2:] and had != has:
        lost, won = sorted(had - has), sorted(has - had)
        yield "instructions: " + "; ".join([*([f"no longer {', '.join(lost)}"] if lost else []),
                                            *([f"now also {', '.join(won)}"] if won else [])])
    if rest[:1] != other_rest[:1]:
        yield f"LLVM: was {' '.join(rest[:1])}, is {' '.join(other_rest[:1])}"
    if rest[1:] != other_rest[1:]:
        yield "the assembler for GPUs is another file, or has other options"


def _machine(text: str) -> tuple[list[str], set[str], list[str]]:
    """Code generator, system and processor; the instructions that may be used; what follows."""
    words = text.split()
    features = {part[1:] for word in words[3:4] for part in word.split(",") if part.startswith("+")}
    return words[:3], features, words[4:] if words[3:4] and words[3][:1] in "+-" else words[3:]


def _text(name: str, old: str, new: str) -> Iterator[str]:
    """A changed text in a line, or as a difference of its lines or words."""
    if _HASH.search(old) or _HASH.search(new):
        yield f"{name}: is another"
    elif max(len(old), len(new)) < _LONG and "\n" not in old + new:
        yield f"{name}: was {old}, is {new}"
    else:
        apart = "\n" if "\n" in old + new else ("," if "," in old else " ")
        yield f"{name}:"
        lines = difflib.ndiff(old.split(apart), new.split(apart))
        yield from (f"  {line}" for line in lines if line[:2] in ("- ", "+ "))
