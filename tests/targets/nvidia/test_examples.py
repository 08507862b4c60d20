"""The kernels of all examples become cubins for every architecture: no advice of ptxas is ignored, nothing spills."""

import importlib.util
import sys
from pathlib import Path

import pytest

from tilewright.lowering import finish, lower
from tilewright.runtime.jit import JITFunction
from tilewright.targets.nvidia import NvidiaTarget
from tilewright.targets.nvidia.assemble import find_assembler

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = sorted((ROOT / "examples").glob("0[1-6]_*.py"))
ARCHITECTURES = (80, 90, 100, 120)

pytestmark = pytest.mark.skipif(find_assembler() is None, reason="no ptxas or nvJitLink on this machine")


def launches_of(path, monkeypatch):
    """Run an example on the CPU; (kernel, arguments, keywords) of the first launch of each of its kernels."""
    seen = {}
    launch_on = JITFunction.__getitem__

    def noting(function, grid):
        launch = launch_on(function, grid)

        def noted(*args, **kwargs):
            seen.setdefault(function.__name__, (function, args, kwargs))
            return launch(*args, **kwargs)

        return noted

    monkeypatch.setattr(JITFunction, "__getitem__", noting)
    monkeypatch.setattr(sys, "argv", [str(path), "--device", "cpu"])
    monkeypatch.syspath_prepend(str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.main()
    return list(seen.values())


def compiled(kernel, args, kwargs, target):
    values, given = kernel.bind(args, kwargs)
    split = kernel.specializer.split(values)
    signature = kernel.specializer.signature(split.atoms, values, True, False)
    return finish(lower(kernel, signature, kernel.options(given)).with_facts(True, False), target)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_cubins(path, monkeypatch, capsys):
    launches = launches_of(path, monkeypatch)
    assert launches
    for kernel, args, kwargs in launches:
        for number in ARCHITECTURES:
            code = compiled(kernel, args, kwargs, NvidiaTarget(number))
            assert code.binary.startswith(b"\x7fELF"), number
            assert code.metadata["advisories"] == [] and code.metadata["spill_bytes"] == 0, (number, kernel)
