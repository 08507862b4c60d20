"""The texts that stand for the compiler and the machine in keys."""

import ast
import importlib.util
import os
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest

from tilewright.runtime import fingerprint
from tilewright.runtime.cache import Store
from tilewright.runtime.fingerprint import (
    PACKAGE,
    compiler_key,
    llvm_version,
    processor,
    sources,
    sources_hash,
    watched,
)
from tilewright.version import VERSION

LONG_AGO = 1_600_000_000


@pytest.fixture
def package(tmp_path):
    folder = tmp_path / "package"
    for name in ("a.py", "sub/b.py", "cli/c.py", "notes.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    settle(folder)
    return folder


def settle(folder):
    """Let everything in a folder be old."""
    for path in (folder, *folder.rglob("*")):
        os.utime(path, (LONG_AGO, LONG_AGO))


def names_of(paths):
    return [os.path.basename(path) for path in paths]


def test_sources_are_what_code_depends_on(package):
    files, folders = sources(package)
    assert names_of(files) == ["a.py", "b.py"] and names_of(folders) == ["package", "sub"]
    names = {path.rpartition("tilewright" + os.sep)[2] for path in sources()[0]}
    assert {"version.py", "lowering.py", os.path.join("targets", "llvm", "text.py")} <= names


def test_a_target_does_not_depend_on_another():
    everything, cpu = (set(sources(target=target)[0]) for target in ("", "cpu"))
    left_out = everything - cpu
    assert left_out and all(os.path.join("targets", "nvidia") + os.sep in path for path in left_out)


def imports_of(path):
    """The modules that a file names in imports, wherever they stand."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_what_is_left_out_is_not_imported_by_what_makes_code():
    """From all that a compilation begins with, by the imports that stand there, also inside functions."""
    left = ["tilewright.lowering", "tilewright.targets.cpu.target", "tilewright.targets.nvidia.target",
            "tilewright.targets.llvm.server", "tilewright.language"]
    seen = set()
    while left:
        name = left.pop()
        parts = name.split(".")
        path = PACKAGE.joinpath(*parts[1:])
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        if parts[0] != "tilewright" or len(parts) == 1 or name in seen or not file.is_file():
            continue        # the public face itself names everything
        seen.add(name)
        left += [".".join(parts[:k]) for k in range(2, len(parts))]
        left += imports_of(file)
    kept = {os.path.relpath(path, PACKAGE) for path in sources()[0]}
    files = {os.path.join(*name.split(".")[1:]) for name in seen}
    assert len(seen) > 200
    assert not [file for file in files if f"{file}.py" not in kept and os.path.join(file, "__init__.py") not in kept]


def test_content_counts_not_the_place(package, tmp_path):
    before = sources_hash(package)
    copy = shutil.copytree(package, tmp_path / "elsewhere")
    assert sources_hash(copy) == before
    (package / "cli" / "c.py").write_text("changed")
    assert sources_hash(package) == before
    (package / "sub" / "b.py").write_text("B.py")
    assert sources_hash(package) != before


@pytest.fixture
def made(monkeypatch):
    """A list that grows with each hash of a package's content."""
    hashes = []

    def counted(folder, target):
        hashes.append(sources_hash(folder, target))
        return hashes[-1]

    monkeypatch.setattr(fingerprint, "sources_hash", counted)
    return hashes


def test_hash_is_made_once_for_a_state(package, tmp_path, made):
    store = Store(tmp_path / "cache")
    first = compiler_key(store, package)
    assert compiler_key(store, package) == first and len(made) == 1
    assert made[0] in first and VERSION in first and sys.implementation.cache_tag in first
    os.utime(package / "a.py", (1, 1))
    assert compiler_key(store, package) == first and len(made) == 2     # the content is what it was
    assert compiler_key(store, package) == first and len(made) == 2
    assert compiler_key(Store(None), package) == first and len(made) == 3


def edit_in_place(package):
    with open(package / "a.py", "r+") as file:
        file.write("A")


def edit_by_renaming(package):
    (package / "new").write_text("A.py")
    os.replace(package / "new", package / "a.py")


CHANGES = {
    "in place": edit_in_place,
    "by renaming": edit_by_renaming,
    "longer": lambda package: (package / "sub" / "b.py").write_text("longer"),
    "a new file": lambda package: (package / "sub" / "new.py").write_text(""),
    "a file less": lambda package: (package / "sub" / "b.py").unlink(),
    "another name": lambda package: (package / "a.py").rename(package / "z.py"),
    "a new folder": lambda package: ((package / "more").mkdir(), (package / "more" / "a.py").write_text("")),
    "a folder less": lambda package: shutil.rmtree(package / "sub"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("settled", [True, False], ids=["later", "at once"])
def test_every_change_is_noticed(package, tmp_path, made, change, settled):
    store = Store(tmp_path / "cache")
    if not settled:     # the first process has seen files that are being written
        (package / "a.py").write_text("a.py")
    before = compiler_key(store, package)
    change(package)
    after = compiler_key(store, package)
    assert after != before and len(made) == 2
    assert compiler_key(store, package) == after


def test_what_does_not_count_is_not_noticed(package, tmp_path, made):
    store = Store(tmp_path / "cache")
    before = compiler_key(store, package)
    (package / "cli" / "c.py").write_text("changed")
    (package / "notes.txt").write_text("changed")
    assert compiler_key(store, package) == before and len(made) == 1


def test_files_that_were_written_just_now_are_read_again(package, tmp_path, made):
    """Until the next step of the file system's clock they may be written again with the same size and time."""
    store = Store(tmp_path / "cache")
    (package / "a.py").write_text("new!")
    status = os.stat(package / "a.py")
    first = compiler_key(store, package)
    (package / "a.py").write_text("NEW!")
    os.utime(package / "a.py", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert compiler_key(store, package) != first and len(made) == 2
    settle(package)
    assert compiler_key(store, package) == compiler_key(store, package) and len(made) == 3


def test_a_file_that_comes_while_the_folders_are_listed(package, tmp_path, made, monkeypatch):
    """What was listed without it is not taken for its state."""
    store, listed = Store(tmp_path / "cache"), fingerprint.watched

    def slowly(*args):
        paths = listed(*args)
        if not (package / "late.py").exists():
            (package / "late.py").write_text("")
            settle(package)
        return paths

    monkeypatch.setattr(fingerprint, "watched", slowly)
    first = compiler_key(store, package)
    assert compiler_key(store, package) == first and len(made) == 2
    assert compiler_key(store, package) == first and len(made) == 2


def test_an_installed_package_is_watched_by_its_list(package, tmp_path, made):
    record = package.parent / f"package-{VERSION}.dist-info" / "RECORD"
    record.parent.mkdir()
    record.write_text("a list")
    os.utime(record, (LONG_AGO, LONG_AGO))
    assert watched(package) == [str(record)]
    store = Store(tmp_path / "cache")
    first = compiler_key(store, package)
    assert compiler_key(store, package) == first and len(made) == 1
    (package / "a.py").write_text("another")
    record.write_text("another list")
    assert compiler_key(store, package) != first and len(made) == 2
    record.unlink()         # a source tree again
    assert compiler_key(store, package) != first and len(made) == 3


def test_llvm_without_importing_it():
    code = "import sys; from tilewright.runtime.fingerprint import *; print(llvm_version(), 'llvmlite' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"{llvm_version()} False\n"
    import llvmlite
    assert llvmlite.__version__ in llvm_version()


def test_llvm_is_the_one_that_an_import_finds(tmp_path, monkeypatch):
    (tmp_path / "llvmlite").mkdir()
    (tmp_path / "llvmlite" / "_version.py").write_text("version_version = '9.9'\nother = 1\n")
    llvm_version.cache_clear()
    try:
        monkeypatch.syspath_prepend(tmp_path)
        assert llvm_version() == "version_version = '9.9'"
        monkeypatch.setattr(sys, "path", [])
        llvm_version.cache_clear()
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
        assert llvm_version() == "none"
        spec = SimpleNamespace(origin=str(tmp_path / "llvmlite" / "__init__.py"))
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
        llvm_version.cache_clear()
        assert llvm_version() == "version_version = '9.9'"
    finally:
        llvm_version.cache_clear()


@pytest.mark.skipif(not os.path.exists("/proc/cpuinfo"), reason="asks Linux")
def test_processor():
    text = processor()
    assert text == processor() and "MHz" not in text
    assert "flags" in text or "Features" in text
