"""`import triton` under the alias: what it is, where it is found, and what `install` says when it comes too late."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tilewright.compat import SHADOW

ROOT = Path(__file__).resolve().parents[2]
INSTALL = "import tilewright.compat\ntilewright.compat.install()\n"

# module of the alias -> the module whose public names it shows
STANDS_FOR = {
    "triton": "tilewright",
    "triton.testing": "tilewright.testing",
    "triton.language": "tilewright.language",
    "triton.language.core": "tilewright.language.core",
    "triton.language.math": "tilewright.language.math",
    "triton.language.standard": "tilewright.language.standard",
    "triton.runtime": "tilewright.runtime",
}


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `code` in a fresh interpreter that finds this checkout."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True,
                          env=variables, timeout=120)


def output(code: str, **environment: str) -> str:
    result = run(code, **environment)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def modules_of_the_alias() -> list[str]:
    files = sorted((SHADOW / "triton").rglob("*.py"))
    parts = [file.relative_to(SHADOW).with_suffix("").parts for file in files]
    return [".".join(p[:-1] if p[-1] == "__init__" else p) for p in parts]


def test_every_module_can_be_imported_first() -> None:
    """In any order: a submodule must not be missing because another one was not asked for before."""
    assert output(INSTALL + f"""
import importlib, sys
for name in {modules_of_the_alias()}:
    for loaded in [m for m in sys.modules if m.partition(".")[0] == "triton"]:
        del sys.modules[loaded]
    importlib.import_module(name)
    assert name in sys.modules
print("all")
""") == "all"


def test_submodules_are_the_aliass_own() -> None:
    """`triton.language` is the module that `import triton.language` loads, not Tilewright's, which may have less."""
    assert output(INSTALL + f"""
import importlib, sys, triton, types
assert "triton.profiler" not in sys.modules     # as in triton, until it is imported
for name in {[name for name in modules_of_the_alias() if name != 'triton']}:
    importlib.import_module(name)
    parent, _, child = name.rpartition(".")
    found = getattr(sys.modules[parent], child)
    assert found is sys.modules[name] or name == "triton.runtime.driver", name
loaded = [m for m in vars(triton).values() if isinstance(m, types.ModuleType) and m.__name__.startswith("tilewright")]
print(loaded)
""") == "[]"


def test_names_are_the_same_objects() -> None:
    assert output(INSTALL + f"""
import importlib, types
for alias_name, original_name in {STANDS_FOR}.items():
    alias, original = importlib.import_module(alias_name), importlib.import_module(original_name)
    names = [n for n in original.__all__ if n != "__version__"]
    names = [n for n in names if not isinstance(getattr(original, n), types.ModuleType)]
    assert names, original
    different = [n for n in names if getattr(alias, n, None) is not getattr(original, n)]
    assert not different, (alias_name, different)
print("same")
""") == "same"


def test_driver_is_an_object_and_a_module() -> None:
    assert output(INSTALL + """
import triton
from triton.runtime import driver
from triton.runtime.driver import driver as same
import tilewright.runtime.driver, sys
assert driver is same is triton.runtime.driver is sys.modules["tilewright.runtime.driver"].driver
print(driver.active.get_current_target().backend)
""") == "cpu"


def test_version() -> None:
    code = INSTALL + "import triton, importlib.metadata as m\nprint(triton.__version__, m.version('triton'))"
    assert output(code) == "3.6.0 3.6.0"
    assert output(code, TILEWRIGHT_TRITON_VERSION="3.5.1") == "3.5.1 3.5.1"


def test_subprocesses_have_the_alias() -> None:
    assert output(INSTALL + """
import subprocess, sys
code = "import importlib.metadata as m, triton; print(triton.__file__, m.version('triton'))"
print(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
""") == f"{SHADOW / 'triton' / '__init__.py'} 3.6.0"


def test_other_packages_keep_their_versions() -> None:
    assert output(INSTALL + """
import importlib.metadata, numpy
assert importlib.metadata.version("numpy") == numpy.__version__
print([d.version for d in importlib.metadata.distributions() if d.metadata["Name"] == "triton"][:1])
""") == "['3.6.0']"


def test_install_twice() -> None:
    code = INSTALL * 2 + "import triton\n" + INSTALL + "import sys\nprint(sum('shadow' in p for p in sys.path))"
    assert output(code) == "1"


@pytest.mark.parametrize("torch_part", [None, "torch._dynamo", "torch._inductor"])
def test_too_late_says_what_was_first(tmp_path: Path, torch_part: str | None) -> None:
    """Another triton is loaded, by the program or by the compiler of torch (here: stand-ins for both)."""
    (tmp_path / "triton").mkdir()
    (tmp_path / "triton" / "__init__.py").write_text("__version__ = '3.0.0'\n")
    loads = f"import sys, types\nsys.path.insert(0, {str(tmp_path)!r})\nimport triton\n"
    if torch_part:
        loads += f"sys.modules[{torch_part!r}] = types.ModuleType({torch_part!r})\n"
    result = run(loads + INSTALL)
    assert result.returncode == 1
    message = result.stderr.splitlines()[-1]
    assert message.startswith("RuntimeError: tilewright.compat.install() comes too late")
    assert "triton" in message and str(tmp_path) in message and "tilewright run" in message
    assert (torch_part is None) or torch_part in message


def test_messages_name_the_package_that_the_program_imports() -> None:
    code = """
import triton, triton.language as tl
@triton.jit
def kernel(x):
    tl.store(x, tl.tanh(1.0))
import numpy
try:
    kernel[(1,)](numpy.zeros(1, numpy.float32))
except triton.CompilationError as error:
    print(error.message)
"""
    said = "use libdevice.tanh (from {}.language.extra import libdevice)"
    assert output(INSTALL + code).endswith(said.format("triton"))
    own = code.replace("import triton, triton.", "import tilewright as triton, tilewright.")
    assert output(own).endswith(said.format("tilewright"))
