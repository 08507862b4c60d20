"""Attributes worked out when first read: tilewright/computed.py."""

import os
import threading

import pytest

from tilewright.computed import computed


class Thing:
    def __init__(self):
        self.calls = 0
        self.gate = None

    @computed
    def value(self):
        """What it is."""
        self.calls += 1
        if self.gate is not None:
            self.gate.wait(20)
        return [self.calls]


def test_it_is_worked_out_once_and_kept_in_the_instance():
    thing = Thing()
    assert "value" not in vars(thing)
    first = thing.value
    assert first == [1] and thing.value is first and thing.calls == 1
    assert Thing().value is not first
    assert Thing.value.__doc__ == "What it is."


def test_an_instance_does_not_wait_for_another():
    slow, quick = Thing(), Thing()
    slow.gate = threading.Event()
    thread = threading.Thread(target=lambda: slow.value)
    thread.start()
    seen = []
    other = threading.Thread(target=lambda: seen.append(quick.value), daemon=True)
    other.start()
    other.join(10)
    slow.gate.set()
    thread.join()
    assert seen == [[1]]


def test_two_threads_get_the_same_value():
    thing = Thing()
    thing.gate = threading.Barrier(2)
    seen = []
    threads = [threading.Thread(target=lambda: seen.append(thing.value)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 2 and seen[0] is seen[1] and thing.calls == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_process_does_not_wait_for_a_thread_that_it_does_not_have():
    slow, quick = Thing(), Thing()
    slow.gate = threading.Event()
    thread = threading.Thread(target=lambda: slow.value)
    thread.start()
    pid = os.fork()
    if pid == 0:
        os._exit(0 if quick.value == [1] else 1)
    timer = threading.Timer(20, os.kill, (pid, 9))
    timer.start()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    timer.cancel()
    slow.gate.set()
    thread.join()
    assert status == 0
