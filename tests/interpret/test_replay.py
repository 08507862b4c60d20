"""Finding the access of a memory fault: one program, interpreted on memory that stays as it is."""

import numpy as np

from tilewright.diagnostics import Location
from tilewright.interpret import replay
from tilewright.interpret.memory import extent_of
from tilewright.interpret.replay import find_access
from tilewright.ir.parse import parse_module
from tilewright.ir.walk import ops_in

MODULE = """
module @k

func @k(%x: ptr<f32>, %far: i64) {
  %pid = program_id [axis = 0] : i32
  %p = ptr_add %x, %pid : ptr<f32>
  %v = load %p : f32
  store %p, %v
  %two = constant 2 : i32
  %is = cmp_eq %pid, %two : i1
  %zero = constant 0 : i64
  %off = select %is, %far, %zero : i64
  %q = ptr_add %x, %off : ptr<f32>
  store %q, %v
  return
}
"""


def find(program, far, address, module=MODULE):
    x = np.arange(8, dtype=np.float32)
    parsed = parse_module(module)
    accesses = [op for op in ops_in(parsed.entry.body) if op.name in ("load", "store")]
    places = {id(op): Location("user.py", k, 1) for k, op in enumerate(accesses)}
    found = find_access(parsed, (4, 1, 1), program, (x.ctypes.data, far), [extent_of("x", x)],
                        address if address is not None else x.ctypes.data + 4 * far, places)
    assert (x == np.arange(8)).all()        # nothing is stored
    return found


def test_the_access_that_cannot_be_read():
    found = find(2, 1 << 40, 0)
    assert (found.bad.argument, found.bad.index, found.location.line) == ("x", 1 << 40, 2)


def test_the_access_of_the_address():
    """Outside of the argument, but readable: the address tells."""
    found = find(2, -3, None)
    assert (found.bad.argument, found.bad.index, found.location.line) == ("x", -3, 2)


def test_programs_that_are_innocent():
    assert find(1, 1 << 40, 0) is None


def test_a_program_that_takes_too_long(monkeypatch):
    monkeypatch.setattr(replay, "SECONDS", -1.0)
    assert find(2, 1 << 40, 0) is None
