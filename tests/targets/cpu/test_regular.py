"""Regular dimensions of tiles of addresses, found while a kernel is generated."""

import pytest

from tests.targets.cpu.harness import F32, I32, I64, kernel, ptr, target, vector_bits
from tilewright.ir.types import element_of
from tilewright.targets.cpu import extents, regular
from tilewright.targets.cpu.generate import generate

PARAMS = [("x", ptr(F32)), ("index", ptr(I32)), ("n", I32), ("big", I64)]


def found_for(monkeypatch, body):
    """The regular dimensions of the first access to `x` in a kernel."""
    seen = []
    real = extents.Guards.tiles

    def spy(self, ops):
        ops = list(ops)
        for op in ops:
            if extents.is_access(op) and element_of(op.operands[0].type).element == F32:
                pointer = op.operands[0]
                seen.append((regular.regular(self.kernel, pointer), regular.constant_along(self.kernel, pointer)))
        real(self, ops)

    monkeypatch.setattr(extents.Guards, "tiles", spy)
    generate(kernel(PARAMS, body), target().machine.isa, vector_bits(target().machine))
    return seen[0]


def loaded(b, index, n):
    return b.load(b.at(index, b.iota(n)))


def wide(b, value):
    return b.op("ext_s", value, to=I64)


CASES = {
    "rows of a table": (lambda b, x, index, n, big: b.add(
        b.mul(b.col(loaded(b, index, 4)), n), b.row(b.iota(8))), {1}, set()),
    "equal in a row": (lambda b, x, index, n, big: b.op(
        "broadcast", b.col(loaded(b, index, 4)), shape=(4, 8)), {1}, {1}),
    "another step in each row": (lambda b, x, index, n, big: b.mul(
        b.op("ext_s", b.col(loaded(b, index, 4)), to=I64), b.op("ext_s", b.row(b.iota(8)), to=I64)), {1}, set()),
    "another step in each row, which may wrap": (lambda b, x, index, n, big: b.mul(
        b.col(loaded(b, index, 4)), b.row(b.iota(8))), set(), set()),
    "rows at loaded places": (lambda b, x, index, n, big: b.add(
        b.mul(b.col(loaded(b, index, 4)), b.const(64, I32, (4, 1))), b.row(b.iota(8))), {1}, set()),
    "a square": (lambda b, x, index, n, big: b.mul(
        b.op("broadcast", b.row(b.iota(8)), shape=(4, 8)), b.op("broadcast", b.row(b.iota(8)), shape=(4, 8))),
        {0}, {0}),
    "turned": (lambda b, x, index, n, big: b.op("permute", b.add(
        b.mul(b.col(loaded(b, index, 4)), n), b.row(b.iota(8))), order=(1, 0)), {0}, set()),
    "a step that may leave 64 bits": (lambda b, x, index, n, big: b.add(
        wide(b, b.op("broadcast", b.col(loaded(b, index, 4)), shape=(4, 8))),
        b.op("broadcast", b.mul(wide(b, b.row(b.iota(8))), big), shape=(4, 8))), set(), set()),
    "a remainder": (lambda b, x, index, n, big: b.add(
        b.col(loaded(b, index, 4)), b.binary("rem_s", b.row(b.iota(8)), n)), set(), set()),
    "reshaped": (lambda b, x, index, n, big: b.op("reshape", b.add(
        b.mul(b.col(loaded(b, index, 4)), n), b.row(b.iota(8))), shape=(32,)), set(), set()),
}


@pytest.mark.parametrize("name", CASES)
def test_regular_dimensions(monkeypatch, name):
    offset, ends, equal = CASES[name]

    def body(b, x, index, n, big):
        at = b.at(x, offset(b, x, index, n, big))
        b.store(at, b.load(at))

    assert found_for(monkeypatch, body) == (ends, equal)
