"""torch's own compiler where the alias is installed: it takes the kernels, and the code generator, for triton's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = Path(__file__).parent / "torch_scripts"

USER_KERNELS = """\
use_add aot_eager
use_increment aot_eager
use_increment_of_a_view aot_eager
use_count aot_eager
use_increment inductor
[['out']] [['bins']]
fallbacks []
"""
OWN_KERNELS = """\
softmax
sum, argmax
cumsum, cast
sort
gather, where
worker
"""


@pytest.mark.parametrize("name, says", [("user_kernels", USER_KERNELS), ("own_kernels", OWN_KERNELS)])
def test_script(name: str, says: str, tmp_path: Path) -> None:
    pytest.importorskip("torch", minversion="2.11")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path),
                   "TORCHINDUCTOR_COMPILE_THREADS": "2"}
    result = subprocess.run([sys.executable, "-m", "tilewright", "run", str(SCRIPTS / f"{name}.py")], text=True,
                            capture_output=True, timeout=300, env=environment)
    assert result.returncode == 0, result.stderr
    assert result.stdout == says, result.stderr
