"""What a process has once: made late, once, by the knobs; where the cache is."""

import os
import warnings
from pathlib import Path

import pytest

from tilewright.runtime import devices as devices_module
from tilewright.runtime import knobs
from tilewright.runtime.cache import Store
from tilewright.runtime.devices import Devices, LateCompiler, Objects, cache_folder
from tilewright.targets.llvm.inprocess import InProcess
from tilewright.targets.llvm.machine import Compiler, Machine


def settings(**values):
    return {**knobs.snapshot(), **values}


class Counting(Compiler):
    def __init__(self):
        self.asked = 0

    def host(self):
        self.asked += 1
        return Machine("t", "c", f"+f{self.asked}", "v")

    def products(self, request, name, meanwhile=None):
        return [b"code"]

    def prepare(self):
        self.asked += 100


def test_one_of_each_for_the_knobs_it_depends_on(tmp_path):
    made = Devices()
    assert made.cpu(settings()) is made.cpu(settings(dump=True))
    assert made.cpu(settings()) is not made.cpu(settings(num_threads=1))
    assert made.compiler(settings()) is made.compiler(settings(num_threads=1))
    assert isinstance(made.compiler(settings(compile_in_process=True)), InProcess)
    assert made.store(settings()) is not made.store(settings(disk_cache=True, cache_dir=str(tmp_path)))
    assert made.store(settings(disk_cache=False)).folder is None


def test_the_machine_is_asked_for_once_and_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(devices_module, "processor", lambda: "this one")
    store, compiler = Store(tmp_path / "cache"), Counting()
    first = LateCompiler(lambda: compiler, store).host()
    assert LateCompiler(lambda: compiler, store).host() == first == Machine("t", "c", "+f1", "v")
    monkeypatch.setattr(devices_module, "processor", lambda: "another one")
    assert LateCompiler(lambda: compiler, store).host().features == "+f2"
    monkeypatch.setattr(devices_module, "processor", lambda: None)
    assert LateCompiler(lambda: compiler, store).host().features == "+f3"
    assert LateCompiler(lambda: compiler, store).host().features == "+f4"


def test_a_compiler_is_made_when_it_is_needed():
    made = []
    late = LateCompiler(lambda: made.append(1) or Counting(), Store(None))
    assert not made
    late.prepare()
    assert late.compile(None, "k") == b"code" and made


def test_objects(tmp_path):
    objects = Objects(Store(tmp_path / "cache"))
    assert objects.get("key") is None
    objects.put("key", b"code")
    assert objects.get("key") == b"code" and objects.get("other") is None


def test_where_the_cache_is(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    none = settings(cache_dir="", cache_home="")
    assert cache_folder(none) == tmp_path / ".cache" / "tilewright"
    assert cache_folder({**none, "cache_home": str(tmp_path / "x")}) == tmp_path / "x" / "tilewright"
    assert cache_folder({**none, "cache_home": "relative"}) == tmp_path / ".cache" / "tilewright"
    assert cache_folder({**none, "cache_dir": "~/mine"}) == tmp_path / "mine"
    assert cache_folder({**none, "cache_dir": "mine"}) == Path.cwd() / "mine"


@pytest.mark.skipif(os.name == "nt", reason="HOME")
def test_no_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "missing"))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        made, given = Devices(), settings(disk_cache=True, cache_dir="", cache_home="")
        assert made.store(given).folder is None and made.store(given).folder is None
    assert len(found) == 1 and "no home folder" in str(found[0].message)
    assert not (tmp_path / "missing").exists()


def test_names_of_the_environment(monkeypatch):
    for name in ("cache_dir", "cache_home", "always_compile"):
        for variable in knobs.TABLE[name].variables:
            monkeypatch.delenv(variable, raising=False)
    for variable, name, value in (("TRITON_CACHE_DIR", "cache_dir", "a"), ("TILEWRIGHT_CACHE_DIR", "cache_dir", "b"),
                                  ("XDG_CACHE_HOME", "cache_home", "c"), ("TILEWRIGHT_CACHE_HOME", "cache_home", "d")):
        monkeypatch.setenv(variable, value)
        assert knobs.read(name) == value
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")
    assert knobs.read("always_compile") is True
