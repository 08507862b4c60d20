"""The pool of processes that runs tests on a GPU: every test gets a result, whatever becomes of its process."""

from __future__ import annotations

from pathlib import Path

from tests.gpu.__main__ import reported, table
from tests.gpu.pool import Pool

TESTS = """
import os, time
import pytest

def test_fine():
    assert True

def test_wrong():
    assert 1 + 1 == 3

def test_left_out():
    pytest.skip("not today")

def test_dies():
    os._exit(9)

def test_hangs():
    time.sleep(600)

@pytest.mark.parametrize("n", range(6))
def test_many(n):
    os.write(1, b"========= Error: Race reported between two writes\\n" if n == 3 else b"nothing\\n")
"""


def test_each_test_gets_a_result(tmp_path: Path) -> None:
    (tmp_path / "test_sample.py").write_text(TESTS)
    seen = []
    pool = Pool([str(tmp_path / "test_sample.py"), "--rootdir", str(tmp_path)], 2, 2.0, tmp_path,
                environment={"TILEWRIGHT_TEST_ON_GPU": "0"}, report=seen.append)
    results = {r.test.partition("::")[2]: r for r in pool.run()}
    assert {name: r.outcome for name, r in results.items()} == {
        "test_fine": "passed", "test_wrong": "failed", "test_left_out": "skipped", "test_dies": "failed",
        "test_hangs": "failed", **{f"test_many[{n}]": "passed" for n in range(6)}}
    assert "1 + 1" in results["test_wrong"].reason and "assert" in results["test_wrong"].text
    assert results["test_left_out"].reason == "Skipped: not today"
    assert results["test_dies"].reason == "the process ended with status 9"
    assert results["test_hangs"].reason == "no end within 2 s"
    assert len(seen) == len(results) and not pool.left
    assert list(reported(tmp_path)) == [("test_sample.py::test_many[3]", "Error: Race reported between two writes")]
    assert table(list(results.values()), ["test_sample.py::test_late"]).splitlines()[-1].split() == \
        ["all", "7", "3", "1", "1", *table(list(results.values()), []).split()[-1:]]
