"""A process that runs tests one by one as they are sent to it: `python -m tests.gpu.worker ADDRESS PYTEST-ARGUMENTS`.

It connects to `tests.gpu.pool`, sends the ids of the tests that it has collected, and answers each id with a result.
An error that a GPU does not recover from (an access that nobody owns) ends the process when it has been told.
"""

from __future__ import annotations

import os
import sys
import time
from multiprocessing.connection import Client
from typing import Any

import pytest

from tilewright.targets.nvidia.driver.cuda import CUDA, CudaError
from tilewright.targets.nvidia.driver.device import Device

BROKEN = 70     # exit status: the GPU's context is lost


class OneByOne:
    """The plugin that runs what is asked for."""

    def __init__(self, connection: Any, uses_gpu: bool) -> None:
        self._connection, self._uses_gpu = connection, uses_gpu
        self._reports: list[pytest.TestReport] = []

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        self._connection.send(list(items))
        while True:
            try:
                name = self._connection.recv()
            except EOFError:
                return True
            if name is None:
                return True
            os.write(2, f"\nTEST {name}\n".encode())
            start = time.perf_counter()
            self._reports = []
            session.config.hook.pytest_runtest_protocol(item=items[name], nextitem=None)
            self._answer(time.perf_counter() - start)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._reports.append(report)

    def _answer(self, seconds: float) -> None:
        bad = next((r for r in self._reports if r.failed), None) or next((r for r in self._reports if r.skipped), None)
        outcome = "passed" if bad is None else str(bad.outcome)
        text = "" if bad is None else str(bad.longreprtext)
        reason = "" if bad is None else reason_of(bad)
        lost = self._lost()
        if lost is not None:
            outcome, reason = "failed", f"{reason} [{lost}]"
        self._connection.send((outcome, reason, text, seconds, lost is not None))
        if lost is not None:
            os._exit(BROKEN)

    def _lost(self) -> CudaError | None:
        """The error that every further call would end with."""
        if self._uses_gpu:
            try:
                with Device(0).current():
                    CUDA.call("cuCtxSynchronize")
            except CudaError as error:
                return error
        return None


def reason_of(report: pytest.TestReport) -> str:
    """One line."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None:
        return next((line for line in str(crash.message).splitlines() if line.strip()), "")
    return str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr).strip().split("\n")[-1]


def main() -> int:
    address, *arguments = sys.argv[1:]
    with Client(address) as connection:
        # capture=sys: file 1 of the process stays what it is, for what CUDA's driver and compute-sanitizer write
        plugin = OneByOne(connection, os.environ.get("TILEWRIGHT_TEST_ON_GPU") == "1")
        return int(pytest.main([*arguments, "-q", "--capture=sys", "-p", "no:cacheprovider"], plugins=[plugin]))


if __name__ == "__main__":
    sys.exit(main())
