"""The table of machine instructions: each has a meaning in the PTX machine."""

import re

import pytest

from tilewright.targets.nvidia import ptx
from tilewright.targets.nvidia.emit.instructions import INSTRUCTIONS


def has_meaning(opcode):
    parts = opcode.split(".")
    return any(".".join(parts[:n]) in ptx.opcodes() for n in range(1, len(parts) + 1))


def opcodes_of(text):
    """Those of the instructions of a line, which may be several in braces."""
    inside = text[2:-2] if text.startswith("{{") else text
    parts = (re.sub(r"^@\S+ ", "", part.strip()).split(" ")[0] for part in inside.split(";"))
    return [p for p in parts if p and p != ".reg"]


@pytest.mark.parametrize("row", INSTRUCTIONS.values(), ids=lambda row: row.name)
def test_every_instruction_can_be_executed(row):
    assert has_meaning(row.opcode)
    assert row.text is None or all(has_meaning(o.split("{")[0].rstrip(".")) for o in opcodes_of(row.text))


@pytest.mark.parametrize("row", INSTRUCTIONS.values(), ids=lambda row: row.name)
def test_an_instruction_is_written_in_one_way(row):
    assert (row.intrinsic is None) != (row.text is None)
    assert row.section and row.section[0].isdigit()
    if row.text is not None:
        assert row.text.endswith("; }}" if row.text.startswith("{{") else ";")
        assert row.opcode.split(".")[0] in [o.split(".")[0].split("{")[0] for o in opcodes_of(row.text)]
    if row.name in ("barrier", "warp_barrier", "barrier_and", "vote_all") or row.name.startswith("shuffle"):
        assert row.convergent


def test_an_opcode_without_a_meaning_is_noticed():
    assert not has_meaning("tcgen05.mma")
