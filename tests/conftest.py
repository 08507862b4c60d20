"""Options of the whole test suite: the fixed sample of `make test`, and `--accept` for golden files.

A test is in the sample of N per cent if the SHA-256 of its id says so: the same tests on every machine, in every
order and in every process, and a larger sample contains every smaller one.

The disk cache is off in tests, also in processes that they start, unless TILEWRIGHT_DISK_CACHE=1 turns it on.
"""

from __future__ import annotations

import hashlib
import os
import signal

import pytest

from tests.gpu import CUDA, ON_GPU

# What a test compiles is compiled, whatever an earlier run has left on disk; tests of the disk cache turn it on.
os.environ.setdefault("TILEWRIGHT_DISK_CACHE", "0")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell ignores Ctrl-C for what it starts in the background, and children inherit that: tests that send it hang.
    signal.signal(signal.SIGINT, signal.default_int_handler)

PTX = "ptx"             # the engine (`tilewright.testing.engines`)
PTX_PERCENT = 4.0       # of its tests in a run of all tests: about three minutes on two cores
ALWAYS_ON_PTX = "tests/lang/test_traps_"        # reports of others' faults: all of these run there

collect_ignore = [] if ON_GPU else ["gpu"]

SAMPLE = pytest.StashKey[tuple[int, int]]()     # (tests in the sample, tests collected)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tilewright")
    group.addoption("--sample", type=percentage, metavar="N",
                    help="run a fixed N per cent of the tests, chosen by the hash of their ids (default: all)")
    group.addoption("--ptx", type=percentage, metavar="N", default=PTX_PERCENT,
                    help="run a fixed N per cent of the tests of the slow engine `ptx` (default: %(default)s)")
    group.addoption("--kernels", type=int, metavar="N", default=200,
                    help="how many random kernels run on a GPU (default: %(default)s)")
    group.addoption("--accept", action="store_true", help="rewrite golden files with what came out")


def percentage(text: str) -> float:
    """`25`, `12.5` or `25%` as a number from 0 to 100."""
    value = float(text.rstrip("%"))
    if not 0 < value <= 100:
        raise ValueError(f"a sample is more than 0 and at most 100 per cent, not {text}")
    return value


def in_sample(test_id: str, percent: float) -> bool:
    """Whether the test belongs to the fixed sample of `percent` per cent."""
    number = int.from_bytes(hashlib.sha256(test_id.encode()).digest()[:8], "big")
    return number < percent / 100 * 2**64


def sampled_percentage(config: pytest.Config) -> float:
    """The size of the sample; everything if `--sample` is not given."""
    given = config.getoption("--sample")
    return 100.0 if given is None else given


def on_engine(item: pytest.Item, engine: str) -> bool:
    """Whether a test runs a kernel on an engine only because it runs it on every one."""
    call = getattr(item, "callspec", None)
    return call is not None and engine in (call.params.get("launch"), call.params.get("engine"))


def is_slow(item: pytest.Item) -> bool:
    """Whether only a sample of tests like this one runs by default."""
    return on_engine(item, PTX) and not item.nodeid.startswith(ALWAYS_ON_PTX)


def for_gpu(item: pytest.Item) -> bool:
    """Whether a test belongs to a run on a GPU."""
    return on_engine(item, CUDA) or item.nodeid.startswith(("tests/gpu/", "tests/torch/", "tests/corpus/test_f"))


def is_checked() -> bool:
    """Whether the suite runs with TILEWRIGHT_CHECK=1, so that launches which do not say otherwise are checked."""
    from tilewright.runtime import knobs  # after this file has set the environment

    return bool(knobs.snapshot()["check"])


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what says that it makes no sense in checked mode, with the reason that it gives."""
    mark = item.get_closest_marker("unchecked")
    if mark is not None and is_checked():
        pytest.skip(f"in checked mode: {mark.args[0]}")


@pytest.fixture
def accept(request: pytest.FixtureRequest) -> bool:
    """True when golden files are to be rewritten (`pytest --accept`)."""
    return bool(request.config.getoption("--accept"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    percent = sampled_percentage(config)
    ptx = config.getoption("--ptx") / 100 * percent
    chosen = [item for item in items
              if in_sample(item.nodeid, ptx if is_slow(item) else percent) and (not ON_GPU or for_gpu(item))]
    config.stash[SAMPLE] = (len(chosen), len(items))
    if len(chosen) < len(items):
        kept = set(chosen)
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = chosen


def pytest_sessionfinish(session: pytest.Session) -> None:
    """In a process of pytest-xdist: hand the counts to the process that prints the summary."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None and SAMPLE in session.config.stash:
        output["sample"] = session.config.stash[SAMPLE]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object) -> None:
    """In the process that prints the summary: every worker collected the same tests, so one count is enough."""
    counts = getattr(node, "workeroutput", {}).get("sample")
    if counts is not None:
        node.config.stash[SAMPLE] = tuple(counts)     # type: ignore[attr-defined]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    chosen, collected = config.stash.get(SAMPLE, (0, 0))
    if config.getoption("--sample") is not None:
        percent = sampled_percentage(config)
        terminalreporter.write_line(f"sample of {percent:g}% by hash of the test id: {chosen} of {collected} tests")
