"""One CTA: its threads in strands, a scheduler that lets strands run, and what they wait for.

A *strand* is a set of threads at one instruction, of one warp or many.  A branch that parts its threads makes two; both
remember where the ways join, and the scheduler runs the deepest strand first, so they meet there and are one again.
Nothing waits for a strand that is blocked: threads make progress on their own (PTX ISA 3.1, independent thread
scheduling).  Seed 0 runs warps together wherever it can; other seeds part and mix them.
Before: a program, bound (`bound.py`).  After `run`: all threads have left, or a `Fault` says why they cannot.
Tests: tests/targets/nvidia/ptx/test_control.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.targets.nvidia.ptx.asynchronous import Asynchronous
from tilewright.targets.nvidia.ptx.barriers import Barriers
from tilewright.targets.nvidia.ptx.binding import Binding, Mask
from tilewright.targets.nvidia.ptx.clocks import Clocks
from tilewright.targets.nvidia.ptx.memory import LocalMemory, SharedMemory
from tilewright.targets.nvidia.ptx.report import Fault
from tilewright.targets.nvidia.ptx.strands import Strand
from tilewright.targets.nvidia.ptx.wgmma import Warpgroups

if TYPE_CHECKING:
    from tilewright.targets.nvidia.ptx.bound import Code
    from tilewright.targets.nvidia.ptx.launch import Launch
    from tilewright.targets.nvidia.ptx.program import Program

Array = np.ndarray[Any, Any]

PATIENCE = 256      # backward branches after which a strand lets others run: loops that poll memory


class Cta:
    """Threads, memory and clocks of one CTA; used for one CTA after another."""

    def __init__(self, program: Program, launch: Launch, rank: int = 0) -> None:
        self.program, self.launch, self.rank = program, launch, rank
        block = launch.block
        self.live_threads = block[0] * block[1] * block[2]
        self.warps = -(-self.live_threads // 32)
        self.threads = 32 * self.warps
        self.ids = np.arange(self.threads)
        self.clocks = Clocks(self.warps)
        self.random = np.random.default_rng(launch.seed)
        self.addresses = dict(launch.addresses)
        self._allocate()
        self.special: dict[str, Array] = {}
        self._specials()
        self.barriers = Barriers(self)
        self.copies = Asynchronous(self)
        self.warpgroups = Warpgroups(self)
        self.binding = Binding(self)
        self.index = (0, 0, 0)
        self.peers: list[Cta] = [self]        # the CTAs of the cluster
        self.executed = self.ticks = self.number = 0
        self.code: Code | None = None

    # ---- memory and special registers
    def _allocate(self) -> None:
        """Shared and local variables get offsets; dynamic shared memory comes last (PTX ISA 5.1.5, 5.1.7)."""
        module, function = self.program.module, self.program.function
        variables = [*module.variables.values(), *function.variables.values()]
        shared, local = 0, 0
        dynamic = []
        for variable in variables:
            if variable.space == "shared" and variable.size == 0:
                dynamic.append(variable)
            elif variable.space == "shared":
                shared = -(-shared // variable.align) * variable.align
                self.addresses[variable.name] = shared
                shared += variable.size
            elif variable.space in ("local", "param"):
                local = -(-local // variable.align) * variable.align
                self.addresses[variable.name] = local
                local += variable.size
        start = max([shared] + [-(-shared // v.align) * v.align for v in dynamic])
        for variable in dynamic:
            self.addresses[variable.name] = start
        self.static_shared = shared
        checks = self.launch.checks
        products = any(i.family == "wgmma" for i in self.program.code)
        self.shared = SharedMemory(start + self.launch.shared_bytes, self.program.smallest_access("shared"), checks,
                                   self.clocks, self.warps // 4 if products else 0)
        self.shared.asynchronous = any(i.family in ("cp", "wgmma", "tcgen05", "mbarrier", "stmatrix", "fence")
                                       for i in self.program.code)
        self.local = LocalMemory(local, self.threads, checks)

    def _specials(self) -> None:
        """PTX ISA 10.  Those of the CTA are scalars that `enter` sets."""
        x, y, z = self.launch.block
        ids, grid = np.arange(self.threads, dtype=np.uint32), self.launch.grid
        cluster = self.launch.cluster
        make = self.special
        for axis, value in zip("xyzw", (ids % x, ids // x % y, ids // (x * y), np.zeros_like(ids))):
            make[f"%tid.{axis}"] = value.astype(np.uint32)
        lane = (ids & 31).astype(np.uint32)
        make.update({"%laneid": lane, "%warpid": ids >> 5, "%nwarpid": np.array(self.warps, np.uint32)})
        one = np.uint32(1)
        make.update({"%lanemask_eq": one << lane, "%lanemask_lt": (one << lane) - one,
                     "%lanemask_le": ((one << lane) - one) | (one << lane),
                     "%lanemask_gt": ~(((one << lane) - one) | (one << lane)), "%lanemask_ge": ~((one << lane) - one)})
        clusters = tuple(g // c for g, c in zip(grid, cluster))
        for index, axis in enumerate("xyzw"):
            def pick(values: tuple[int, ...], missing: int = 1, index: int = index) -> Array:
                return np.array(values[index] if index < 3 else missing, np.uint32)

            make[f"%ntid.{axis}"] = pick((x, y, z))
            make[f"%nctaid.{axis}"] = pick(grid)
            make[f"%cluster_nctaid.{axis}"] = pick(cluster)
            make[f"%nclusterid.{axis}"] = pick(clusters)
            for name in ("ctaid", "cluster_ctaid", "clusterid"):
                make[f"%{name}.{axis}"] = np.array(0, np.uint32)
        count = cluster[0] * cluster[1] * cluster[2]
        for name, number in (("smid", 0), ("nsmid", 132), ("cluster_ctarank", 0), ("cluster_nctarank", count),
                            ("dynamic_smem_size", self.launch.shared_bytes), ("total_smem_size", self.shared.size),
                            ("aggr_smem_size", self.shared.size), ("clock", 0), ("clock_hi", 0),
                            ("globaltimer_lo", 0), ("globaltimer_hi", 0)):
            make[f"%{name}"] = np.array(number, np.uint32)
        for name in ("gridid", "clock64", "globaltimer"):
            make[f"%{name}"] = np.array(0, np.uint64)
        make["%is_explicit_cluster"] = np.array(count > 1)

    def enter(self, index: tuple[int, int, int], number: int) -> None:
        """Begin CTA `index` of the grid, `number` in order."""
        self.index, self.number = index, number
        cluster = self.launch.cluster
        inside = tuple(i % c for i, c in zip(index, cluster))
        for axis, at in enumerate("xyz"):
            self.special[f"%ctaid.{at}"][...] = index[axis]
            self.special[f"%cluster_ctaid.{at}"][...] = inside[axis]
            self.special[f"%clusterid.{at}"][...] = index[axis] // cluster[axis]
        self.special["%cluster_ctarank"][...] = inside[0] + cluster[0] * (inside[1] + cluster[1] * inside[2])
        self.clocks.start(self.launch.latest)
        self.shared.clear()
        self.local.clear()
        self.barriers.clear()
        self.copies.clear()
        self.warpgroups.clear()
        self.executed = 0
        self.ready: list[Strand] = []
        self.held: dict[int, list[Strand]] = {}
        self.alive = self.ids < self.live_threads
        if self.code is not None:
            self.code.reset()
        self._begin()

    def _begin(self) -> None:
        everything = Strand(0, None if self.alive.all() else self.alive.copy(), self.live_threads)
        if self.launch.seed:
            for warp in self.random.permutation(self.warps):
                on = self.alive & (self.ids >> 5 == warp)
                self.put(Strand(0, self.mask(on), int(np.count_nonzero(on))))
        else:
            self.put(everything)

    # ---- strands
    def mask(self, on: Array) -> Mask:
        return None if np.count_nonzero(on) == self.threads else on

    def lanes(self, on: Mask) -> Array:
        """The mask as an array."""
        return np.ones(self.threads, bool) if on is None else on

    def put(self, strand: Strand) -> None:
        """Ready to run: one with those at the same place, if there are any."""
        while strand.stack and strand.stack[-1] == strand.pc:
            strand.stack = strand.stack[:-1]
        for other in self.ready:
            if self._same_place(other, strand) and self._may_merge(other, strand):
                self._merge(other, strand)
                if self.launch.seed:
                    self._absorb(other)
                return
        self.ready.append(strand)

    @staticmethod
    def _same_place(one: Strand, other: Strand) -> bool:
        return other.pc == one.pc and other.stack == one.stack and other.admitted == one.admitted

    def _merge(self, strand: Strand, other: Strand) -> None:
        strand.on = self.mask(self.lanes(strand.on) | self.lanes(other.on))
        strand.count += other.count

    def _absorb(self, strand: Strand) -> None:
        """Merge a strand that has grown with the others at its place that now have lanes of the same warps."""
        found: Strand | None = strand
        while found is not None:
            found = next((other for other in self.ready if other is not strand and self._same_place(strand, other)
                          and self._share_a_warp(strand, other)), None)
            if found is not None:
                self.ready.remove(found)
                self._merge(strand, found)

    def _share_a_warp(self, one: Strand, other: Strand) -> bool:
        mine, others = (self.lanes(strand.on).reshape(-1, 32).any(1) for strand in (one, other))
        return bool((mine & others).any())

    def _may_merge(self, one: Strand, other: Strand) -> bool:
        if not self.launch.seed or one.on is None or other.on is None:
            return True
        return self._share_a_warp(one, other) or self.random.random() < 0.5

    def _choose(self) -> Strand:
        """The strand to run: those who gave way last of all, then the deepest, then the earliest."""
        ready = self.ready
        if len(ready) == 1:
            return ready.pop()
        if not self.launch.seed:
            best = min(range(len(ready)), key=lambda i: (ready[i].turn, -len(ready[i].stack), ready[i].pc))
            return ready.pop(best)
        order = sorted(range(len(ready)), key=lambda i: (ready[i].turn, -len(ready[i].stack), ready[i].pc))
        candidates: list[int] = []
        taken = np.zeros(self.warps, bool)
        for i in order:         # of each warp the deepest
            warps = self.lanes(ready[i].on).reshape(-1, 32).any(1)
            if not (warps & taken).any():
                candidates.append(i)
            taken |= warps
        return ready.pop(int(candidates[int(self.random.integers(len(candidates)))]))

    def run(self) -> bool:
        """Until all threads have left (True) or nothing can go on (False)."""
        while True:
            if self.launch.seed and self.copies.flying and self.random.random() < 0.1:
                self.copies.land_one()
            if self.ready:
                self._execute(self._choose())
            elif not self.alive.any():
                return True
            elif not self.copies.land_one():
                return False

    def _execute(self, strand: Strand) -> None:
        """Run a strand until it ends, blocks, parts, or comes to a place where it should meet others."""
        assert self.code is not None
        steps, ends, controls = self.code.steps, self.code.ends, self.code.controls
        pc, at = strand.pc, strand.pc
        try:
            while True:
                if strand.stack and strand.stack[-1] == pc:
                    strand.pc = pc
                    self.put(strand)
                    return
                end, on = ends[pc], strand.on
                for at in range(pc, end):
                    steps[at](on)
                self.executed += end - pc + 1
                if end != pc and strand.stack and strand.stack[-1] == end:
                    strand.pc = end     # it meets others in front of an instruction of control flow
                    self.put(strand)
                    return
                control = controls[end]
                at = end
                if control is None:
                    pc = end
                    if self.executed > self.launch.limit:
                        raise Fault("limit", f"more than {self.launch.limit} instructions")
                    continue
                strand.pc = end
                pc = control(strand)
                if pc < 0:
                    return
                if pc <= end and self._gives_way(strand, pc):
                    return
        except Fault as fault:
            raise self._placed(fault, at) from None
        except (IndexError, KeyError, ValueError, TypeError, OverflowError, ZeroDivisionError) as error:
            message = f"the machine cannot execute this with the values that came ({error!r})"
            raise self._placed(Fault("operand", message), at) from error

    def _placed(self, fault: Fault, at: int) -> Fault:
        instruction = self.program.code[min(at, len(self.program.code) - 1)]
        fault.cta = fault.cta or self.index
        return fault.at(instruction.line, self.program.text(instruction.line), instruction.location)

    def _gives_way(self, strand: Strand, pc: int) -> bool:
        """After a backward branch: should others run now?"""
        if self.executed > self.launch.limit:
            raise Fault("limit", f"more than {self.launch.limit} instructions; a loop that does not end?")
        strand.loops += 1
        if strand.loops % PATIENCE or not (self.ready or self.copies.flying or len(self.peers) > 1):
            return False
        strand.turn += 1
        strand.pc = pc
        self.put(strand)
        self.copies.land_one()
        return True

    # ---- parting
    def part(self, strand: Strand, on: Array, count: int, pc: int, join: int | None, other_pc: int) -> None:
        """Lanes in `on` go on at `pc`, the rest at `other_pc`; they meet at `join`."""
        stack = strand.stack
        if join is not None and (not stack or stack[-1] != join):
            stack = (*stack, join)
        rest = ~on if strand.on is None else strand.on & ~on
        self.put(Strand(pc, on, count, stack, turn=strand.turn))
        strand.on, strand.count, strand.stack, strand.pc = rest, strand.count - count, stack, other_pc
        self.put(strand)

    def admit(self, strand: Strand, predicate: Array) -> bool:
        """May the strand execute the guarded control instruction at its pc now?  If parted: no, and both are ready."""
        pc = strand.pc
        if strand.admitted == pc:
            strand.admitted = -1
            return True
        on = predicate if strand.on is None else predicate & strand.on
        count = int(np.count_nonzero(on))
        if count == strand.count:
            return True
        stack = strand.stack
        rest = ~on if strand.on is None else strand.on & ~on
        inner = stack if stack and stack[-1] == pc + 1 else (*stack, pc + 1)
        if count:
            self.put(Strand(pc, on.copy(), count, inner, admitted=pc, turn=strand.turn))
        self.put(Strand(pc + 1, self.mask(rest.copy()), strand.count - count, inner, turn=strand.turn))
        return False

    # ---- lanes that must be together
    def together(self, strand: Strand, needed: Array, width: int = 32) -> list[Strand] | None:
        """The strands, one or several, whose lanes have come to the instruction as it needs them; None: none yet.

        `needed[t]`: the `width` threads around t (a warp, a warpgroup) wait for t.  Lanes of those that are not
        complete stay held.
        """
        if self._complete(self.lanes(strand.on), needed, width).all():
            return [strand]
        waiting = [*self.held.pop(strand.pc, []), strand]
        union = np.zeros(self.threads, bool)
        for one in waiting:
            union |= self.lanes(one.on)
        ok = self._complete(union, needed, width)
        gone: list[Strand] = []
        for one in waiting:
            mine = self.lanes(one.on)
            for on, goes in ((mine & ok, True), (mine & ~ok, False)):
                count = int(np.count_nonzero(on))
                if count:
                    piece = Strand(strand.pc, self.mask(on), count, one.stack, turn=one.turn)
                    (gone if goes else self.held.setdefault(strand.pc, [])).append(piece)
        return gone or None

    def _complete(self, here: Array, needed: Array, width: int) -> Array:
        """Of each thread: are all those here that its group of `width` waits for (or none at all)?"""
        padding = -self.threads % width
        grouped = np.pad(here, (0, padding)).reshape(-1, width)
        missing = np.pad(needed, (0, padding)).reshape(-1, width) & ~grouped
        complete = ~np.asarray(missing.any(1)) | ~np.asarray(grouped.any(1))
        return np.repeat(complete, width)[:self.threads]

    def leave(self, strand: Strand) -> None:
        """Threads exit; those who wait for whole warps or the whole CTA may now be complete."""
        self.alive = self.alive & ~self.lanes(strand.on)
        self.barriers.settle_all()
        for strands in [self.held.pop(pc) for pc in list(self.held)]:
            for one in strands:
                self.put(one)

    def blocked_at(self) -> int | None:
        """An instruction at which threads wait."""
        return min([*self.held, *self.barriers.blocked_at(), *self.copies.blocked_at()], default=None)

    def fault_state(self) -> str:
        """Who waits where, for a deadlock."""
        parts = [*self.barriers.describe(), *self.copies.describe()]
        for pc, strands in self.held.items():
            threads = np.flatnonzero(np.logical_or.reduce([self.lanes(s.on) for s in strands]))
            line = self.program.code[pc].line
            parts.append(f"{len(threads)} lanes (thread {threads[0]} first) hold at PTX line {line} for the rest of "
                         f"their warps: {self.program.text(line).strip()}")
        return "; ".join(parts) or "nothing is known of what they wait for"
