"""Every public name of triton 3.6 is under the alias: there, or a refusal that is listed with its reason.

`surface.txt` has the names, a module a line.  The checks run in a process of their own, where the alias is installed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tilewright.compat.refusals import REFUSED, RefusedName, refused_in

ROOT = Path(__file__).resolve().parents[2]
FILE = Path(__file__).parent / "surface.txt"
LOOK = """
import importlib, sys, tilewright.compat
tilewright.compat.install()
from tilewright.compat.refusals import RefusedName
for line in open(sys.argv[1]):
    module, _, names = line.partition(":")
    if line[0] == "#":
        continue
    try:
        found = importlib.import_module(module)
    except ImportError as error:
        print("no-module", module, error)
        continue
    for name in names.split():
        try:
            value = getattr(found, name)
        except AttributeError:
            print("missing", f"{module}.{name}")
        else:
            if isinstance(value, RefusedName):
                print("refused", f"{module}.{name}")
"""


def surface() -> Mapping[str, list[str]]:
    lines = [line.partition(":") for line in FILE.read_text().splitlines() if not line.startswith("#")]
    return {module: names.split() for module, _, names in lines}


@pytest.fixture(scope="module")
def seen() -> list[list[str]]:
    result = subprocess.run([sys.executable, "-c", LOOK, str(FILE)], capture_output=True, text=True, timeout=120,
                            env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert result.returncode == 0, result.stderr
    return [line.split(maxsplit=1) for line in result.stdout.splitlines()]


def test_every_module_can_be_imported_and_has_its_names(seen: list[list[str]]) -> None:
    assert [line for line in seen if line[0] != "refused"] == []


def test_what_is_refused_is_in_the_list_and_nothing_else(seen: list[list[str]]) -> None:
    refused = {what for kind, what in seen if kind == "refused"}
    listed = {f"{module}.{name}" for module, names in surface().items() for name in names
              if name in REFUSED.get(module, ()) or "*" in REFUSED.get(module, ())}
    there = {"triton.runtime.interpreter.InterpretedFunction", "triton.language.extra.hip.libdevice"}
    assert listed - refused == there        # a class, and a module that has refused names itself
    assert refused - listed == set()


def test_the_list_has_no_names_that_triton_lacks() -> None:
    names = surface()
    assert [f"{module}.{name}" for module, listed in REFUSED.items() for name in listed
            if name != "*" and name not in names.get(module, ())] == []


def test_refusals_are_few_among_what_kernels_are_written_with() -> None:
    """All of the language's own names are there, but for two types of triton's compiler."""
    assert sorted(REFUSED["triton.language"]) == ["slice", "tensor_descriptor_type"]
    assert "triton.language.math" not in REFUSED and "triton.language.random" not in REFUSED
    assert "triton.language.extra.libdevice" not in REFUSED


@pytest.mark.parametrize("use", [lambda x: x(), lambda x: x.anything, lambda x: x[0], lambda x: isinstance(1, x),
                                 lambda x: setattr(x, "a", 1), list,
                                 lambda x: x.__mro_entries__(())])
def test_use_of_a_refused_name_says_why(use: object) -> None:
    name = refused_in("triton.runtime.build")("compile_module_from_src")
    assert isinstance(name, RefusedName)
    with pytest.raises(NotImplementedError, match="triton.runtime.build.compile_module_from_src is not in Tilewright: "
                                                  "triton builds C code"):
        use(name)       # type: ignore[operator]


def test_names_that_are_in_no_list_are_no_names() -> None:
    """Programs probe for names of other versions and take what is there for a sign."""
    get = refused_in("triton.compiler.compiler")
    with pytest.raises(AttributeError, match="has no attribute 'AttrsDescriptor'"):
        get("AttrsDescriptor")
