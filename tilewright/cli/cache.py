"""`tilewright cache ls | explain [KERNEL] | clear`: the compiled kernels on disk.

`explain` says why a kernel was compiled again: for each stored code of it, what differs from the stored code before it
that is most like it.  Tests: tests/cli/test_cache.py.
"""

from __future__ import annotations

import argparse
import difflib
import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tilewright.runtime import knobs
from tilewright.runtime.cache import Record, Store
from tilewright.runtime.devices import cache_folder
from tilewright.runtime.key import Part, parse_key

_LONG = 60      # characters from which a change of a text is shown as a difference of its lines or words


@dataclass(frozen=True, slots=True)
class Kernel:
    """The code of one specialisation, as it is stored."""

    record: Record
    parts: dict[str, str]
    made: int           # nanoseconds since the epoch

    @property
    def name(self) -> str:
        return self.record.fields["name"].decode()

    @property
    def machine(self) -> str:
        """What the code is for: `cpu`, or a GPU's architecture."""
        target = self.record.fields["target"].decode()
        found = re.search(r"\bsm_\w+", self.parts.get("target", ""))
        return found[0] if target == "nvidia" and found else target


def main(arguments: Sequence[str]) -> int:
    """Run `tilewright cache ARGUMENTS`; the exit status."""
    given = _parser().parse_args(arguments)
    folder = cache_folder(knobs.snapshot())
    if folder is None:
        sys.stderr.write("there is no home folder, so there is no cache; TILEWRIGHT_CACHE_DIR names another folder\n")
        return 1
    store = Store(folder)
    if given.action == "clear":
        removed = store.clear()
        _say(f"removed {removed} file{'s' if removed != 1 else ''} of {folder}")
        return 0
    kernels = sorted(stored_kernels(store), key=lambda kernel: kernel.made)
    if given.action == "ls":
        return _list(folder, store, kernels)
    return _explain(kernels, given.kernel)


def stored_kernels(store: Store) -> Iterator[Kernel]:
    """The compiled kernels among the records."""
    for record in store.records():
        if "binary" not in record.fields or "made" not in record.fields:
            continue
        try:
            parts = parse_key(record.key)
        except ValueError:
            continue
        yield Kernel(record, _by_label(parts), int(record.fields["made"]))


def _by_label(parts: Iterable[Part]) -> dict[str, str]:
    """Texts by label; labels that come twice get numbers."""
    found: dict[str, str] = {}
    for label, text in parts:
        number = 2
        name = label
        while name in found:
            name = f"{label} ({number})"
            number += 1
        found[name] = text
    return found


def _list(folder: object, store: Store, kernels: Sequence[Kernel]) -> int:
    everything = sum(record.size for record in store.records())
    width = max((len(kernel.name) for kernel in kernels), default=0)
    for kernel in kernels:
        arguments = ", ".join(f"{label.removeprefix('argument ')}: {text}" for label, text in kernel.parts.items()
                              if label.startswith("argument "))
        _say(f"{kernel.name:<{width}}  {_moment(kernel.made)}  {_size(kernel.record.size):>9}  {kernel.machine:<7}  "
             f"{arguments}")
    _say(f"{len(kernels)} kernel{'s' if len(kernels) != 1 else ''}, {_size(everything)} in {folder}")
    return 0


def _explain(kernels: Sequence[Kernel], name: str | None) -> int:
    names = sorted({kernel.name for kernel in kernels})
    if name is not None and name not in names:
        near = difflib.get_close_matches(name, names, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(names) or 'none'}"
        sys.stderr.write(f"no code of a kernel {name!r} is stored; {hint}\n"
                         "(a kernel that reads objects of its program's own classes, or calls Python functions that "
                         "call others, is not stored)\n")
        return 1
    for each in names if name is None else [name]:
        stored = [kernel for kernel in kernels if kernel.name == each]
        for number, kernel in enumerate(stored):
            _say(f"{each}, compiled {_moment(kernel.made)}:")
            for line in why(kernel, stored[:number]):
                _say(f"    {line}")
    return 0


def why(kernel: Kernel, earlier: Sequence[Kernel]) -> list[str]:
    """Lines that say what made this code necessary, beside what was there."""
    if not earlier:
        return ["the first of this name"]
    changes = [_changes(before.parts, kernel.parts) for before in earlier]
    best = min(range(len(earlier)), key=lambda k: (len(changes[k]), -k))
    head = f"unlike the code of {_moment(earlier[best].made)}"
    lines = [line for label in changes[best] for line in _change(label, earlier[best].parts.get(label),
                                                                kernel.parts.get(label))]
    return [f"{head}:", *lines] if lines else [f"the same key as the code of {_moment(earlier[best].made)}"]


def _changes(before: dict[str, str], after: dict[str, str]) -> list[str]:
    return [label for label in dict.fromkeys((*before, *after)) if before.get(label) != after.get(label)]


def _change(label: str, before: str | None, after: str | None) -> Iterator[str]:
    """One changed part, in a line, or as a difference of its lines or words."""
    if before is None:
        yield f"{label}: is new: {after}"
    elif after is None:
        yield f"{label}: was {before}, and is no more"
    elif max(len(before), len(after)) < _LONG and "\n" not in before + after:
        yield f"{label}: was {before}, is {after}"
    else:
        apart = "\n" if "\n" in before + after else ("," if "," in before else " ")
        yield f"{label}:"
        for line in difflib.ndiff(before.split(apart), after.split(apart)):
            if line[:2] in ("- ", "+ "):
                yield f"  {line}"


def _moment(nanoseconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(nanoseconds // 10**9))


def _size(count: int) -> str:
    return f"{count / 1024:.1f} KiB" if count < 1 << 20 else f"{count / (1 << 20):.1f} MiB"


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tilewright cache", description="The compiled kernels on disk (TILEWRIGHT_CACHE_DIR says where).")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser("ls", help="list them", description="List the compiled kernels, in the order of compilation.")
    explain = actions.add_parser("explain", help="say why a kernel was compiled again",
                                 description="Say what differs between the stored codes of a kernel.")
    explain.add_argument("kernel", nargs="?", metavar="KERNEL", help="its name; all kernels if left out")
    actions.add_parser("clear", help="remove them", description="Remove everything that the cache holds.")
    return parser
