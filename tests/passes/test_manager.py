"""Running passes: verification names the pass, hooks see modules, lists are in order."""

from dataclasses import FrozenInstanceError, replace

import pytest

from tests.passes.random_modules import random_module
from tilewright.diagnostics import InternalError
from tilewright.ir.parse import parse_module
from tilewright.ir.verify import VerifyError
from tilewright.passes import PASSES, STANDARD, Pass, run_passes, standard
from tilewright.passes.manager import order_faults

MODULE = parse_module("""module @k
func @k(%p: ptr<i32>, %x: i32) {
  %zero = constant 0 : i32
  %y = add %x, %zero : i32
  store %p, %y
  return
}""")


def breaking(module):
    """A pass that forgets the definition of what is stored."""
    body = module.entry.body
    body = replace(body, ops=body.ops[-2:])
    return module.with_functions({"k": module.entry.with_body(body)})


BREAKS = Pass("breaks", breaking)


@pytest.mark.parametrize("passes", [STANDARD, standard(True)], ids=["standard", "fused"])
def test_lists_are_in_order(passes):
    assert order_faults(passes) == []
    assert {p.name for p in passes} <= PASSES.keys()


def test_every_order_has_a_reason():
    for step in PASSES.values():
        assert step.why and set(step.after) <= PASSES.keys()
    names = [p.name for p in standard(True)]
    assert "contract" in names and "contract" not in [p.name for p in STANDARD]


def test_a_wrong_order_is_found():
    faults = order_faults([PASSES["cse"], PASSES["fold"]])
    assert faults == [f"cse stands before fold: {PASSES['cse'].why}"]


def test_passes_are_frozen():
    with pytest.raises(FrozenInstanceError):
        BREAKS.name = "other"


def test_check_levels():
    assert run_passes(MODULE, [BREAKS]) is not MODULE
    with pytest.raises(InternalError, match="after the passes: function @k, op 0, store: operand 1"):
        run_passes(MODULE, [BREAKS], check=1)
    with pytest.raises(InternalError, match="after pass breaks: function @k, op 0, store") as caught:
        run_passes(MODULE, [PASSES["cse"], BREAKS, PASSES["dce"]], check=2)
    assert isinstance(caught.value.__cause__, VerifyError)
    with pytest.raises(InternalError, match="before the first pass"):
        run_passes(breaking(MODULE), [PASSES["cse"]], check=2)


def test_hooks_and_stopping():
    seen = []
    timings = []
    fold, cse, dce = PASSES["fold"], PASSES["cse"], PASSES["dce"]
    after = run_passes(MODULE, [fold, cse, dce], before=lambda name, m: seen.append(("before", name, m)),
                       dump=lambda name, m: seen.append(("after", name, m)), stop_after="cse", timings=timings)
    assert [s[:2] for s in seen] == [("before", "fold"), ("after", "fold"), ("before", "cse"), ("after", "cse")]
    assert seen[0][2] is MODULE and seen[1][2] is seen[2][2] and seen[3][2] is after
    assert [(t.name, t.changed) for t in timings] == [("fold", True), ("cse", False)]
    assert all(t.seconds >= 0 for t in timings)
    with pytest.raises(ValueError, match="no pass is called 'licm'; there are fold, cse"):
        run_passes(MODULE, [fold, cse], stop_after="licm")


@pytest.mark.parametrize("seed", range(10))
def test_the_standard_list_reaches_a_fixed_point(seed):
    """Run again, it finds nothing but what one round has opened up; soon it changes nothing at all."""
    module = random_module(seed)
    for _ in range(6):
        after = run_passes(module, STANDARD)
        if after is module:
            return
        module = after
    pytest.fail("still changing")
