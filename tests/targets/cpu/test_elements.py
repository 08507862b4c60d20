"""A loop in a function of elements that would never end is stopped like any other."""

import numpy as np

from tests.targets.cpu.harness import I1, I32, kernel, ptr, target
from tilewright.language.options import Options


def test_an_endless_loop_looks_at_the_cancel_word():
    """The launch's cancel word is set: the loop ends, and nothing is stored."""
    def body(b, x, o):
        i = b.iota(37)
        def forever(v):
            first = b.region([I32], lambda w: [b.const(1, I1), w], "condition")
            return [b.create("while", [v], {}, [first, b.region([I32], lambda w: [w])])[0]]
        b.store(b.at(o, i), b.op("map", b.load(b.at(x, i)), regions=[b.region([I32], forever)]))

    code = target().compile(kernel([("x", ptr(I32)), ("o", ptr(I32))], body), Options())
    assert code.metadata["polls_cancel"] and code.metadata["loops"]
    x, o = np.ones(37, np.int32), np.zeros(37, np.int32)
    words, scratch = np.zeros(32, np.int64), np.zeros(1024, np.int64)
    words[:3], words[3], words[4] = 1, -(-scratch.ctypes.data // 64) * 64, words[16:].ctypes.data
    words[6], words[24] = words[24:].ctypes.data, 1
    slots = np.array([x.ctypes.data, o.ctypes.data, *(a for v in (x, o) for a in (v.ctypes.data, v.ctypes.data + 148))])
    loaded = target().load(code)        # the code is mapped as long as this lives
    loaded.entry(slots.ctypes.data, 0, 1, words.ctypes.data)
    assert not o.any()
