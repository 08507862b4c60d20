"""The mutation score: planted compiler faults, and how many of them the tests notice.

    python -m tests.fuzz.mutants                    the score: every fault in a process of its own, 60 s each
                                                    (of processor time, so that a busy machine does not matter)
    python -m tests.fuzz.mutants --only cse-loads   one fault
    python -m tests.fuzz.mutants --list

What a fault is: `planting`; those of the NVIDIA target: `nvidia_mutants`.  It is caught if a random kernel's engines
come to disagree or fail, or if the generated tests that belong to its layer (conformance, passes, analyses) do.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import time
from typing import Any

from tests.fuzz import nvidia_mutants
from tests.fuzz.planting import Mutant, code, entry
from tilewright.ir.ops.attributes import Rmw

# Also in the processes that run single faults: nothing compiled with a fault may be kept.
os.environ["TILEWRIGHT_DISK_CACHE"] = "0"

PASSES, ANALYSIS = "tilewright.passes.", "tilewright.analysis."
CPU, LLVM = "tilewright.targets.cpu.", "tilewright.targets.llvm."
NVIDIA = nvidia_mutants.NVIDIA
SUITES = {**nvidia_mutants.SUITES, PASSES: ["tests/passes", "tests/conform/test_random.py"],
          ANALYSIS: ["tests/analysis", "tests/passes"],
          CPU + "panels": ["tests/targets/cpu/test_panels.py"],
          CPU + "state": ["tests/conform", "tests/targets/cpu/test_panels.py"],
          CPU + "aliasing": ["tests/targets/cpu/test_memory_order.py"],
          CPU + "elements": ["tests/lang/test_values_loops_of_elements.py"],
          CPU: ["tests/conform"], LLVM: ["tests/conform"]}


MUTANTS = (
    # passes
    code("inline-arguments", PASSES + "inline", "_Inliner.visit", "op.operands, op.loc", "op.operands[::-1], op.loc"),
    code("fold-select", PASSES + "fold_algebra", "_select", "on_true if flag else", "on_false if flag else"),
    code("fold-regroup", PASSES + "fold_algebra", "_regroup", "(constant, outer)", "(constant, constant)"),
    entry("fold-zero-minus", PASSES + "fold_algebra", "_NEUTRAL", "sub", (0, True)),
    entry("fold-plus-zero", PASSES + "fold_algebra", "_NEUTRAL", "add_f", (0.0, True)),
    entry("fold-equals", PASSES + "fold_algebra", "_ON_EQUALS", "cmp_le_s", False),
    entry("fold-absorbing", PASSES + "fold_algebra", "_ABSORBING", "mul", 2),
    entry("fold-opposite", PASSES + "fold_algebra", "_OPPOSITE", "cmp_lt_s", "cmp_gt_s"),
    code("fold-truncate", PASSES + "fold_algebra", "_truncate", "else inner.name", 'else "ext_u"'),
    code("fold-extend", PASSES + "fold_algebra", "_extend", 'inner.name == "ext_u"', 'inner.name == "ext_s"'),
    code("fold-absolute", PASSES + "fold_algebra", "_absolute", 'fold.emit("abs_f"', 'fold.emit("neg_f"'),
    code("fold-flag", PASSES + "fold_algebra", "_equals_flag", "    if number:\n", "    if not number:\n"),
    code("fold-permute", PASSES + "fold_shape", "_permute", "first[i] for i in order", "order[i] for i in first"),
    code("fold-join", PASSES + "fold_shape", "fold_join", "op.operands == split.results",
          "set(op.operands) == set(split.results)"),
    code("fold-masked-store", PASSES + "fold", "_store", "    if flag:\n", "    if not flag:\n"),
    code("fold-masked-load", PASSES + "fold", "_load", "        return (other,)", "        other = None"),
    code("fold-no-iteration", PASSES + "fold", "runs_no_iteration", "else lower <= upper", "else lower >= upper"),
    code("fold-carried", PASSES + "fold", "_Folder.enter_region", "if following is arg", "if arg is not None"),
    code("cse-attributes", PASSES + "cse", "_op_key", "if op.attrs else ()", "if not op.attrs else ()"),
    code("cse-commutes", PASSES + "cse", "_op_key", "op.row.algebra & Algebra.COMMUTATIVE", "len(operands) == 2"),
    code("cse-loads", PASSES + "cse", "_Eliminator._forget_changed", "del loads[key]", "pass"),
    code("cse-loops", PASSES + "cse", "_Eliminator.enter_region", '("for", "while")', '("while",)'),
    code("cse-scopes", PASSES + "cse", "_Eliminator.leave_region", "self._scope = self._outer.pop()",
          "self._outer.pop().results.update(self._scope.results)"),
    code("licm-loads", PASSES + "licm", "_Hoister._may_leave", "not self._effects.may_change(loop, op, self._alias)",
          "True"),
    code("licm-inside", PASSES + "licm", "_Hoister._split", "inside.update(op.results)", "pass"),
    code("dce-effects", PASSES + "dce", "_Marker._acts", "bool(op.row.effects & _KEEPS)", '(op.name == "store")'),
    code("dce-carried", PASSES + "dce", "_Sweeper._for", "self._live(op.results, body.args[1:])",
          "self._live(op.results)"),
    code("carry-minus", PASSES + "uniform_carry", "_next_offset", '"sub" if step.name == "sub" else "add"', '"add"'),
    code("carry-from-scalar", PASSES + "uniform_carry", "_Uniformer._step", ' and op.name == "add" else', " else"),
    code("carry-start", PASSES + "uniform_carry", "_LoopSplitter.replacement", '"value": 0', '"value": 1'),
    code("widen-sign", PASSES + "widen", "_Widener._leaf", '"ext_s"', '"ext_u"'),
    code("contract-sign", PASSES + "contract", "_Contractor.visit", "a = _negated(a, op, ops)", "pass"),
    code("accumulate-start", PASSES + "accumulate", "_Accumulator._begun_with", "(a, b, start)",
         "(a, b, product.operands[2])"),
    code("promise-region", PASSES + "promise", "_Promising.leave_region", "self._values = self._outer.pop()",
         "self._outer.pop()"),
    # analyses
    code("axis-difference", ANALYSIS + "axis_rules", "_sum", "if may_swap:", "if True:"),
    code("axis-product", ANALYSIS + "axis_rules", "_product", "_wrapped(facts, op, a.divisor * b.divisor)",
          "2 * a.divisor * b.divisor"),
    code("axis-quotient", ANALYSIS + "axis_rules", "_quotient", "gcd(c, g, d)", "gcd(c, g)"),
    code("axis-permute", ANALYSIS + "axis_rules", "_permute", "permuted(fact.contiguity)", "fact.contiguity"),
    entry("ranges-minimum", ANALYSIS + "ranges", "_BINARY", "min_s", lambda table: table["max_s"]),
    code("ranges-and", ANALYSIS + "ranges", "_and", "min(bounds)", "min(bounds) // 2"),
    code("ranges-index", ANALYSIS + "ranges", "Ranges.index", "max(lower.low, upper.high - 1)", "lower.low"),
    code("effects-writes", ANALYSIS + "effects", "Effects.may_change", "return any(alias", "return not all(alias"),
    code("alias-bases", ANALYSIS + "alias", "Alias.pointers_may_overlap", "not bases_a.isdisjoint(bases_b)", "False"),
    # the CPU: order of memory, loops, scratch
    code("order-stores", CPU + "fuse", "Walker.before_store", "self._read_if_met(value, op.operands[0])", "pass"),
    code("order-apart", CPU + "fuse", "Walker.read_apart", "self.keep([load])", "pass"),
    code("order-regions", CPU + "fuse", "Walker.before_regions", "self._read_if_met(value, store.operands[0])",
          "pass"),
    code("order-elementwise", CPU + "aliasing", "Aliases.elementwise", "self._equal(a, b, 8) and", ""),
    code("order-injective", CPU + "aliasing", "Aliases.injective", "step <= reach", "step < 0"),
    code("loop-trips", LLVM + "counting", "trip_count", 'code.op("sub", code.op("sub", high, low), one)',
          'code.op("sub", high, low)'),
    code("loop-swap", CPU + "control", "assign", "_reads_elsewhere(walker, value, targets)", "False"),
    code("loop-start", CPU + "control", "Carried._start", "walker.plan.last_use(value, place.block) <= place.index",
          "True"),
    code("scratch-release", CPU + "plan", "Plan.last_use", "max(last, self.places[outer].index)", "last"),
    code("scratch-take", CPU + "state", "Scratch.take", "[(start + size, end)]", "[(start + 64, end)]"),
    code("nest-tails", CPU + "nest", "tail_pieces", "start += piece", "start += piece + (piece == 2)"),
    # the CPU: accesses
    code("access-backwards", CPU + "access", "load_lane", "-size * (e.width - 1)", "-size * e.width"),
    code("access-other", CPU + "access", "_load_contiguous", "_stored_form(e, e.full(other), element)", "zero(t)"),
    code("access-strided", CPU + "access", "_load_strided", "range(0, step * e.width, step)", "range(e.width)"),
    code("access-equal-addresses", CPU + "access", "store_lane", "e.width - 1)\n        last", "0)\n        last"),
    code("access-mirrored-mask", CPU + "access", "_store_contiguous", "else reverse(e, on)", "else on"),
    code("access-gather", CPU + "access", "_gather", "zero(t) if mask is None else e.full(other)", "zero(t)"),
    entry("atomic-maximum", CPU + "atomic", "_NATIVE", Rmw.MAX_S, "umax"),
    code("atomic-mask", CPU + "atomic", "_guarded", "if on is None:", "if True:"),
    # the CPU: reductions, scans, products
    code("reduce-halves", CPU + "reduce", "_Reduction._horizontal", "range(left, 2 * left)", "range(left)"),
    code("reduce-tail", CPU + "reduce", "_Reduction._along", "else self._combine(1, total, part)", "else part"),
    code("reduce-columns", CPU + "reduce", "_Reduction._columns", "moving(i, first, 1, size)",
          "moving(i, 0, 1, size)"),
    code("scan-lanes", CPU + "scan", "_Scan._within", "int(k >= apart)", "int(k > apart)"),
    code("scan-reverse", CPU + "scan", "_Scan._place", 'if self.op.attrs["reverse"]', "if False"),
    code("scan-tail", CPU + "scan", "_Scan._along", "fixed(start, piece), piece, total)",
          "fixed(start, piece), piece, None)"),
    code("panel-key", CPU + "panels", "_key", "if not walker.code.is_outermost(scalar):", "if False:"),
    code("panel-memory", CPU + "panels", "reads_constant_memory", "return not any(", "return True or not any("),
    code("panel-scratch", CPU + "state", "Scratch.take_apart", "start = self.size", "return self.take(size)"),
    code("elements-for", CPU + "elements", "_Function._for", "code.select(on[0], a, b)", "a"),
    code("elements-left", CPU + "elements", "_Function._while", "code.select(inside, e.full(new), was)",
          "e.full(new)"),
    code("dot-accumulator", CPU + "dot", "_accumulator",
          "plan.last_use(acc, place.block) <= place.index and acc not in op.operands[:2]", "True"),
    # the CPU: elementwise rules
    entry("rule-shift", LLVM + "elementwise", "RULES", "shr_s", lambda table: table["shr_u"]),
    entry("rule-negate", LLVM + "elementwise", "RULES", "neg_f", lambda table: table["abs_f"]),
    entry("rule-unsigned-float", LLVM + "elementwise", "RULES", "int_to_fp_u", lambda table: table["int_to_fp_s"]),
    code("divide-in-float", LLVM + "intdiv", "_float_quotient", '"float" if x.type.bits <= 16', '"float" if True'),
    code("divide-wide", LLVM + "intdiv", "_wide_quotient", "1 << 52 if signed else 1 << 51", "1 << 62"),
    code("high-product", LLVM + "intdiv", "mulhi_u", 'f.op("and", middle, low)', "middle"),
    code("extremum-zero", LLVM + "minmax", "_wrong_zero", "limit == 0 and", "False and"),
    entry("extremum-nan", LLVM + "minmax", "_COMPARES", "max_f", "ult"),
    code("round-bf16", LLVM + "convert", "_to_bf16", "0x7FFF", "0x8000"),
    code("round-twice", LLVM + "convert", "narrow", "odd=not toward_zero", "odd=False"),
    code("round-wide-int", LLVM + "convert", "int_to_float", "_sticky(f, x, signed) if x.type.bits == 64 else x", "x"),
    code("encode-ties", LLVM + "convert", "_encode", "(1 << (shift - 1)) - 1", "(1 << (shift - 1))"),
    code("float-to-int-sign", LLVM + "convert", "float_to_int", "low = -(1 << (to.bits - 1)) if signed else 0",
          "low = 0"),
    *nvidia_mutants.MUTANTS,
)
BY_LABEL = {m.label: m for m in MUTANTS}
# Faults that the first seeds find, for the run of every day.
QUICK = ("cse-attributes", "order-stores", "reduce-tail", "scan-reverse")
ENGINES = {NVIDIA: ("batched", "ptx"), PASSES: ("batched", "batched-passes", "wide"),
           ANALYSIS: ("batched", "batched-passes", "cpu"), CPU: ("batched", "cpu"), LLVM: ("batched", "cpu")}


def caught_by_fuzz(mutant: Mutant, seeds: range, seconds: float) -> int | None:
    """With the fault planted: the first of the seeds whose engines disagree or fail, if there is one in this time."""
    from tests.fuzz.generate import generate
    from tests.fuzz.running import check

    end = time.process_time() + seconds
    crowded = not mutant.module.startswith(NVIDIA)      # on a GPU the order of equal addresses is left to chance
    for seed in seeds:
        if time.process_time() > end:
            return None
        if check(generate(seed, crowded=crowded), mutant.of_layer(ENGINES)).fails:
            return seed
    return None


def run_one(label: str, seconds: float) -> dict[str, Any]:
    """What catches one fault: {"by": ..., "seconds": ...}."""
    import pytest

    mutant, start = BY_LABEL[label], time.process_time()

    def kernel() -> str | None:
        seed = caught_by_fuzz(mutant, range(10_000), seconds * 0.6)
        return None if seed is None else f"kernel {seed}"

    def test() -> str | None:
        for suite in mutant.of_layer(SUITES):
            ended = pytest.main(["-x", "-q", "--no-header", "-p", "no:cacheprovider", *suite.split()])
            if ended == pytest.ExitCode.TESTS_FAILED:
                return suite
        return None

    with mutant.planted():
        if mutant.module.startswith(NVIDIA):        # random kernels are slow on the PTX machine
            by = test() or kernel()
        else:
            by = kernel() or test()
    return {"by": by, "seconds": round(time.process_time() - start, 1)}


def in_process(label: str, seconds: float) -> dict[str, Any]:
    """`run_one` in a process of its own, which the system ends when its time is over."""
    command = [sys.executable, "-m", "tests.fuzz.mutants", "--only", label, "--seconds", str(seconds)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10 * seconds)
    except subprocess.TimeoutExpired:
        return {"by": None, "seconds": seconds}
    if done.returncode == -signal.SIGXCPU:
        return {"by": None, "seconds": seconds}
    if done.returncode < 0:
        return {"by": f"signal {-done.returncode}", "seconds": 0.0}
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.mutants", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=sorted(BY_LABEL), help="one fault, in this process")
    parser.add_argument("--seconds", type=float, default=60.0, help="time for each fault")
    parser.add_argument("--list", action="store_true")
    given = parser.parse_args()
    if given.list:
        print(*BY_LABEL, sep="\n")
        return 0
    if given.only:
        resource.setrlimit(resource.RLIMIT_CPU, (int(given.seconds), int(given.seconds) + 5))
        print(json.dumps(run_one(given.only, given.seconds)))
        return 0
    survivors = []
    for mutant in MUTANTS:
        found = in_process(mutant.label, given.seconds)
        print(f"{mutant.label:24} {found['by'] or 'SURVIVES'} ({found['seconds']} s)", flush=True)
        survivors += [mutant.label] if found["by"] is None else []
    caught = len(MUTANTS) - len(survivors)
    print(f"{caught} of {len(MUTANTS)} caught; survivors: {', '.join(survivors) or 'none'}")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
