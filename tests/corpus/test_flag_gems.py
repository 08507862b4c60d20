"""flag-gems as foreign code: its operators, on Tilewright, against torch's own.

Run by `make corpus`, which installs the package, on the CPU, and where it is installed by
`python -m tests.gpu tests/corpus/test_flag_gems.py` on a GPU; not a part of `make test`.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import pytest

from tests.corpus.gems import import_flag_gems, missing

if missing():
    pytest.skip(f"not installed: {', '.join(missing())}; `make corpus` installs them", allow_module_level=True)

import torch

from tests.corpus.operators import OPERATORS, Operator
from tests.gpu import ON_GPU
from tilewright.diagnostics import OutOfBoundsError
from tilewright.runtime import knobs

DEVICE = "cuda" if ON_GPU else "cpu"
# Products of float32 go through tensor cores on a GPU.
TOLERANCE = {torch.float32: 1e-3 if ON_GPU else 1e-4, torch.float16: 4e-3, torch.bfloat16: 3e-2, torch.float64: 1e-4}


@pytest.fixture(scope="module")
def gems() -> ModuleType:
    return import_flag_gems(ON_GPU)


def draw(*shape: int, dtype: torch.dtype = torch.float32, low: float | None = None, high: float = 2.0) -> torch.Tensor:
    """Random numbers from torch's default generator; without `low` normal ones."""
    values = torch.randn(shape) if low is None else torch.rand(shape) * (high - low) + low
    return values > 0 if dtype is torch.bool else values.to(dtype)


def copied(value: Any) -> Any:
    """A copy of the tensors in a value."""
    if isinstance(value, torch.Tensor):
        return value.clone()
    return [copied(v) for v in value] if isinstance(value, list) else value


def leaves(value: Any) -> Sequence[Any]:
    return [part for part in value if part is not None] if isinstance(value, tuple | list) else [value]


def check(gems: ModuleType, operator: Operator) -> None:
    """AssertionError unless the operator gives what torch gives."""
    torch.manual_seed(1)
    with torch.device(DEVICE):
        for arguments in operator.arguments:
            args = list(arguments(draw))
            want = leaves(operator.part(operator.reference(*copied(args), **operator.keywords)))
            got = leaves(operator.part(getattr(gems, operator.name)(*copied(args), **operator.keywords)))
            assert len(got) >= len(want)
            for mine, torchs in zip(got, want):
                tolerance = operator.tolerance * TOLERANCE.get(getattr(torchs, "dtype", None), 0)
                torch.testing.assert_close(mine, torchs, rtol=tolerance, atol=tolerance, equal_nan=True,
                                           check_device=False)


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.name)
def test_operator_is_torchs(gems: ModuleType, operator: Operator) -> None:
    if operator.wrong and not (ON_GPU and operator.is_right_on_gpus):
        with pytest.raises((AssertionError, AttributeError, OutOfBoundsError)):
            check(gems, operator)
        pytest.xfail(operator.wrong)
    with knobs.scope(check_bounds=not operator.outside):
        check(gems, operator)


def test_the_list_is_long_enough_and_nearly_all_of_it_works() -> None:
    assert len({operator.name for operator in OPERATORS}) == len(OPERATORS) >= 120
    assert sum(bool(operator.wrong) for operator in OPERATORS) <= 0.05 * len(OPERATORS)
