"""Configs, launchers of one's own, and the key for caches outside the package."""

from __future__ import annotations

import copy
import subprocess
import sys

import pytest

import tilewright as triton
from tilewright.runtime.config import Config
from tilewright.runtime.fingerprint import triton_key
from tilewright.runtime.interface import KernelInterface


def test_all_kwargs_leaves_out_what_has_no_value() -> None:
    config = Config({"BLOCK": 64}, num_warps=8, pre_hook=print)
    assert config.all_kwargs() == {"BLOCK": 64, "num_warps": 8, "num_stages": 3, "num_ctas": 1}
    assert Config({}, maxnreg=32).all_kwargs()["maxnreg"] == 32


def test_equality_is_by_content() -> None:
    assert Config({"B": 1}) == Config({"B": 1}) and len({Config({"B": 1}), Config({"B": 1})}) == 1
    assert Config({"B": 1}) != Config({"B": 2}) and Config({"B": 1}) != Config({"B": 1}, num_warps=8)
    assert Config({"B": 1}) != Config({"B": 1}, pre_hook=print)


def test_text_and_copies() -> None:
    config = Config({"BLOCK": 64}, num_warps=8)
    assert str(config) == "BLOCK: 64, num_warps: 8, num_ctas: 1, num_stages: 3, maxnreg: None"
    assert copy.deepcopy(config) == config and copy.deepcopy(config).kwargs is not config.kwargs


def test_the_mapping_given_is_not_kept() -> None:
    given = {"BLOCK": 64}
    config = Config(given)
    given["BLOCK"] = 1
    assert config.kwargs == {"BLOCK": 64}


def test_interface() -> None:
    class Launcher(KernelInterface):
        def run(self, *args, grid, warmup, **kwargs):
            return args, grid, warmup, kwargs

    assert Launcher()[(3,)](1, 2, B=4) == ((1, 2), (3,), False, {"B": 4})
    assert Launcher().warmup(1, grid=(3,)) == ((1,), (3,), True, {})
    with pytest.raises(NotImplementedError, match="KernelInterface does not define run"):
        KernelInterface()[(1,)]()
    assert issubclass(triton.JITFunction, KernelInterface)


def test_key_is_the_same_in_every_process() -> None:
    code = "from tilewright.runtime.fingerprint import triton_key; print(triton_key())"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert other.stdout.strip() == triton_key() and triton.__version__ in triton_key()
