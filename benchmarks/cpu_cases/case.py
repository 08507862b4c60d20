"""What one row of the benchmark is, and the arrays that its kernels run on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch

Work = Callable[[], object]


@dataclass(frozen=True)
class Case:
    """A kernel of ours that fills `result`, and what else can do the same work, into the same memory where it can.

    `compiled` is a function and its arguments for `torch.compile`.  `expected` was computed by torch, often in double
    precision; `tolerance` is relative to its largest element.
    """

    name: str
    size: str
    ours: Work
    result: torch.Tensor
    expected: torch.Tensor
    tolerance: float
    rivals: Mapping[str, Work] = field(default_factory=dict)
    compiled: tuple[Callable[..., object], tuple[torch.Tensor, ...]] | None = None


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    """Normal float32 numbers, the same in every run."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def elements(n: int) -> str:
    """`n` as people write it: 1K, 64K, 1M."""
    for unit, name in ((1 << 20, "M"), (1 << 10, "K")):
        if n >= unit and n % unit == 0:
            return f"{n // unit}{name}"
    return str(n)
