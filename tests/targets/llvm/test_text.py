"""The writer's output is what LLVM takes, and it runs as written."""

import ctypes
import subprocess
import sys

import numpy as np
import pytest

from tests.targets.llvm.harness import MACHINES, loader, run_map
from tilewright.diagnostics import InternalError
from tilewright.targets.llvm import toolchain
from tilewright.targets.llvm.isa import Isa
from tilewright.targets.llvm.text import ModuleWriter
from tilewright.targets.llvm.types import DOUBLE, FLOAT, I1, I32, I64, PTR, Type, Value, constant, constant_lanes, zero

HOST = MACHINES["host"]


def build(params, result, body):
    """A function of integers written by body(f, *params); returns it as a Python callable."""
    module = ModuleWriter(HOST.isa)
    f = module.function("f", [(f"p{k}", t) for k, t in enumerate(params)], result)
    f.ret(body(f, *f.params))
    loaded = loader().load(toolchain.compile_object(module.text(), HOST).binary, "f")
    ctype = {"i64": ctypes.c_int64, "ptr": ctypes.c_void_p}
    function = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctype[t.element] for t in params])(loaded.address)

    def call(*args):
        assert loaded.address
        return function(*args)

    return call


def test_the_address_of_the_first_element_takes_no_instruction():
    module = ModuleWriter(HOST.isa)
    f = module.function("f", [("a", PTR), ("n", I64)], PTR)
    a, n = f.params
    assert f.gep(a, 0, I32) == f.gep(a, constant(I64, 0), I32) == a
    lanes = f.gep(a, constant_lanes("i64", [0, 0]), I32)
    assert lanes.type == Type("ptr", 2) and f.gep(lanes, 0, I32) == lanes and f.gep(a, n, I32) != a


def test_loop_carries_values():
    def body(f, n):
        total, last = f.loop(constant(I64, 0), n, constant(I64, 3), lambda i, v: (f.op("add", v[0], i), i),
                             (constant(I64, 0), constant(I64, -1)))
        return f.op("add", f.op("mul", total, constant(I64, 1000)), last)

    function = build([I64], I64, body)
    for n in (-5, 0, 1, 3, 4, 20):
        steps = list(range(0, n, 3))
        assert function(n) == sum(steps) * 1000 + (steps[-1] if steps else -1)


def test_nested_control_flow():
    """A branch inside a loop inside a loop: phis name the blocks that really precede them."""
    def body(f, n):
        def inner(j, v):
            odd = f.icmp("ne", f.op("and", j, constant(I64, 1)), constant(I64, 0))
            return f.branch(odd, lambda: (f.op("add", v[0], j),), lambda: (f.op("sub", v[0], constant(I64, 1)),))

        return f.loop(constant(I64, 0), n, constant(I64, 1),
                      lambda i, v: f.loop(constant(I64, 0), i, constant(I64, 1), inner, v), (constant(I64, 0),))[0]

    assert build([I64], I64, body)(9) == sum(j if j % 2 else -1 for i in range(9) for j in range(i))


def test_while_and_one_armed_branch():
    def body(f, n):
        slot = f.alloca(I64, align=8)
        f.store(constant(I64, 0), slot, 8)

        def step(v):
            f.branch(f.icmp("eq", v[0], constant(I64, 8)), lambda: f.store(constant(I64, 77), slot, 8) or ())
            half = f.op("lshr", v[0], constant(I64, 1))
            return (half, f.op("add", v[1], constant(I64, 1)))

        _, count = f.while_loop((n, constant(I64, 0)), lambda v: f.icmp("ugt", v[0], constant(I64, 1)), step)
        return f.op("add", count, f.load(slot, I64, 8))

    function = build([I64], I64, body)
    assert function(1) == 0 and function(100) == 6 and function(64) == 6 + 77


def test_stack_slots_do_not_pile_up():
    """A slot asked for in a loop is made once, on entry: 10**6 rounds of 4 KiB would overrun the stack."""
    def body(f, n):
        def step(i, v):
            slot = f.alloca(I64, 512)
            f.store(i, slot, 8, suffix="")
            return (f.op("add", v[0], f.load(slot, I64, 8)),)

        return f.loop(constant(I64, 0), n, constant(I64, 1), step, (constant(I64, 0),))[0]

    assert build([I64], I64, body)(10**6) == sum(range(10**6))


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_masked_accesses_touch_only_their_lanes(machine):
    """The masked intrinsics in LLVM 22's form: alignment as an attribute of the pointer."""
    module = ModuleWriter(machine.isa)
    f = module.function("f", [("a", PTR), ("out", PTR), ("n", I64)])
    a, out, n = f.params
    mask = f.prefix_mask(n, 8)
    v = f.masked_load(a, mask, constant(Type("i32", 8), -1), 4)
    f.masked_store(v, out, mask, 4)
    index = constant_lanes("i64", [7, 6, 5, 4, 3, 2, 1, 0])
    places = f.gep(a, index, I32)
    w = f.gather(places, mask, zero(Type("i32", 8)), 4)
    f.scatter(w, f.gep(f.gep(out, 8, I32), index, I32), mask, 4)
    f.ret()
    loaded = loader().load(toolchain.compile_object(module.text(), machine).binary, "f")
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(loaded.address)
    data = np.arange(10, 18, dtype=np.int32)
    for count in (-(1 << 40), -1, 0, 1, 3, 8, 9, 1 << 40):
        result = np.full(16, 99, np.int32)
        call(data.ctypes.data, result.ctypes.data, count)
        k = min(max(count, 0), 8)
        expected = np.full(16, 99, np.int32)
        expected[:k] = data[:k]
        expected[16 - k:] = data[8 - k:]
        assert (result == expected).all(), count


def parses_in_a_child(text):
    """Whether LLVM takes a module; asked in another process, since LLVM ends its process on some modules."""
    code = "import sys, llvmlite.binding as b; b.parse_assembly(sys.stdin.read()).verify()"
    return subprocess.run([sys.executable, "-c", code], input=text, text=True, capture_output=True,
                          timeout=60).returncode == 0


def test_masked_intrinsics_are_declared_in_the_new_form():
    """LLVM 22 takes the alignment as an attribute; a declaration in the old form, beside such calls, is deadly."""
    module = ModuleWriter(HOST.isa)
    f = module.function("f", [("p", PTR), ("m", Type("i1", 4))], Type("float", 4))
    p, mask = f.params
    f.ret(f.masked_load(p, mask, zero(Type("float", 4)), 4))
    text = module.text()
    assert parses_in_a_child(text)
    old = text.replace("@llvm.masked.load.v4f32.p0(ptr, <4", "@llvm.masked.load.v4f32.p0(ptr, i32, <4")
    assert old != text and not parses_in_a_child(old)


def test_vector_instructions():
    x = np.arange(32, dtype=np.float32)

    def emit(f, v):
        lanes = v.type.lanes
        reversed_ = f.shuffle(v, v, range(lanes - 1, -1, -1))
        first = f.splat(f.extract(v, 0), lanes)
        last = f.insert(f.fneg(reversed_), f.extract(v, constant(I64, 3)), 1)
        return f.op("fadd", first, last)

    got = run_map(emit, [x], [FLOAT], FLOAT, np.float32, HOST, 8)
    want = np.concatenate([-part[::-1] + part[0] for part in x.reshape(4, 8)]).reshape(4, 8)
    want[:, 1] = x.reshape(4, 8)[:, 0] + x.reshape(4, 8)[:, 3]
    assert (got == want.ravel()).all()


def test_any_and_all():
    def body(f, n):
        v = f.splat(n, 4)
        mask = f.icmp("sgt", v, constant_lanes("i64", [0, 1, 2, 3]))
        some, every = (f.cast("zext", r, I64) for r in (f.any_lane(mask), f.all_lanes(mask)))
        return f.op("add", some, f.op("mul", every, constant(I64, 10)))

    function = build([I64], I64, body)
    assert [function(k) for k in (0, 1, 3, 4)] == [0, 1, 1, 11]


def test_fma_is_fused_only_where_the_machine_can():
    for isa, used in ((Isa(fma=True), True), (Isa(), False)):
        module = ModuleWriter(isa)
        f = module.function("f", [("x", DOUBLE)], DOUBLE)
        f.ret(f.fma(*f.params * 3))
        assert ("llvm.fma" in module.text()) is used


def test_no_fast_math_unless_asked():
    module = ModuleWriter(HOST.isa)
    f = module.function("f", [("x", FLOAT)], FLOAT)
    x = f.params[0]
    f.ret(f.op("fadd", f.fma(x, x, x), f.unary_intrinsic("sqrt", x)))
    assert not any(flag in module.text() for flag in ("fast", "contract", "reassoc", "nnan", "ninf", "arcp", "afn"))


def test_a_bad_line_is_named():
    module = ModuleWriter(HOST.isa)
    f = module.function("f", [("x", I32)], I1)
    f.ret(f.icmp("eq", f.params[0], Value(I32, "%nowhere")))
    with pytest.raises(InternalError, match=r"line \d+: %v1 = icmp eq i32 %x, %nowhere"):
        toolchain.compile_object(module.text(), HOST)
