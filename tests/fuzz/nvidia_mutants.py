"""Faults planted in the NVIDIA target: what its passes decide, and what its code generation writes.

Each is one that a person could make: a fence that is missing, a barrier too few, the wrong owner of an element.  They
are caught without a GPU, by the PTX machine.  `mutants` plants them.  That each copy of an element is written, in place
of one, is none: copies are equal bit by bit.
"""

from __future__ import annotations

from tests.fuzz.planting import code, entry
from tilewright.ir.ops.attributes import Rmw

NVIDIA = "tilewright.targets.nvidia."
PASSES = NVIDIA + "passes."
_TESTS = "tests/targets/nvidia/"
# The tests of each module, as pytest takes them, which go before the random kernels: those are slow on the PTX machine.
_CONFORMANCE, _SCANS = "tests/conform -k ptx", "tests/lang/test_values_scans.py -k ptx --ptx 100"
_REDUCTIONS = "tests/lang/test_values_reductions.py -k ptx --ptx 100"
_ATOMICS = "tests/lang/test_values_atomics.py -k ptx --ptx 100"
SUITES = {
    PASSES + "boxes": [_TESTS + "test_boxes.py"], PASSES + "described": [_TESTS + "test_boxes.py"],
    NVIDIA + "boxes": [_TESTS + "test_boxes.py"], NVIDIA + "tensor_maps": [_TESTS + "test_boxes.py"],
    PASSES + "pipeline": [_TESTS + "test_pipeline.py"], PASSES + "delayed": [_TESTS + "test_delayed.py"],
    PASSES + "staged_loop": [_TESTS + "test_pipeline.py", _TESTS + "test_delayed.py"],
    PASSES + "ahead": [_TESTS + "test_pipeline.py", _TESTS + "test_delayed.py"],
    PASSES + "left_operands": [_TESTS + "test_left_operands.py"],
    NVIDIA + "copies": [_TESTS + "test_pipeline.py"],
    PASSES + "staging": [_TESTS + "test_pipeline.py"], PASSES + "order": [_TESTS + "test_order.py"],
    PASSES + "few_programs": [_TESTS + "test_few_programs.py"],
    PASSES + "persist": [_TESTS + "test_persist.py"], PASSES + "held": [_TESTS + "test_warpgroup.py"],
    NVIDIA + "wgmma": [_TESTS + "test_warpgroup.py"], NVIDIA + "warpgroup": [_TESTS + "test_warpgroup.py"],
    NVIDIA + "conversion": [_TESTS + "test_conversion.py"], NVIDIA + "renaming": ["tests/lang/test_values_indices.py"],
    NVIDIA + "matrix": [_TESTS + "test_matrix.py"], NVIDIA + "mma": [_TESTS + "test_matrix.py"],
    NVIDIA + "shared": [_TESTS + "test_shared.py", _TESTS + "test_scratch.py", _TESTS + "test_warps.py"],
    NVIDIA + "scratch": [_TESTS + "test_scratch.py", _ATOMICS], NVIDIA + "allocation": [_TESTS + "test_scratch.py"],
    NVIDIA + "runs": [_TESTS + "test_access.py"], NVIDIA + "turns": [_TESTS + "test_access.py"],
    NVIDIA + "access": [_TESTS + "test_access.py", "tests/lang/test_values_memory.py -k ptx --ptx 100", _CONFORMANCE],
    NVIDIA + "reduce": [_TESTS + "test_warps.py", _REDUCTIONS], NVIDIA + "scan": [_TESTS + "test_warps.py", _SCANS],
    NVIDIA + "atomic": [_ATOMICS], NVIDIA + "state": [_TESTS + "test_pipeline.py"],
    NVIDIA + "translate": [_TESTS + "translate"],
    NVIDIA + "special": [_TESTS + "test_special.py"],
    NVIDIA + "control": ["tests/conform/test_control.py -k ptx --ptx 100"],
    NVIDIA: [_TESTS + "test_warps.py", _CONFORMANCE]}

MUTANTS = (
    # order and barriers
    code("nv-barrier", NVIDIA + "shared", "SharedMemory.meet", "self.barrier()", "pass"),
    code("nv-scratch-read", NVIDIA + "shared", "Stack._begun",
         "if not _meet(range(first, first + need.bytes), self._read):", "if True:"),
    code("nv-scratch-joined", NVIDIA + "shared", "Stack.forget", "self._read = None", "self._read = range(0)"),
    code("nv-scratch-size", NVIDIA + "scratch", "of_warps", "warps * prod(beside.shape)", "prod(beside.shape)"),
    code("nv-scratch-rounds", NVIDIA + "scratch", "_scan", "names.count(WARP) + names[run:].count(REGISTER)",
         "names.count(WARP)"),
    code("nv-order-writes", PASSES + "order", "_Orderer._conflict",
         "return not (_same_thread(a, b) or self._runs.apart(a.operands[0], b.operands[0]))", "return False"),
    code("nv-order-thread", PASSES + "order", "_same_thread", "return not free[LANE] and not free[WARP]",
         "return True"),
    code("nv-order-loop", PASSES + "order", "_Orderer._loop", "if around <= pending:", "if True:"),
    code("nv-order-advance", PASSES + "order", "_Orderer._around",
         "loop if self._advances.changes(access.operands[0], loop) else before", "before"),
    # blocks by hardware
    code("nv-box-fence", NVIDIA + "boxes", "box_store", 'fence(kernel, op.attrs["shared"])', "pass"),
    code("nv-box-bytes", NVIDIA + "boxes", "box_copy", "box_bytes(memory))]", "box_bytes(memory) // 2)]"),
    code("nv-box-wait", NVIDIA + "boxes", "box_store",
         'code.machine("bulk.wait", [], [], guard=first, read="" if op.attrs["shared"] else ".read")', "pass"),
    code("nv-box-places", NVIDIA + "boxes", "_coordinates", "reversed(Places.of(numbers).starts)",
         "Places.of(numbers).starts"),
    code("nv-box-negative", NVIDIA + "boxes", "_if_stored", "known is None or known < 0", "False"),
    code("nv-box-within", PASSES + "boxes", "_Copying._doubts", "max(1, ALIGNMENT // tile.element.bytes)", "1"),
    code("nv-box-threads", PASSES + "boxes", "_Copying._is_box_store", "and not self._doubtful[op]", ""),
    code("nv-box-again", PASSES + "boxes", "_Copying._is_again", "self._alias.may_overlap(store, op)", "False"),
    code("nv-map-stride", NVIDIA + "tensor_maps", "resolved", 'computed(e, slots) * item for e in described["strides"]',
         'computed(e, slots) for e in described["strides"]'),
    code("nv-map-bits", NVIDIA + "tensor_maps", "_signed", "if number >> bits - 1", "if False"),
    # numbers of programs
    code("nv-few-sign", PASSES + "few_programs", "_told", "low >= 0", "high >= 0"),
    code("nv-few-limit", PASSES + "few_programs", "few_programs", "LIMITS[told[1:].index(told[-1])]",
         "2 * LIMITS[told[1:].index(told[-1])]"),
    # products of warpgroups
    code("nv-group-fence", NVIDIA + "warpgroup", "_through_scratch", "fence(kernel, everywhere=False)", "pass"),
    code("nv-group-wait", NVIDIA + "warpgroup", "_multiply", "statement.wait(0)", "pass"),
    code("nv-group-part", NVIDIA + "warpgroup", "_at", "placed.offset(product.width, 0)", "0"),
    code("nv-group-place", NVIDIA + "wgmma", "Placed.offset", "(k, at) if self.which else (at, k)", "(at, k)"),
    code("nv-group-depth", NVIDIA + "wgmma", "choose", "depth & depth - 1", "False"),
    code("nv-held-fence", PASSES + "held", "_stored", '[make_op("proxy_fence", (), {"everywhere": False}, loc=loc), '
         'make_op("barrier", (), loc=loc)]', "[]"),
    # pipelined loops
    code("nv-pipe-quiet", PASSES + "pipeline", "_Pipeliner._copied", "op.row.effects & _CHANGES", "False"),
    code("nv-pipe-wait", PASSES + "staged_loop", "StagedLoop._iteration", "self._meet(self._stages - 2)",
         "self._meet(self._stages - 1)"),
    code("nv-pipe-barrier", PASSES + "staged_loop", "StagedLoop._meet", 'self._build.create("barrier")', "pass"),
    code("nv-pipe-slot", PASSES + "staged_loop", "StagedLoop._after", "self._constant(self._stages)",
         "self._constant(self._stages - 1)"),
    code("nv-pipe-end", PASSES + "ahead", "Ahead._is_before", '"cmp_lt_s", (index, upper)',
         '"cmp_le_s", (index, upper)'),
    # products begun an iteration late, and rows made in registers
    code("nv-late-index", PASSES + "ahead", "Ahead.next", "self._stages - 2)", "self._stages - 1)"),
    code("nv-late-state", PASSES + "ahead", "Ahead._begin", "**before}", "**now}"),
    code("nv-late-zeros", PASSES + "staged_loop", "StagedLoop._nothing", "(self._zeros(load), address)",
         "(self._zeros(load), self._ahead.slot(self._place_of_late, self._constant(1)))"),
    code("nv-late-last", PASSES + "staged_loop", "StagedLoop._last", "self._meet(0)", "pass"),
    code("nv-late-wait", PASSES + "staged_loop", "StagedLoop._with_late_sums", '{"pending": 0}', '{"pending": 1}'),
    code("nv-late-between", PASSES + "delayed", "_between", "return None", "continue"),
    code("nv-left-before", PASSES + "left_operands", "_Fragments._make", "value in self._block.args or op in self._own",
         "True"),
    code("nv-copy-mask", NVIDIA + "copies", "_copy_run", "constant(I32, 0))", "constant(I32, size))"),
    code("nv-copy-place", NVIDIA + "copies", "_Places.address", "constant_part = self.offset(register) * self._size",
         "constant_part = self.offset(register)"),
    code("nv-copy-region", NVIDIA + "state", "Kernel.keep", "self._in_region.append((kept, key))", "pass"),
    # PTX without LLVM
    code("nv-ptx-widened", NVIDIA + "translate.casts", "_widened",
         "if number and most < 1 << 31 and ", "if number and "),
    # layouts, shuffles, fragments
    code("nv-shuffle-lane", NVIDIA + "conversion", "_exchanged", "constant(I32, lane), last]",
         "constant(I32, lane ^ 1), last]"),
    code("nv-shuffle-halves", NVIDIA + "conversion", "_sent", "for s in (0, 32)]", "for s in (32, 0)]"),
    code("nv-convert-address", NVIDIA + "conversion", "_addresses", "if offset & moved:", "if False:"),
    code("nv-fragment-rows", NVIDIA + "matrix", "Fragments._make", "(0, 8) if self._which", "(8, 0) if self._which"),
    code("nv-fragment-columns", NVIDIA + "matrix", "_on_tensor_cores", "for c in range(2)]", "for c in (1, 0)]"),
    code("nv-renamed", NVIDIA + "renaming", "moved", "if op.name not in _RENAMES:", "if False:"),
    # accesses
    code("nv-last-of-equals", NVIDIA + "access", "_last_of_equals", "constant(I32, run - 1)", "constant(I32, 0)"),
    code("nv-load-other", NVIDIA + "access", "read_elements", "* count if other is None else other", "* count"),
    code("nv-padding", NVIDIA + "access", "load", "guard = None if flag is True else flag", "guard = None"),
    code("nv-runs-mask", NVIDIA + "runs", "_longest", "power_of_two_in(axis.fact(mask).constancy[dim]) or length",
         "length"),
    code("nv-signs", NVIDIA + "runs", "_not_negative", '"sge"', '"sle"'),
    code("nv-turn-bits", NVIDIA + "turns", "_place", "if turn >> i & 1", "if turn >> i"),
    # reductions, scans, atomics, control
    code("nv-reduce-lanes", NVIDIA + "reduce", "_across_lanes", "choose(kernel, upper, other, total)",
         "choose(kernel, upper, total, other)"),
    code("nv-reduce-warps", NVIDIA + "reduce", "_across_warps", " and not any(result.bases(LANE)[:len(bits)])", ""),
    code("nv-reduce-padding", NVIDIA + "reduce", "flag_of", "bound.limit", "bound.limit + 1"),
    code("nv-scan-before", NVIDIA + "lane_scan", "LaneScan._step", "self.neighbour(part, distance), part)",
         "part, self.neighbour(part, distance))"),
    code("nv-scan-lanes", NVIDIA + "lane_scan", "LaneScan.is_behind", '"uge"', '"ugt"'),
    code("nv-scan-warps", NVIDIA + "scan_totals", "Totals._place",
         "constant(I32, self._warps - 1)) if self._reverse", "constant(I32, self._warps - 1)) if not self._reverse"),
    code("nv-atomic-owner", NVIDIA + "atomic", "_tile", "code.thread_flag(dict(free))", "None"),
    code("nv-atomic-spread", NVIDIA + "scratch", "_atomic", "free[LANE] or free[WARP] or free[REGISTER]", "False"),
    entry("nv-atomic-kind", NVIDIA + "atomic", "_INTEGER", Rmw.MAX_S, ("max", "u")),
    code("nv-loop-first", NVIDIA + "control", "lower_for", 'code.icmp("ugt", trips, zero)',
         'code.icmp("uge", trips, zero)'),
    code("nv-loop-more", NVIDIA + "control", "lower_for", 'code.icmp("ult", done, trips)',
         'code.icmp("ule", done, trips)'),
    code("nv-divide-zero", NVIDIA + "special", "unless_zero",
         'return code.select(code.icmp("eq", divisor, nothing), nothing, quotient)', "return quotient"),
    code("nv-persist-last", PASSES + "persist", "_Loop.rebuilt", '"cmp_lt_s", (count, left)',
         '"cmp_le_s", (count, left)'),
)
