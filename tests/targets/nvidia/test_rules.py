"""Every row of the op table has a rule on NVIDIA GPUs, or is a listed refusal."""

from tilewright.ir.ops import TABLE, Stage
from tilewright.targets.llvm import elementwise as shared
from tilewright.targets.nvidia import special
from tilewright.targets.nvidia.generate import HANDLERS, REFUSALS

REMOVED = {"call", "box"}      # by the passes `inline` and `copy_boxes`


def without_a_rule():
    """The rows that can reach code generation and have neither a rule nor a refusal."""
    lowered = {*HANDLERS, *REFUSALS, *REMOVED}
    return sorted(name for name, row in TABLE.items() if name not in lowered and not (
        row.elementwise and (row.template or name in shared.RULES or name in special.RULES
                             or name in shared.BY_ADDRESS)))


def test_every_row_has_a_rule_or_a_reason():
    missing = without_a_rule()
    print("rows without a rule:", ", ".join(missing) or "none")
    assert missing == []


def test_rules_are_of_rows_that_exist():
    assert {*HANDLERS, *REFUSALS, *special.RULES} <= set(TABLE)
    assert not set(HANDLERS) & set(REFUSALS)


def test_refusals_say_why():
    assert all(len(reason.split()) > 3 for reason in REFUSALS.values())


def test_rows_of_later_stages_do_not_stand_in_tile_ir():
    later = {"barrier", "convert", "shared_alloc", "shared_free", "async_copy", "async_commit", "async_wait",
             "shared_load", "box_copy", "box_store", "proxy_fence", "mbarrier_alloc", "mbarrier_arrive",
             "mbarrier_wait", "block_id", "num_blocks", "shared_store", "warpgroup_dot", "warpgroup_wait"}
    assert {name for name, row in TABLE.items() if not row.stages & Stage.TILE} == later
