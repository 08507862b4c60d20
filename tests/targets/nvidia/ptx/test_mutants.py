"""Texts with random damage: whatever comes, it runs, or an error says the PTX line; nothing else is raised."""

from __future__ import annotations

import random
import re

import pytest

from tests.targets.nvidia.ptx.test_faults import TEXTS
from tilewright.targets.nvidia.ptx import Fault, PtxSyntaxError

_TOKENS = re.compile(r"\s+|[%$\w.]+|[^\s\w]")


def damaged(text: str, chance: random.Random) -> str:
    """One or two tokens or a line lost, doubled, or put elsewhere, behind the module's head."""
    for _ in range(chance.choice((1, 1, 2))):
        tokens = _TOKENS.findall(text)
        at, way = chance.randrange(len(tokens) // 10, len(tokens)), chance.randrange(4)
        if way == 0:
            del tokens[at]
        elif way == 1:
            tokens[at] = chance.choice(tokens)
        elif way == 2:
            tokens.insert(at, chance.choice(tokens))
        text = "".join(tokens)
        if way == 3:
            lines = text.split("\n")
            del lines[chance.randrange(len(lines))]
            text = "\n".join(lines)
    return text


@pytest.mark.parametrize("name", ["reduction", "copies", "bulk", "atomic", "mma"])
@pytest.mark.parametrize("seed", range(3))
def test_damage(name: str, seed: int) -> None:
    text, go = TEXTS[name]
    chance = random.Random(f"{name} {seed}")
    for _ in range(12):
        try:
            go(damaged(text, chance), seed)
        except Fault as fault:
            assert fault.line > 0
            assert "the machine cannot" not in fault.message, str(fault)
        except PtxSyntaxError as error:
            assert error.line > 0
        except ValueError as error:
            assert re.search("parameter|argument|block|entry|threads", str(error))
