"""Each form of instruction: our PTX gives what LLVM's gives, on the PTX machine, for numbers that matter."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.targets.nvidia.translate.harness import CPU, FEATURES, TYPES, bits_of, both, edges, kernel
from tilewright.targets.nvidia.translate.body import UntranslatableError
from tilewright.targets.nvidia.translate.module import translated

INTEGERS = ("i8", "i16", "i32", "i64")
CONSTANTS = (0, 1, -1, 2, 3, 7, 8, 10, 16, 31, 48, 100, 127, -3, -16, 641, 65535, 1 << 20, (1 << 31) - 1, -(1 << 31),
             (1 << 32) + 5, (1 << 62) + 1, -(1 << 63))


def constants(t, *, zero=True):
    half = 1 << bits_of(t) - 1
    return [c for c in CONSTANTS if -half <= c < half and (zero or c)]


def two(t, seed):
    return {t: edges(t, seed), t + "'": edges(t, seed + 1)}


@pytest.mark.parametrize("t", INTEGERS)
@pytest.mark.parametrize("op", ["add", "sub", "mul", "and", "or", "xor"])
def test_arithmetic(op, t):
    body = [f"%r = {op} {t} %a, %b"]
    body += [f"%r{k} = {op} {t} %a, {c}\n%s{k} = {op} {t} {c}, %a" for k, c in enumerate(constants(t))]
    results = {"%r": t, **{f"%{x}{k}": t for k in range(len(constants(t))) for x in "rs"}}
    ours = both("\n".join(body), two(t, 1), results)
    name = {"add": "add", "sub": "subtract", "mul": "multiply", "and": "bitwise_and", "or": "bitwise_or",
            "xor": "bitwise_xor"}[op]
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(ours[0], getattr(np, name)(edges(t, 1), edges(t, 2)))


@pytest.mark.parametrize("t", INTEGERS)
@pytest.mark.parametrize("op", ["sdiv", "udiv", "srem", "urem"])
def test_division_by_constants(op, t):
    known = constants(t, zero=False)
    body = [f"%r{k} = {op} {t} %a, {c}" for k, c in enumerate(known)]
    given = edges(t, 3)
    lowest = np.iinfo(TYPES[t]).min
    given[given == lowest] += 1     # by -1 it is undefined
    ours = both("\n".join(body), {t: given}, {f"%r{k}": t for k in range(len(known))})
    for c, mine in zip(known, ours, strict=True):
        unsigned = op[0] == "u"
        a, b = [int(v) & (1 << bits_of(t)) - 1 if unsigned else int(v) for v in given], c
        b = b & (1 << bits_of(t)) - 1 if unsigned else b
        quotients = [abs(v) // abs(b) * (-1 if (v < 0) != (b < 0) else 1) for v in a]
        wanted = quotients if op.endswith("div") else [v - q * b for v, q in zip(a, quotients, strict=True)]
        mask = (1 << bits_of(t)) - 1
        assert [int(v) & mask for v in mine] == [v & mask for v in wanted], (op, t, c)


@pytest.mark.parametrize("op", ["sdiv", "udiv", "srem", "urem"])
def test_division_of_numbers_that_are_known_to_be_small(op):
    known = (1, 2, 3, 5, 7, 10, 24, 33, 96, 127, 1000, 65537, (1 << 31) - 1)
    body = ["%m = lshr i32 %a, 1"] + [f"%r{k} = {op} i32 %m, {c}" for k, c in enumerate(known)]
    ours = both("\n".join(body), {"i32": edges("i32", 5)}, {f"%r{k}": "i32" for k in range(len(known))})
    half = edges("i32", 5).view(np.uint32) >> 1
    for c, mine in zip(known, ours, strict=True):
        np.testing.assert_array_equal(mine, half // c if op.endswith("div") else half % c)


@pytest.mark.parametrize("t", INTEGERS)
@pytest.mark.parametrize("op", ["shl", "lshr", "ashr"])
def test_shifts(op, t):
    bits = bits_of(t)
    amounts = sorted({0, 1, 3, bits // 2, bits - 1})
    body = [f"%n = and {t} %b, {bits - 1}", f"%r = {op} {t} %a, %n"]
    body += [f"%r{k} = {op} {t} %a, {n}" for k, n in enumerate(amounts)]
    both("\n".join(body), two(t, 7), {"%r": t, **{f"%r{k}": t for k in range(len(amounts))}})


def test_bits_that_are_moved_and_masked():
    """Fields of a number, and sums of what has no bit in common."""
    body = """%f1 = and i32 %a, 96
%f2 = lshr i32 %f1, 5
%f3 = mul i32 %f2, 4
%f4 = shl i32 %a, 7
%f5 = and i32 %f4, 14336
%f6 = lshr i32 %f5, 3
%f7 = and i32 %f6, 255
%g1 = shl nuw i32 %tid, 3
%g2 = or disjoint i32 %g1, 4096
%g3 = xor i32 %g2, 12
%g4 = and i32 %g2, 4120
%g5 = lshr i32 %g2, 2
%g6 = sext i32 %g2 to i64
%g7 = mul i64 %g6, 12
%g8 = add i32 %g2, -5000
%g9 = sext i32 %g8 to i64
%h1 = mul i64 %g9, 8
%h2 = sub i32 %g2, %g1
%h3 = zext i32 %g8 to i64"""
    both(body, {"i32": edges("i32", 9)}, {f"%{n}": "i64" if n in ("g6", "g7", "g9", "h1", "h3") else "i32" for n in (
        "f2", "f3", "f5", "f6", "f7", "g2", "g3", "g4", "g5", "g6", "g7", "g8", "g9", "h1", "h2", "h3")})


def test_sums_that_wrap_before_they_are_widened():
    """What a sum of 32 bits is, is known before it has 64: of an index, which is small, only that cannot differ."""
    numbers = [n for n in constants("i32") if n] + [-5, 5]
    lines = [line for k, n in enumerate(numbers) for line in (
        f"%s{k} = add i32 %a, {n}", f"%t{k} = add i32 %tid, {n}",
        *(f"%{x}{y}{k} = {x}ext i32 %{y}{k} to i64" for x in "sz" for y in "st"))]
    ours = both("\n".join(lines), {"i32": edges("i32", 21)},
                {f"%{x}{y}{k}": "i64" for x in "sz" for y in "st" for k in range(len(numbers))})
    for k, n in enumerate(numbers):
        np.testing.assert_array_equal(ours[k], (edges("i32", 21) + np.int64(n)).astype(np.int32).astype(np.int64))


@pytest.mark.parametrize("t", INTEGERS)
def test_comparisons(t):
    predicates = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
    few = [c for c in constants(t) if c in (0, 1, -1, 7, 127)]
    body = [f"%r{p} = icmp {p} {t} %a, %b\n%n{p} = xor i1 %r{p}, true" for p in predicates]
    body += [f"%r{p}{k} = icmp {p} {t} %a, {c}\n%s{p}{k} = icmp {p} {t} {c}, %a\n%m{p}{k} = icmp {p} {t} %m, {c}"
             for p in predicates for k, c in enumerate(few)]
    names = [f"%{x}{p}" for p in predicates for x in "rn"]
    names += [f"%{x}{p}{k}" for p in predicates for k in range(len(few)) for x in "rsm"]
    ours = both(f"%m = and {t} %a, 7\n" + "\n".join(body), two(t, 11), dict.fromkeys(names, "i1"))
    np.testing.assert_array_equal(ours[names.index("%rslt")], edges(t, 11) < edges(t, 12))


def test_conditions():
    body = """%c = icmp slt i32 %a, 0
%d = icmp slt i32 %b, 0
%e = icmp sge i32 %a, 0
%f = icmp sge i32 %b, 0
%r1 = and i1 %c, %d
%r2 = or i1 %c, %d
%r3 = and i1 %e, %f
%r4 = xor i1 %c, %d
%r5 = select i1 %c, i1 %d, i1 true
%r6 = select i1 %c, i1 false, i1 %f
%r7 = select i1 %c, i1 %d, i1 %f
%r8 = xor i1 %r7, true
%r9 = icmp eq i1 %c, %d
%s1 = select i1 %r8, i32 %a, i32 %b
%s2 = select i1 %r8, i32 %b, i32 %a
%s3 = add i32 %s1, %s2
%s4 = zext i1 %r7 to i32
%s5 = sext i1 %r7 to i32
%s6 = zext i1 %r7 to i8
%s7 = zext i8 %s6 to i32
%s8 = sext i1 %r7 to i8
%s9 = zext i8 %s8 to i32"""
    both(body, two("i32", 13), {**{f"%r{k}": "i1" for k in range(1, 10)},
                                **{f"%s{k}": "i32" for k in (1, 2, 3, 4, 5, 7, 9)}})


@pytest.mark.parametrize("t", ["i16", "i32", "i64"])
def test_extrema(t):
    names = ("smin", "smax", "umin", "umax")
    body = [f"%m = and {t} %a, 63"]
    body += [f"%r{n} = call {t} @llvm.{n}.{t}({t} %a, {t} %b)\n%s{n} = call {t} @llvm.{n}.{t}({t} %m, {t} 63)\n"
             f"%t{n} = call {t} @llvm.{n}.{t}({t} %m, {t} 9)\n%u{n} = call {t} @llvm.{n}.{t}({t} %m, {t} -1)"
             for n in names]
    declared = "".join(f"declare {t} @llvm.{n}.{t}({t}, {t})\n" for n in names)
    both("\n".join(body), two(t, 15), {f"%{x}{n}": t for n in names for x in "rstu"}, declared)


@pytest.mark.parametrize("t", ["i16", "i32", "i64"])
def test_extrema_with_the_ends_of_a_type(t):
    half = 1 << bits_of(t) - 1
    forms = [(f"{sign}{how}", n) for sign in "su" for how in ("min", "max")
             for n in ((-half, half - 1) if sign == "s" else (0, -1))]
    lines = "\n".join(f"%r{k} = call {t} @llvm.{n}.{t}({t} %a, {t} {end})" for k, (n, end) in enumerate(forms))
    declared = "".join(f"declare {t} @llvm.{n}.{t}({t}, {t})\n" for n in sorted({n for n, _ in forms}))
    results = {f"%r{k}": t for k in range(len(forms))}
    both(lines, {t: edges(t, 31)}, results, declared)
    assert not re.search(r"\b(min|max)\.", translated(kernel(lines, [t], results, declared), CPU, FEATURES))


@pytest.mark.parametrize("source, target", [(s, t) for s in INTEGERS for t in INTEGERS if s != t])
def test_integer_casts(source, target):
    narrower = bits_of(target) < bits_of(source)
    casts = ("trunc",) if narrower else ("sext", "zext")
    body = [f"%r{c} = {c} {source} %a to {target}\n%d{c} = {c} {source} %e to {target}" for c in casts]
    ours = both(f"%e = add {source} %a, %a\n" + "\n".join(body), {source: edges(source, 17)},
                {f"%{x}{c}": target for c in casts for x in "rd"})
    if not narrower:
        np.testing.assert_array_equal(ours[0], edges(source, 17).astype(TYPES[target]))


@pytest.mark.parametrize("t", ["float", "double"])
def test_floats(t):
    tests = ("oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une", "uno")
    short = {"float": "f32", "double": "f64"}[t]
    body = [f"%r{op} = {op} {t} %a, %b" for op in ("fadd", "fsub", "fmul", "fdiv")]
    body += [f"%c{p} = fcmp {p} {t} %a, %b\n%n{p} = xor i1 %c{p}, true" for p in tests]
    body += [f"%f{f} = call {t} @llvm.{f}.{short}({t} %a)" for f in ("fabs", "floor", "ceil", "trunc", "sqrt")]
    body += [f"%fma = call {t} @llvm.fma.{short}({t} %a, {t} %b, {t} 0x3FF0000000000000)", f"%neg = fneg {t} %b"]
    declared = "".join(f"declare {t} @llvm.{f}.{short}({t})\n" for f in ("fabs", "floor", "ceil", "trunc", "sqrt"))
    results = {**{f"%r{op}": t for op in ("fadd", "fsub", "fmul", "fdiv")},
               **{f"%{x}{p}": "i1" for p in tests for x in "cn"},
               **{f"%f{f}": t for f in ("fabs", "floor", "ceil", "trunc", "sqrt")}, "%fma": t, "%neg": t}
    both("\n".join(body), two(t, 19), results, declared + f"declare {t} @llvm.fma.{short}({t}, {t}, {t})\n")


def test_float_casts():
    body = """%d = fpext float %a to double
%h = fptrunc float %a to half
%w = fpext half %h to float
%x = fptrunc double %d to float
%i = sitofp i32 %b to float
%u = uitofp i32 %b to double
%n = trunc i32 %b to i8
%y = sitofp i8 %n to float
%z = uitofp i8 %n to float
%s = fadd float %w, %w
%t = fptrunc float %s to half
%m = fmul float %w, %w
%p = fptrunc float %m to half"""
    both(body, {"float": edges("float", 21), "i32": edges("i32", 22)},
         {"%d": "double", "%h": "half", "%w": "float", "%x": "float", "%i": "float", "%u": "double", "%y": "float",
          "%z": "float", "%t": "half", "%p": "half"})


def test_floats_to_integers():
    given = np.linspace(-30000, 30000, 128).astype(np.float32)
    body = "%i = fptosi float %a to i32\n%l = fptosi float %a to i64\n%s = fptosi float %a to i16"
    ours = both(body, {"float": given}, {"%i": "i32", "%l": "i64", "%s": "i16"})
    np.testing.assert_array_equal(ours[0], given.astype(np.int32))


def test_vectors_in_registers():
    body = """%v = bitcast i32 %a to <2 x i16>
%l = extractelement <2 x i16> %v, i64 0
%h = extractelement <2 x i16> %v, i64 1
%w1 = insertelement <2 x i16> poison, i16 %h, i64 0
%w2 = insertelement <2 x i16> %w1, i16 %l, i64 1
%r = bitcast <2 x i16> %w2 to i32
%z = zext i16 %h to i32
%y = shl i32 %z, 16
%b4 = bitcast i32 %b to <4 x i8>
%e0 = extractelement <4 x i8> %b4, i64 0
%e3 = extractelement <4 x i8> %b4, i64 3
%n = add i8 %e0, %e3
%x1 = insertelement <4 x i8> poison, i8 %e3, i64 0
%x2 = insertelement <4 x i8> %x1, i8 %n, i64 1
%x3 = insertelement <4 x i8> %x2, i8 %e0, i64 2
%x4 = insertelement <4 x i8> %x3, i8 17, i64 3
%s = bitcast <4 x i8> %x4 to i32
%u1 = insertelement <4 x i8> poison, i8 %e3, i64 0
%u2 = insertelement <4 x i8> %u1, i8 %e0, i64 1
%u3 = insertelement <4 x i8> %u2, i8 %e0, i64 2
%u4 = insertelement <4 x i8> %u3, i8 %e3, i64 3
%t = bitcast <4 x i8> %u4 to i32
%m1 = insertelement <2 x i16> poison, i16 %l, i64 0
%m2 = insertelement <2 x i16> %m1, i16 7, i64 1
%m = bitcast <2 x i16> %m2 to i32"""
    ours = both(body, two("i32", 23), dict.fromkeys(("%r", "%y", "%s", "%t", "%m"), "i32"))
    a = edges("i32", 23).view(np.uint32)
    np.testing.assert_array_equal(ours[0].view(np.uint32), a >> 16 | a << 16)


def test_places_on_the_stack():
    body = """%s = alloca i32, i64 8, align 4
%k = and i32 %a, 7
%w = zext i32 %k to i64
%q1 = getelementptr i32, ptr %s, i64 1
%q = getelementptr i32, ptr %s, i64 %w
store i32 5, ptr %s, align 4
store i32 6, ptr %q1, align 4
store i32 %b, ptr %q, align 4
%r = load i32, ptr %q, align 4
%t = load i32, ptr %q1, align 4"""
    ours = both(body, two("i32", 25), {"%r": "i32", "%t": "i32"})
    np.testing.assert_array_equal(ours[0], edges("i32", 26))
    np.testing.assert_array_equal(ours[1], np.where(edges("i32", 25) & 7 == 1, edges("i32", 26), 6))


def test_statements():
    """Operands that are results before, predicates, addresses with an offset, text in braces, dollars."""
    body = r"""%c = icmp slt i32 %a, %b
%r = call i32 asm "@$2 add.s32 $0, $1, 1;", "=r,r,b,0"(i32 %a, i1 %c, i32 %b) nounwind
%s = call i32 asm "@$2 add.s32 $0, $1, 1;", "=r,r,b,0"(i32 %a, i1 %c, i32 77) nounwind
TWO
%u = extractvalue { i32, i32 } %t, 0
%v = extractvalue { i32, i32 } %t, 1
%zero = and i64 %place, 0
%n = getelementptr i8, ptr %qa, i64 %zero
%w = call i32 asm sideeffect "ld.global.b32 $0, [$1];", "=r,l,~{memory}"(ptr %n) nounwind"""
    body = body.replace("TWO", '%t = call { i32, i32 } asm "{ .reg .b32 t<2>; add.s32 t0, $2, $3; sub.s32 t1, $2, $3;'
                        r'\0A\09mov.b32 $0, t0; mov.b32 $1, t1; }", "=&r,=&r,r,r"(i32 %a, i32 9) nounwind')
    ours = both(body, two("i32", 27), dict.fromkeys(("%r", "%s", "%u", "%v", "%w"), "i32"))
    a, b = edges("i32", 27), edges("i32", 28)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(ours[0], np.where(a < b, a + np.int32(1), b))
        np.testing.assert_array_equal(ours[1], np.where(a < b, a + np.int32(1), 77))
        np.testing.assert_array_equal(ours[2], a + np.int32(9))
    np.testing.assert_array_equal(ours[4], a)


@pytest.mark.parametrize("line", [
    "%r = frem float %x, %x", "%r = add i128 0, 1", "%r = call float @llvm.sin.f32(float %x)",
    '%r = call i32 asm "mov.b32 $0, $7;", "=r,r"(i32 %tid) nounwind',
    '%r = call i32 asm "mov.b32 $0, $1;", "=q,r"(i32 %tid) nounwind', "switch i32 %tid, label %x []"])
def test_what_is_not_known_is_left_to_llvm(line):
    text = ('define ptx_kernel void @k(i64 %p0) nounwind "nvvm.reqntid"="128" "nvvm.minctasm"="1" {\nentry:\n'
            f"  %tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()\n  {line}\n  ret void\n}}\n")
    with pytest.raises(UntranslatableError):
        translated(text, "sm_90a", "+ptx80")
