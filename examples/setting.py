"""Where an example runs: NumPy arrays on the CPU, or torch tensors on a GPU.

Every example takes `--help` and `--device auto|cpu|cuda`, gets its arrays from a `Setting`, and has its result checked
by it.  On the CPU nothing but NumPy is needed.
"""

from __future__ import annotations

import argparse
import importlib.util
from typing import Any

import numpy as np


class Setting:
    """The device of this run, arrays on it, and the check at the end."""

    def __init__(self, device: str) -> None:
        self.device = device
        self._numbers = np.random.default_rng(seed=0)

    @classmethod
    def from_command_line(cls, doc: str) -> Setting:
        """Read `--device`; `doc` is the example's docstring, which `--help` shows."""
        return cls(parse_arguments(doc).device)

    def random(self, *shape: int) -> Any:
        """Normally distributed float32 numbers; the same ones in every run."""
        return self._put(self._numbers.standard_normal(shape, dtype=np.float32))

    def zeros(self, *shape: int, dtype: str = "float32") -> Any:
        return self._put(np.zeros(shape, dtype))

    def empty_like(self, array: Any) -> Any:
        return self._put(np.empty_like(to_numpy(array)))

    def _put(self, array: np.ndarray) -> Any:
        if self.device == "cpu":
            return array
        import torch
        return torch.from_numpy(array).to(self.device)

    def check(self, what: str, result: Any, expected: Any, tolerance: float = 0.0) -> None:
        """Compare with NumPy's answer, say so, and end the example when it is wrong.

        `tolerance` is relative to the largest expected number; 0 asks for the same bits.
        """
        result, expected = to_numpy(result), to_numpy(expected)
        error = float(np.max(np.abs(result.astype(np.float64) - expected), initial=0.0))
        allowed = tolerance * float(np.max(np.abs(expected), initial=0.0))
        size = " x ".join(str(n) for n in result.shape)
        verdict = "OK" if error <= allowed else "WRONG"
        print(f"{what}: {size} numbers on {self.device}, error {error:.1e}, allowed {allowed:.1e} ... {verdict}")
        if verdict != "OK":
            raise SystemExit(1)


def to_numpy(array: Any) -> np.ndarray:
    """The numbers of an array or tensor, on the CPU."""
    return array if isinstance(array, np.ndarray) else array.detach().cpu().numpy()


def parse_arguments(doc: str) -> argparse.Namespace:
    """The command line that all examples share; `auto` has become `cpu` or `cuda`."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto",
                        help="auto (the default) takes a GPU if torch sees one and Tilewright has code for it")
    arguments = parser.parse_args()
    if arguments.device == "auto":
        arguments.device = "cuda" if has_nvidia_target() and sees_gpu() else "cpu"
    elif arguments.device == "cuda" and not (has_nvidia_target() and sees_gpu()):
        parser.exit(2, "--device cuda needs a GPU that torch sees, and Tilewright's NVIDIA target: "
                       f"{'no GPU here' if has_nvidia_target() else 'this version has code for CPUs only'}.\n")
    return arguments


def has_nvidia_target() -> bool:
    """Whether this version of Tilewright can generate code for NVIDIA GPUs."""
    return importlib.util.find_spec("tilewright.targets.nvidia") is not None


def sees_gpu() -> bool:
    """Whether torch is installed and finds a CUDA device."""
    if importlib.util.find_spec("torch") is None:
        return False
    import torch
    return bool(torch.cuda.is_available())
