"""Which int32 values below an offset are index arithmetic that does not wrap."""

from tests.targets.cpu.harness import F32, I8, I32, I64, kernel, ptr
from tilewright.analysis.offsets import Offsets
from tilewright.ir.walk import ops_in


def counted(build):
    """For the one offset of a kernel: how many sums and products below it are taken without wrapping."""
    def body(b, x, n, t):
        offset = build(b, n, t)
        b.store(b.at(x, offset), b.const(0.0, F32, (16,)))

    module = kernel([("x", ptr(F32)), ("n", I32), ("t", ptr(I32))], body)
    (add,) = (op for op in ops_in(module.entry.body)
              if op.name == "ptr_add" and base(module, op) is module.entry.params[0])
    through = Offsets(module).through(add.operands[1])
    return sum(op.name in ("add", "sub", "mul") and op.result in through for op in ops_in(module.entry.body))


def base(module, op):
    """The parameter that a pointer comes from."""
    made = {r: o for o in ops_in(module.entry.body) for r in o.results}
    source = op.operands[0]
    while source in made:
        source = made[source].operands[0]
    return source


def loaded(b, t):
    return b.load(b.at(t, b.iota(16)))


def hashed(b):
    return b.add(b.mul(b.iota(16), 1664525), 1013904223)


def test_programs_parameters_and_indices():
    assert counted(lambda b, n, t: b.add(b.mul(b.pid(), n), b.iota(16))) == 2
    assert counted(lambda b, n, t: b.op("ext_s", b.add(b.mul(b.pid(), 16), b.iota(16)), to=I64)) == 2


def test_a_loaded_number_wraps():
    assert counted(lambda b, n, t: b.add(b.mul(loaded(b, t), n), b.iota(16))) == 0
    assert counted(lambda b, n, t: b.add(b.load(t), b.iota(16))) == 0


def test_beside_a_loaded_int64_an_index_does_not_wrap():
    def offset(b, n, t):
        index = b.op("ext_s", b.add(b.mul(b.pid(), 16), b.iota(16)), to=I64)
        return b.add(index, b.op("ext_s", loaded(b, t), to=I64))
    assert counted(offset) == 2


def test_a_remainder_of_indices_is_an_index():
    assert counted(lambda b, n, t: b.mul(b.binary("rem_s", b.add(b.mul(b.pid(), 16), b.iota(16)), n), n)) == 1


def test_what_a_bit_operation_sees_wraps():
    def low_bits(b, n, t):
        h = hashed(b)
        return b.binary("sub", h, b.binary("and", h, -16))
    assert counted(low_bits) == 0


def test_narrow_integers_wrap():
    def narrow(b, n, t):
        a = b.op("trunc", b.iota(16), to=I8)
        return b.add(b.op("ext_s", b.add(a, a), to=I32), 1)
    assert counted(narrow) == 0


def test_what_goes_round_a_loop():
    def offset(b, n, t):
        return b.mul(b.for_(0, n, 1, [b.iota(16)], lambda i, at: [b.add(at, 16)])[0], n)
    assert counted(offset) == 1

    def from_memory(b, n, t):
        return b.mul(b.for_(0, n, 1, [b.iota(16)], lambda i, at: [loaded(b, t)])[0], n)
    assert counted(from_memory) == 0
