"""`tilewright cache ls | explain [KERNEL] | clear [KERNEL ...] [--yes]`: the compiled kernels on disk.

`explain` says why a kernel was compiled again: for each stored code of it, what differs from the stored code before it
that is most like it (`changes`).  `clear` says what it would remove, and asks.  Tests: tests/cli/test_cache.py.
"""

from __future__ import annotations

import argparse
import difflib
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tilewright.cli.changes import changed_labels, changes
from tilewright.language.options import Options
from tilewright.runtime import knobs
from tilewright.runtime.cache import Record, Store, shown_name
from tilewright.runtime.devices import cache_folder
from tilewright.runtime.key import Describer, Part, option_parts, parse_key

_FACTS, _USUAL_FACTS = "launch facts", ("disjoint=True", "wide=False")


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
        return _clear(folder, store, given.kernel, given.yes)
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
        _say("  ".join([f"{kernel.name:<{width}}", _moment(kernel.made), f"{_size(kernel.record.size):>9}",
                        f"{kernel.machine:<7}", arguments, *special(kernel.parts)]))
    _say(f"{len(kernels)} kernel{'s' if len(kernels) != 1 else ''}, {_size(everything)} in {folder}")
    return 0


def special(parts: Mapping[str, str]) -> list[str]:
    """What beside its arguments sets code apart: options, and launch facts, that are not the usual ones."""
    usual = {part.label: part.text for part in option_parts(Options(), Describer(()))}
    chosen = [f"{label.removeprefix('option ')}={text}" for label, text in parts.items()
              if label.startswith("option ") and text != usual.get(label)]
    facts = [fact for fact in parts.get(_FACTS, "").split() if fact not in _USUAL_FACTS]
    return [f"[{', '.join([*chosen, *facts])}]"] if chosen or facts else []


def _clear(folder: object, store: Store, names: Sequence[str], is_sure: bool) -> int:
    """Remove the records of the kernels `names`, or everything, when somebody agrees."""
    found = [record for record in store.records() if not names or record.name in map(shown_name, names)]
    what = f"of {', '.join(names)} " if names else ""
    missing = [name for name in names if shown_name(name) not in {record.name for record in found}]
    if missing:
        known = sorted({record.name for record in store.records() if "made" in record.fields})
        sys.stderr.write(f"nothing of {', '.join(missing)} is stored; there are: {', '.join(known) or 'none'}\n")
        return 1
    if found and not is_sure:
        shown = f"{_files(len(found))} {what}({_size(sum(record.size for record in found))}) in {folder}"
        if not sys.stdin.isatty():
            sys.stderr.write(f"this would remove {shown}; nobody can be asked here, so say --yes\n")
            return 1
        sys.stdout.write(f"remove {shown}? [y/N] ")
        sys.stdout.flush()
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            _say("nothing is removed")
            return 1
    removed = store.remove(found) if names else store.clear()
    _say(f"removed {_files(removed)} {what}in {folder}")
    return 0


def _files(count: int) -> str:
    return f"{count} file{'s' if count != 1 else ''}"


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
            _say(f"{each} number {number + 1}, compiled {_moment(kernel.made)} for {kernel.machine}:")
            for line in why(kernel, stored[:number]):
                _say(f"    {line}")
    return 0


def why(kernel: Kernel, earlier: Sequence[Kernel]) -> list[str]:
    """Lines that say what made this code necessary, beside what was there before it."""
    alike = [k for k, before in enumerate(earlier) if before.machine == kernel.machine]
    if not alike:
        others = ", ".join(dict.fromkeys(before.machine for before in earlier))
        return [f"the first of this name for {kernel.machine}; there was code for {others}" if others else
                "the first of this name"]
    best = min(alike, key=lambda k: (len(changed_labels(earlier[k].parts, kernel.parts)), -k))
    lines = list(changes(earlier[best].parts, kernel.parts))
    return [f"unlike number {best + 1}:", *lines] if lines else [f"the same key as number {best + 1}"]


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
    clear = actions.add_parser("clear", help="remove them", description="Remove what the cache holds.")
    clear.add_argument("kernel", nargs="*", metavar="KERNEL", help="what belongs to kernels of these names only")
    clear.add_argument("--yes", action="store_true", help="do not ask")
    return parser
