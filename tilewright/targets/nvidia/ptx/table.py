"""Every instruction that has a meaning: opcode family → meaning, PTX ISA section.

A code generator may emit what stands here (`opcodes()`), and nothing else: an instruction without a row is an error
that names its line.  A family whose modifiers change what it is (bar.warp, cp.async.bulk) has a row for each, the
longest matching prefix counts.
Tests: tests/targets/nvidia/ptx/test_program.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

from tilewright.targets.nvidia.ptx import (
    access,
    atomic,
    bulk,
    comparison,
    control,
    conversion,
    cp_async,
    floating,
    integer,
    mbarrier_operations,
    movement,
    ordering,
    tensor_cores,
    warp,
    wgmma,
)
from tilewright.targets.nvidia.ptx.binding import Binding, Made
from tilewright.targets.nvidia.ptx.operands import Instruction
from tilewright.targets.nvidia.ptx.report import PtxSyntaxError

Meaning = Callable[[Instruction, Binding], Made]


@dataclass(frozen=True, slots=True)
class Row:
    """`results`: how many leading operands the instruction writes; `control`: is it a matter of strands; `pure`: does
    it only compute, so that unwritten sources make unwritten results and are no fault yet.
    """

    meaning: Meaning
    section: str
    results: int = 1
    control: bool = False
    pure: bool = False


FLOATS = ("f16", "f16x2", "bf16", "bf16x2", "f32", "f64", "f32x2")


def by_type(integers: Meaning | None, floats: Meaning) -> Meaning:
    """A family that has a meaning for integers and one for floats."""
    def meaning(instruction: Instruction, bind: Binding) -> Made:
        if instruction.parts[-1] in FLOATS:
            return floats(instruction, bind)
        if integers is None:
            raise bind.error("is for floats")
        return integers(instruction, bind)

    return meaning


ARITHMETIC: dict[str, Row] = {
    "add": Row(by_type(integer.add_or_subtract, floating.add_or_subtract), "9.7.1.1"),
    "sub": Row(by_type(integer.add_or_subtract, floating.add_or_subtract), "9.7.1.2"),
    "addc": Row(integer.add_or_subtract_with_carry, "9.7.2.2"),
    "subc": Row(integer.add_or_subtract_with_carry, "9.7.2.4"),
    "mul": Row(by_type(integer.multiply, floating.multiply), "9.7.1.3"),
    "mad": Row(by_type(integer.multiply_add, floating.fused), "9.7.1.4"),
    "madc": Row(integer.multiply_add, "9.7.2.6"),
    "mul24": Row(integer.multiply_24, "9.7.1.5"),
    "mad24": Row(integer.multiply_24, "9.7.1.6"),
    "sad": Row(integer.sum_of_absolute_differences, "9.7.1.7"),
    "div": Row(by_type(integer.divide, floating.divide), "9.7.1.8"),
    "rem": Row(integer.divide, "9.7.1.9"),
    "abs": Row(by_type(integer.absolute, floating.absolute), "9.7.1.10"),
    "neg": Row(by_type(integer.negate, floating.negate), "9.7.1.11"),
    "min": Row(by_type(integer.extremum, floating.extremum), "9.7.1.12"),
    "max": Row(by_type(integer.extremum, floating.extremum), "9.7.1.13"),
    "popc": Row(integer.population_count, "9.7.1.14"),
    "clz": Row(integer.count_leading_zeros, "9.7.1.15"),
    "bfind": Row(integer.find_leading_bit, "9.7.1.16"),
    "brev": Row(integer.reverse_bits, "9.7.1.18"),
    "bfe": Row(integer.extract_field, "9.7.1.19"),
    "bfi": Row(integer.insert_field, "9.7.1.20"),
    "szext": Row(integer.extend, "9.7.1.21"),
    "bmsk": Row(integer.bit_mask, "9.7.1.22"),
    "dp4a": Row(integer.dot_product, "9.7.1.23"),
    "dp2a": Row(integer.dot_product, "9.7.1.24"),
    "fma": Row(floating.fused, "9.7.3.6"),
    "rcp": Row(floating.reciprocal, "9.7.3.13"),
    "sqrt": Row(floating.square_root, "9.7.3.15"),
    "rsqrt": Row(floating.reciprocal_root, "9.7.3.16"),
    "sin": Row(floating.sine, "9.7.3.18"),
    "cos": Row(floating.cosine, "9.7.3.19"),
    "lg2": Row(floating.logarithm, "9.7.3.20"),
    "ex2": Row(floating.exponential, "9.7.3.21"),
    "tanh": Row(floating.hyperbolic_tangent, "9.7.3.22"),
    "copysign": Row(floating.copy_sign, "9.7.3.2"),
    "testp": Row(floating.test_property, "9.7.3.1"),
}

COMPARISON_AND_LOGIC: dict[str, Row] = {
    "setp": Row(comparison.set_predicate, "9.7.6.2"),
    "set": Row(comparison.set_value, "9.7.6.1"),
    "selp": Row(comparison.select, "9.7.6.3"),
    "slct": Row(comparison.select_by_sign, "9.7.6.4"),
    "and": Row(integer.logic, "9.7.8.1"),
    "or": Row(integer.logic, "9.7.8.2"),
    "xor": Row(integer.logic, "9.7.8.3"),
    "not": Row(integer.complement, "9.7.8.4"),
    "cnot": Row(integer.complement, "9.7.8.5"),
    "lop3": Row(integer.three_input_logic, "9.7.8.6"),
    "shf": Row(integer.funnel_shift, "9.7.8.7"),
    "shl": Row(integer.shift, "9.7.8.8"),
    "shr": Row(integer.shift, "9.7.8.9"),
    "prmt": Row(integer.permute_bytes, "9.7.9.7"),
}

MOVEMENT: dict[str, Row] = {
    "mov": Row(movement.move, "9.7.9.3"),
    "cvt": Row(conversion.convert, "9.7.9.21"),
    "cvta": Row(movement.to_generic, "9.7.9.20"),
    "isspacep": Row(movement.is_in_space, "9.7.9.19"),
    "mapa": Row(access.map_to_peer, "9.7.9.23"),
    "getctarank": Row(access.peer_rank, "9.7.9.24"),
    "ld": Row(access.load, "9.7.9.8"),
    "ldu": Row(access.load, "9.7.9.10"),
    "st": Row(access.store, "9.7.9.11", 0),
    "prefetch": Row(access.prefetch, "9.7.9.15", 0),
    "prefetchu": Row(access.prefetch, "9.7.9.15", 0),
    "applypriority": Row(access.prefetch, "9.7.9.16", 0),
    "discard": Row(access.prefetch, "9.7.9.17", 0),
    "createpolicy": Row(access.make_policy, "9.7.9.18"),
    "atom": Row(atomic.atomic, "9.7.13.5"),
    "red": Row(atomic.atomic, "9.7.13.7", 0),
}

WARP: dict[str, Row] = {
    "shfl": Row(warp.shuffle, "9.7.9.6", control=True),
    "vote": Row(warp.vote, "9.7.13.10", control=True),
    "match": Row(warp.match, "9.7.13.11", control=True),
    "activemask": Row(warp.active_mask, "9.7.13.12"),
    "redux": Row(warp.reduce, "9.7.13.13", control=True),
    "elect": Row(warp.elect, "9.7.13.15", control=True),
    "bar.warp": Row(warp.warp_barrier, "9.7.13.2", 0, True),
}

CONTROL: dict[str, Row] = {
    "bra": Row(control.branch, "9.7.12.3", 0, True),
    "brx": Row(control.branch_indexed, "9.7.12.4", 0, True),
    "ret": Row(control.leave, "9.7.12.6", 0, True),
    "exit": Row(control.leave, "9.7.12.7", 0, True),
    "trap": Row(control.trap, "9.7.19.4", 0, True),
    "brkpt": Row(control.nothing, "9.7.19.1", 0),
    "call": Row(control.call, "9.7.12.5", 0),
    "nanosleep": Row(control.nothing, "9.7.19.2", 0),
    "pmevent": Row(control.nothing, "9.7.19.3", 0),
    "setmaxnreg": Row(control.nothing, "9.7.19.5", 0),
    "griddepcontrol": Row(control.nothing, "9.7.13.14", 0),
    "bar": Row(control.barrier, "9.7.13.1", 0, True),
    "bar.red": Row(control.barrier, "9.7.13.1", 1, True),
    "bar.cta.red": Row(control.barrier, "9.7.13.1", 1, True),
    "barrier": Row(control.barrier, "9.7.13.1", 0, True),
    "barrier.red": Row(control.barrier, "9.7.13.1", 1, True),
    "barrier.cta.red": Row(control.barrier, "9.7.13.1", 1, True),
    "membar": Row(ordering.fence, "9.7.13.4", 0),
    "fence": Row(ordering.fence, "9.7.13.4", 0),
}

TENSOR_CORES: dict[str, Row] = {
    "mma": Row(tensor_cores.multiply_accumulate, "9.7.14.5", control=True),
    "ldmatrix": Row(tensor_cores.load_matrix, "9.7.14.5.15", control=True),
    "stmatrix": Row(tensor_cores.store_matrix, "9.7.14.5.16", 0, True),
    "movmatrix": Row(tensor_cores.move_matrix, "9.7.14.5.17", control=True),
    "wgmma.mma_async": Row(wgmma.multiply, "9.7.15.5.2", control=True),
    "wgmma.fence": Row(wgmma.fence, "9.7.15.7.1", 0, True),
    "wgmma.commit_group": Row(wgmma.commit, "9.7.15.7.2", 0, True),
    "wgmma.wait_group": Row(wgmma.wait, "9.7.15.7.3", 0, True),
}

ASYNCHRONOUS: dict[str, Row] = {
    "cp.async": Row(cp_async.copy, "9.7.9.25.3.1", 0),
    "cp.async.commit_group": Row(cp_async.commit, "9.7.9.25.3.2", 0),
    "cp.async.wait_group": Row(cp_async.wait, "9.7.9.25.3.3", 0),
    "cp.async.wait_all": Row(cp_async.wait, "9.7.9.25.3.3", 0),
    "cp.async.mbarrier.arrive": Row(cp_async.arrive, "9.7.13.15.17", 0),
    "cp.async.bulk": Row(bulk.bytes_copy, "9.7.9.25.4.1", 0),
    "cp.reduce.async.bulk": Row(bulk.bytes_copy, "9.7.9.25.4.2", 0),
    "cp.async.bulk.prefetch": Row(bulk.bytes_copy, "9.7.9.25.4.3", 0),
    "cp.async.bulk.tensor": Row(bulk.tensor_copy, "9.7.9.25.5.2", 0),
    "cp.reduce.async.bulk.tensor": Row(bulk.tensor_copy, "9.7.9.25.5.3", 0),
    "cp.async.bulk.prefetch.tensor": Row(bulk.tensor_copy, "9.7.9.25.5.4", 0),
    "cp.async.bulk.commit_group": Row(bulk.commit, "9.7.9.25.4.4", 0),
    "cp.async.bulk.wait_group": Row(bulk.wait, "9.7.9.25.4.5", 0),
    "tensormap.replace": Row(bulk.replace_field, "9.7.9.26", 0),
    "tensormap.cp_fenceproxy": Row(bulk.copy_map, "9.7.13.16", 0),
    "fence.proxy": Row(bulk.proxy_fence, "9.7.13.4", 0),
    "fence.mbarrier_init": Row(control.nothing, "9.7.13.4", 0),
    "mbarrier.init": Row(mbarrier_operations.initialise, "9.7.13.15.9", 0),
    "mbarrier.inval": Row(mbarrier_operations.initialise, "9.7.13.15.10", 0),
    "mbarrier.expect_tx": Row(mbarrier_operations.expect, "9.7.13.15.11", 0),
    "mbarrier.complete_tx": Row(mbarrier_operations.expect, "9.7.13.15.12", 0),
    "mbarrier.arrive": Row(mbarrier_operations.arrive, "9.7.13.15.13"),
    "mbarrier.arrive_drop": Row(mbarrier_operations.arrive, "9.7.13.15.14"),
    "mbarrier.test_wait": Row(mbarrier_operations.wait, "9.7.13.15.16", control=True),
    "mbarrier.try_wait": Row(mbarrier_operations.wait, "9.7.13.15.16", control=True),
}

_PURE = (*ARITHMETIC, *COMPARISON_AND_LOGIC, "mov", "cvt", "cvta", "isspacep", "mapa", "getctarank", "shfl")
TABLE: dict[str, Row] = {
    name: replace(row, pure=name in _PURE)
    for name, row in {**ARITHMETIC, **COMPARISON_AND_LOGIC, **MOVEMENT, **WARP, **CONTROL, **TENSOR_CORES,
                      **ASYNCHRONOUS}.items()
}


def opcodes() -> frozenset[str]:
    """Families, and prefixes of opcodes, that have a meaning."""
    return frozenset(TABLE)


@cache
def _row(opcode: str) -> Row | None:
    parts = opcode.split(".")
    for length in range(min(len(parts), 5), 0, -1):
        row = TABLE.get(".".join(parts[:length]))
        if row is not None:
            return row
    return None


def row_of(instruction: Instruction, text: str = "") -> Row:
    """The row with the longest prefix.  Raises `PtxSyntaxError` with the line for an instruction that has none."""
    row = _row(instruction.opcode)
    if row is None:
        raise PtxSyntaxError(f"the instruction {instruction.opcode} has no meaning here", instruction.line, text,
                             instruction.location)
    return row
