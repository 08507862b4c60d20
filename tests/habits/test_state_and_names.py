"""No hidden state, imports where one looks for them, names that say something, modules that say what they are."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.habits.source_files import FILES, ROOT, name_of, tree_of

EMPTY_NAMES = {"utils", "util", "helpers", "helper", "common", "misc"}

# Files that may look at the environment -> why.
READS_ENVIRONMENT: Mapping[str, str] = {
    "tilewright/runtime/knobs.py": "the table of knobs",
    "tilewright/compat/alias.py": "hands the alias to subprocesses through PYTHONPATH",
}

# Files with an import inside a function -> why it is not at the top.
IMPORTS_LATE: Mapping[str, str] = {
    "tilewright/__init__.py": "what builds on torch is loaded by the first launch in a function that torch compiles",
    "tilewright/runtime/devices.py": "a kernel from the disk cache needs neither LLVM nor a compile child",
    "tilewright/runtime/fingerprint.py": "hashlib loads a large library that nearly no process needs",
    "tilewright/runtime/autotune.py": "a pool of threads is loaded when there is something to tune",
    "tilewright/runtime/build.py": "a kernel from the disk cache needs no compiler",
    "tilewright/runtime/jit.py": "the compiler and the eager engine are loaded by the first launch that needs them",
    "tilewright/runtime/launch.py": "the interpreter is loaded when a memory fault has to be explained",
    "tilewright/runtime/driver.py": "what speaks to NVIDIA's driver is loaded when a GPU is asked about",
    "tilewright/targets/base.py": "hashlib loads a large library that nearly no process needs",
    "tilewright/testing/engines.py": "what speaks to NVIDIA's driver is loaded for a launch on a GPU",
    "tilewright/targets/cpu/target.py": "a kernel from the disk cache is loaded without what generates code",
    "tilewright/targets/cpu/host/choice.py": "the portable host loads LLVM",
    "tilewright/targets/cpu/host/library.py": "the writer of the pool's text is loaded when no stored code is found",
    "tilewright/targets/cpu/host/linux.py": "only kernels that are launched more than once get a native launcher",
    "tilewright/targets/llvm/machine.py": "a kernel from the disk cache needs no compile child",
    "tilewright/targets/llvm/cubin.py": "few compile children run ptxas, and their start is part of a compilation",
    "tilewright/targets/nvidia/driver/kernel.py": "what writes the launch's code, which mostly is on disk",
    "tilewright/targets/nvidia/target.py": "a kernel from the disk cache is loaded without what generates code",
    "tilewright/testing/report.py": "pandas and matplotlib are extras, needed by those who ask for a plot",
}


def attribute_chains(tree: ast.Module) -> Iterator[str]:
    """Every `a.b` of the file as text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield f"{node.value.id}.{node.attr}"


def late_imports(tree: ast.Module) -> list[int]:
    """Lines of import statements inside functions."""
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)]
    return sorted({inner.lineno for f in functions for inner in ast.walk(f)
                   if isinstance(inner, ast.Import | ast.ImportFrom)})


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_module_says_what_it_is(path: Path) -> None:
    tree = tree_of(path)
    assert not tree.body or ast.get_docstring(tree), f"{name_of(path)} has no docstring"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_the_tests_that_a_module_names_exist(path: Path) -> None:
    named = re.findall(r"tests/[\w/]+\.py", path.read_text())
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_no_hidden_state(path: Path) -> None:
    tree = tree_of(path)
    assert [n.lineno for n in ast.walk(tree) if isinstance(n, ast.Global)] == [], "`global` statements"
    assert "threading.local" not in attribute_chains(tree)


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_environment_is_read_in_one_place(path: Path) -> None:
    reads = {"os.environ", "os.getenv", "os.putenv"} & set(attribute_chains(tree_of(path)))
    assert bool(reads) == (name_of(path) in READS_ENVIRONMENT)


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_imports_are_at_the_top(path: Path) -> None:
    lines = late_imports(tree_of(path))
    assert bool(lines) == (name_of(path) in IMPORTS_LATE), f"imports inside functions at lines {lines}"


# Files whose late imports may be under way when the process is forked -> why.
IMPORTS_OVER_A_FORK: Mapping[str, str] = {
    "tilewright/__init__.py": "torch's compiler reads the function, and knows no lock of ours",
    "tilewright/testing/engines.py": "for tests",
    "tilewright/testing/report.py": "for benchmarks",
}


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_late_imports_hold_up_forks(path: Path) -> None:
    """A process that is forked while a thread imports finds the module's lock taken for ever (`tilewright.locks`)."""
    tree = tree_of(path)
    held = {line for node in ast.walk(tree) if isinstance(node, ast.With)
            and any(ast.unparse(item.context_expr) == "NO_FORK" for item in node.items)
            for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    assert name_of(path) in IMPORTS_OVER_A_FORK or not set(late_imports(tree)) - held, "import under `with NO_FORK:`"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_name_says_something(path: Path) -> None:
    if "shadow" in path.parts:      # the names there are triton's
        return
    parts = {path.stem, *path.relative_to(ROOT).parent.parts}
    assert not parts & EMPTY_NAMES


def test_lists_name_files_that_exist() -> None:
    listed = (*READS_ENVIRONMENT, *IMPORTS_LATE, *IMPORTS_OVER_A_FORK)
    assert [name for name in listed if not (ROOT / name).is_file()] == []


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_no_attribute_takes_the_lock_of_its_class(path: Path) -> None:
    """Until Python 3.12 `functools.cached_property` holds one while it computes, also over a fork."""
    names = {alias.name for node in ast.walk(tree_of(path)) if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert "cached_property" not in names and "functools.cached_property" not in attribute_chains(tree_of(path)), \
        f"{name_of(path)}: use tilewright.computed"
