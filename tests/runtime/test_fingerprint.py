"""The texts that stand for the compiler and the machine in keys."""

import os
import shutil
import subprocess
import sys

import pytest

from tilewright.runtime import fingerprint
from tilewright.runtime.cache import Store
from tilewright.runtime.fingerprint import compiler_key, llvm_version, processor, sources, sources_hash, sources_state
from tilewright.version import VERSION


@pytest.fixture
def package(tmp_path):
    folder = tmp_path / "package"
    for name in ("a.py", "sub/b.py", "cli/c.py", "notes.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


def test_sources_are_what_code_depends_on(package):
    assert sorted(e.name for e in sources(package)) == ["a.py", "b.py"]
    names = {e.path.rpartition("tilewright" + os.sep)[2] for e in sources()}
    assert {"version.py", "lowering.py", os.path.join("targets", "llvm", "text.py")} <= names


def test_a_target_does_not_depend_on_another():
    everything, cpu = ({e.path for e in sources(target=target)} for target in ("", "cpu"))
    left_out = everything - cpu
    assert left_out and all(os.path.join("targets", "nvidia") + os.sep in path for path in left_out)


def test_content_counts_not_the_place(package, tmp_path):
    before = sources_hash(package)
    copy = shutil.copytree(package, tmp_path / "elsewhere")
    assert sources_hash(copy) == before
    (package / "cli" / "c.py").write_text("changed")
    assert sources_hash(package) == before
    (package / "sub" / "b.py").write_text("B.py")
    assert sources_hash(package) != before


def test_hash_is_made_once_for_a_state(package, tmp_path, monkeypatch):
    store = Store(tmp_path / "cache")
    made = []
    monkeypatch.setattr(fingerprint, "sources_hash", lambda folder, target: made.append(1) or f"hash{len(made)}")
    first = compiler_key(store, package)
    assert compiler_key(store, package) == first and len(made) == 1
    assert "hash1" in first and VERSION in first and sys.implementation.cache_tag in first
    os.utime(package / "a.py", (1, 1))
    assert compiler_key(store, package) != first and len(made) == 2
    assert compiler_key(Store(None), package) != first and len(made) == 3


def test_state_is_that_of_every_file(package):
    before = sources_state(package)
    (package / "new.py").write_text("")
    after = sources_state(package).split("\0")     # a path, then size and time
    number = after.index(str(package / "new.py"))
    assert before == "\0".join(after[:number] + after[number + 2:]) and len(after) == 6


def test_state_of_an_installed_package_is_that_of_its_list(package):
    before = sources_state(package)
    record = package.parent / f"package-{VERSION}.dist-info" / "RECORD"
    record.parent.mkdir()
    record.write_text("a list")
    installed = sources_state(package)
    assert installed != before and "a.py" not in installed
    os.utime(record, (1, 1))
    assert sources_state(package) != installed


def test_llvm_without_importing_it():
    code = "import sys; from tilewright.runtime.fingerprint import *; print(llvm_version(), 'llvmlite' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"{llvm_version()} False\n"
    import llvmlite
    assert llvmlite.__version__ in llvm_version()


@pytest.mark.skipif(not os.path.exists("/proc/cpuinfo"), reason="asks Linux")
def test_processor():
    text = processor()
    assert text == processor() and "MHz" not in text
    assert "flags" in text or "Features" in text
