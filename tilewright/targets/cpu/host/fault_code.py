"""Memory faults of kernels, caught: a bad address ends the launch with an error instead of the process (LLVM text).

A thread that enters a kernel notes in its *guard* (`records.Guard`, one per thread, kept in thread-specific data) which
kernel that is and the stack pointer to go back to.  The handler of SIGSEGV and SIGBUS looks at the guard of its thread:
if the instruction that failed is the kernel's, or that of a leaf of the C library that the kernel has called (memset),
the thread goes on behind the call of the kernel, as if that had returned 1; the signal's frame restores mask and
stack.  Kernels hold no locks and own no memory, so nothing is left behind.  Every other fault goes to the handler that
was there before: Python's, faulthandler's, or the system's, which ends the process.
Handlers stack: where another one was installed above ours, the next `catch_faults` puts a further one on top, with a
memory of its own of what was below, so that chains have no circle (faulthandler restores what it found, then raises).
A kernel that was left in the middle has not released AMX's tile registers, so `run_kernel` does.
x86-64 Linux: registers are saved and restored by hand (System V ABI), and `ucontext_t` is Linux's.
Before: `stopped` and the externals of `pool_code`.  Tests: tests/targets/cpu_host/test_faults.py.
"""

from __future__ import annotations

from functools import partial

from tilewright.targets.cpu.host.native import Native, NativeModule
from tilewright.targets.cpu.host.records import Flags, Frame, Guard, Kernel, Status
from tilewright.targets.llvm.types import I1, I32, I64, PTR, VOID, Value, constant

LEVELS = 4                      # of handlers, each above another program's
SIGNALS = (11, 7)               # SIGSEGV, SIGBUS (signal(7))
_ACTION = 152                   # bytes of glibc's struct sigaction: handler, mask, flags, restorer
_ACTION_FLAGS = 136
_SIGINFO, _ON_STACK = 4, 0x08000000     # sa_flags
_SI_CODE, _SI_ADDR = 8, 16      # in siginfo_t
_RSP, _RIP, _RAX = 160, 168, 144        # in ucontext_t, x86-64: gregs begin at byte 40

# Arguments: code, slots, first, last, context, guard.  `guard` learns where to go on; 0 in rax is an ordinary return.
_GUARDED = ("pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15; subq $$8, %rsp; "
            # for debuggers, how to get at the caller's frame from here to the end but for the last instructions
            ".cfi_def_cfa_offset 64; .cfi_offset %rbp, -16; .cfi_offset %rbx, -24; .cfi_offset %r12, -32; "
            ".cfi_offset %r13, -40; .cfi_offset %r14, -48; .cfi_offset %r15, -56; "
            f"movq %rsp, {Guard.STACK}(%r9); leaq 7f(%rip), %rax; movq %rax, {Guard.RESUME}(%r9); "
            "movq %rdi, %rax; movq %rsi, %rdi; movq %rdx, %rsi; movq %rcx, %rdx; movq %r8, %rcx; "
            "callq *%rax; xorl %eax, %eax; "
            "7: addq $$8, %rsp; popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp; retq")

# In bytes, since this code is made for processors without it too; it runs only where a kernel has used AMX.
_TILERELEASE = ".byte 0xc4, 0xe2, 0x78, 0x49, 0xc0"


class FaultCode:
    """Writes `run_kernel`, which enters kernels, and `catch_faults` and `release_faults` (public)."""

    def __init__(self, module: NativeModule) -> None:
        self.module = module
        self._declare()
        self._guarded()
        self._own_guard()
        self._note()
        self._run_kernel()
        self._is_kernels()
        self._forward()
        self._handle()
        for level in range(LEVELS):
            self._handler(level)
        self._catch()
        self._release()

    def _declare(self) -> None:
        m = self.module
        m.external("pthread_key_create", I32, PTR, PTR)
        m.external("pthread_getspecific", PTR, I32)
        m.external("pthread_setspecific", I32, I32, PTR)
        m.external("calloc", PTR, I64, I64)
        m.external("sigaction", I32, I32, PTR, PTR)
        m.external("raise", I32, I32)
        m.writer.add_global("@guard_key = internal global i32 -1")
        m.writer.add_global("@fault_levels = internal global i64 0")
        m.writer.add_global(f"@below = internal global [{_ACTION * len(SIGNALS) * LEVELS} x i8] zeroinitializer, "
                            "align 16")

    def _key(self, n: Native) -> Value:
        return n.get(Value(PTR, "@guard_key"), 0, I32)

    # -- entering a kernel

    def _guarded(self) -> None:
        names = [("code", PTR), ("slots", PTR), ("first", I64), ("last", I64), ("context", PTR), ("guard", PTR)]
        f = self.module.function("guarded", names, I64, attributes="naked noinline nounwind uwtable").f
        f.do(f'call void asm sideeffect "{_GUARDED}", ""()')
        f.do("unreachable")

    def _own_guard(self) -> None:
        """The guard of this thread; null if there is no memory or nobody catches faults."""
        n = self.module.function("own_guard", [], PTR, inline=True)
        key = self._key(n)
        n.when(n.is_("slt", key, 0), lambda: n.leave(constant(PTR, 0)))
        found = n.call("pthread_getspecific", key)
        n.when(n.is_("ne", n.as_int(found), 0), lambda: n.leave(found))
        new = n.call("calloc", 1, Guard.SIZE)
        n.when(n.is_("ne", n.as_int(new), 0), lambda: n.call("pthread_setspecific", key, new))
        n.end(new)

    def _note(self) -> None:
        """Tell a launch's owner of the fault in `guard`, unless something else has ended the launch before."""
        n = self.module.function("note_fault", [("guard", PTR), ("slots", PTR), ("context", PTR)])
        guard, slots, context = n.params
        status = n.get(context, Frame.STATUS_AT, PTR)
        won = n.exchange_if(status, 0, n.value(0), n.value(Status.FAULT))
        n.when(n.f.not_(won), n.leave)
        for word, value in ((Status.PROGRAM, n.get(context, Frame.PROGRAM)), (Status.SLOTS, n.as_int(slots)),
                            (Status.ADDRESS, n.get(guard, Guard.ADDRESS)), (Status.SIGNAL, n.get(guard, Guard.SIGNAL))):
            n.put(status, 8 * word, value)
        n.end()

    def _run_kernel(self) -> None:
        """Run programs first..last-1 with a context; a fault ends that early and stops the launch."""
        n = self.module.function("run_kernel", [("kernel", PTR), ("slots", PTR), ("first", I64), ("last", I64),
                                                ("context", PTR)], inline=True)
        kernel, slots, first, last, context = n.params
        entry, guard = n.get(kernel, Kernel.ENTRY, PTR), n.call("own_guard")

        def unguarded() -> None:
            n.call_pointer(entry, VOID, slots, first, last, context)
            n.leave()

        n.when(n.is_("eq", n.as_int(guard), 0), unguarded)
        # A kernel that prints may lead to another launch on this thread, so what was noted before comes back.
        outer_stack, outer_resume = n.get(guard, Guard.STACK), n.get(guard, Guard.RESUME)
        outer = n.get(guard, Guard.KERNEL)
        n.put(guard, Guard.KERNEL, n.as_int(kernel))
        n.put(context, Frame.PROGRAM, first)
        failed = n.call("guarded", entry, slots, first, last, context, guard)
        n.put(guard, Guard.KERNEL, outer)
        n.put(guard, Guard.STACK, outer_stack)
        n.put(guard, Guard.RESUME, outer_resume)

        def note() -> None:
            tiles = n.both(n.get(kernel, Kernel.FLAGS), Flags.TILES)
            n.when(n.is_("ne", tiles, 0), lambda: n.f.do(f'call void asm sideeffect "{_TILERELEASE}", ""()'))
            n.call("note_fault", guard, slots, context)

        n.when(n.is_("ne", failed, 0), note)
        n.end()

    # -- the handler

    def _is_kernels(self) -> None:
        n = self.module.function("is_kernels", [("kernel", PTR), ("address", I64)], I1, inline=True)
        kernel, address = n.params
        n.end(n.is_("ult", n.sub(address, n.get(kernel, Kernel.CODE)), n.get(kernel, Kernel.CODE_SIZE)))

    def _below(self, n: Native, level: Value, signal: Value) -> Value:
        """What was installed for a signal below our handler of that level."""
        second = n.widen(n.is_("eq", signal, SIGNALS[1]))
        return n.at(Value(PTR, "@below"), n.mul(n.add(n.mul(level, len(SIGNALS)), second), _ACTION))

    def _forward(self) -> None:
        """Let the handler below have a signal; the system's ends the process when the instruction fails again."""
        n = self.module.function("forward", [("level", I64), ("signal", I32), ("info", PTR), ("context", PTR)])
        level, signal, info, context = n.params
        action = self._below(n, level, signal)
        handler = n.get(action, 0, PTR)
        sent = n.is_("sle", n.get(info, _SI_CODE, I32), 0)      # by a program: kill, raise

        def default() -> None:
            n.call("sigaction", signal, action, constant(PTR, 0))
            n.when(sent, lambda: n.call("raise", signal))
            n.leave()

        n.when(n.is_("eq", n.as_int(handler), 0), default)
        ignored = n.is_("eq", n.as_int(handler), 1)
        n.when(n.both(ignored, sent), n.leave)
        n.when(ignored, default)
        long_form = n.is_("ne", n.both(n.get(action, _ACTION_FLAGS, I32), _SIGINFO), 0)
        n.when(long_form, lambda: n.call_pointer(handler, VOID, signal, info, context),
               lambda: n.call_pointer(handler, VOID, signal))
        n.end()

    def _handle(self) -> None:
        n = self.module.function("handle", [("level", I64), ("signal", I32), ("info", PTR), ("context", PTR)])
        level, signal, info, context = n.params

        def forward() -> None:
            n.call("forward", level, signal, info, context)
            n.leave()

        key = self._key(n)
        n.when(n.is_("slt", key, 0), forward)
        guard = n.call("pthread_getspecific", key)
        n.when(n.is_("eq", n.as_int(guard), 0), forward)
        kernel = n.get(guard, Guard.KERNEL, PTR)
        n.when(n.is_("eq", n.as_int(kernel), 0), forward)

        def from_a_leaf() -> None:
            caller = n.get(n.get(context, _RSP, PTR))
            n.when(n.f.not_(n.call("is_kernels", kernel, caller)), forward)

        n.when(n.f.not_(n.call("is_kernels", kernel, n.get(context, _RIP))), from_a_leaf)
        n.put(guard, Guard.ADDRESS, n.get(info, _SI_ADDR))
        n.put(guard, Guard.SIGNAL, n.widen(signal))
        n.put(context, _RSP, n.get(guard, Guard.STACK))
        n.put(context, _RIP, n.get(guard, Guard.RESUME))
        n.put(context, _RAX, 1)
        n.end()

    def _handler(self, level: int) -> None:
        n = self.module.function(f"fault_{level}", [("signal", I32), ("info", PTR), ("context", PTR)])
        n.call("handle", level, *n.params)
        n.end()

    # -- installing

    def _catch(self) -> None:
        """Install our handler above what is there, unless it is there; callers hold Python's lock."""
        n = self.module.function("catch_faults", [], public=True)
        key, count = Value(PTR, "@guard_key"), Value(PTR, "@fault_levels")

        def make_key() -> None:
            made = n.call("pthread_key_create", key, Value(PTR, "@free"))
            n.when(n.is_("ne", made, 0), n.leave)

        n.when(n.is_("slt", n.get(key, 0, I32), 0), make_key)
        now = n.f.alloca(I64, _ACTION // 8)
        n.call("sigaction", n.value(SIGNALS[0], I32), constant(PTR, 0), now)
        for level in range(LEVELS):
            n.when(n.is_("eq", n.get(now, 0), n.as_int(Value(PTR, f"@fault_{level}"))), n.leave)
        installed = n.get(count)
        for level in range(LEVELS):
            n.when(n.is_("eq", installed, level), partial(self._install, n, level, now))
        n.end()

    def _install(self, n: Native, level: int, action: Value) -> None:
        """As the handler of that level; returns."""
        for offset in range(0, _ACTION, 8):
            n.put(action, offset, 0)
        n.put(action, 0, n.as_int(Value(PTR, f"@fault_{level}")))
        n.put(action, _ACTION_FLAGS, n.value(_SIGINFO | _ON_STACK, I32))
        n.put(Value(PTR, "@fault_levels"), 0, level + 1)
        for signal in SIGNALS:
            number = n.value(signal, I32)
            n.call("sigaction", number, action, self._below(n, n.value(level), number))
        n.leave()

    def _release(self) -> None:
        """Put back what was below our uppermost handler, where that is still installed."""
        n = self.module.function("release_faults", [], public=True)
        now = n.f.alloca(I64, _ACTION // 8)
        for level in reversed(range(LEVELS)):
            ours = n.as_int(Value(PTR, f"@fault_{level}"))
            for signal in SIGNALS:
                number = n.value(signal, I32)
                n.call("sigaction", number, constant(PTR, 0), now)
                below = self._below(n, n.value(level), number)

                n.when(n.is_("eq", n.get(now, 0), ours), partial(self._put_back, n, level, number, below))
        n.end()

    def _put_back(self, n: Native, level: int, signal: Value, below: Value) -> None:
        n.call("sigaction", signal, below, constant(PTR, 0))
        n.put(Value(PTR, "@fault_levels"), 0, level)
