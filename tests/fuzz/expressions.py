"""Random well-typed expressions.

`expr(kind, depth)` makes one of a given type from variables, loads, constants and operations, defined for all inputs
(see `generate`).  Tests: tests/fuzz/test_fuzz.py.
"""

from __future__ import annotations

import random

from tests.fuzz.trees import Expr, Kind, offsets, spelled

SIGNED, UNSIGNED = ("i8", "i16", "i32", "i64"), ("u8", "u16", "u32", "u64")
INTS = (*SIGNED, *UNSIGNED)
FLOATS = ("fp16", "bf16", "fp32", "fp64")
INPUTS = ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "fp16", "fp32", "fp64")


class Expressions:
    """Makes expressions over the variables in scope; the shapes and dtypes are those of one program."""

    random: random.Random
    variables: dict[str, Kind]                  # in scope
    shapes: list[tuple[int, ...]]
    sides: list[int]                            # sizes of the inner dimension of products
    sizes: set[int]                             # of the ranges that the kernel has
    dtypes: list[str]
    inputs: set[str]                            # dtypes of the arrays that were read so far
    functions: list[tuple[str, Kind, tuple[Kind, ...], str]]
    per_program: int
    in_function = False                         # where there are no arrays

    def choose(self, items):
        return items[self.random.randrange(len(items))]

    def chance(self, p):
        return self.random.random() < p

    def name(self, stem):
        self.fresh += 1
        return f"{stem}{self.fresh}"

    def expr(self, kind, depth) -> Expr:
        """A random expression of this kind."""
        if depth <= 0:
            return self.leaf(kind)
        makers = [self.leaf, self.where, self.cast]
        if kind.dtype == "i1":
            makers += [self.compare, self.compare, self.logic, self.idiom]
        elif kind.dtype in INTS:
            makers += [self.int_binary] * 4 + [self.int_unary, self.int_special, self.dot_int, self.idiom, self.idiom]
        else:
            makers += [self.float_binary] * 4 + [self.float_unary, self.float_special, self.dot_float, self.idiom]
        if kind.shape:
            makers += [self.broadcast, self.rearrange, self.rearrange, self.scan, self.gather]
        makers += [self.reduce, self.reduce, self.call]
        for _ in range(12):
            made = self.choose(makers)(kind, depth - 1)
            if made is not None:
                return made
        return self.leaf(kind)

    def leaf(self, kind, depth=0):
        names = [n for n, k in self.variables.items() if k == kind]
        if names and self.chance(0.6):
            return Expr(kind, self.choose(names[-5:]))
        if self.in_function:
            same = [n for n, k in self.variables.items() if k.shape == kind.shape]
            if same and kind.dtype not in FLOATS and self.variables[same[0]].dtype in INTS:
                return Expr(kind, f"{same[0]}.to({spelled(kind.dtype)})")
            return self.constant(kind)
        if self.chance(0.15):
            return self.constant(kind)
        if not kind.shape and kind.dtype in INTS:
            return Expr(kind, f"({self.choose(['pid', 'n', 'm', 'tl.num_programs(0)', 'pid * n', 'm - pid', 'C'])}"
                              f" + {self.random.randrange(3)} + pid * 0).to({spelled(kind.dtype)})")
        if len(kind.shape) == 1 and kind.dtype in INTS and self.chance(0.3):
            return Expr(kind, f"r{kind.shape[0]}.to({spelled(kind.dtype)})")
        return self.load(kind)

    def constant(self, kind):
        number = self.random.randrange(0, 100)
        if kind.dtype == "i1":
            return Expr(kind, f"(tl.full({kind.shape}, {number % 2}, tl.int32) != 0)")
        if kind.dtype in FLOATS:
            text = self.choose(["0.0", "-0.0", "1.5", "-2.0", "float('inf')", "0.1", "1e-5", "1024.0"])
        else:
            text = str(number if kind.dtype[0] == "u" else number - 50)
        return Expr(kind, f"tl.full({kind.shape}, {text}, {spelled(kind.dtype)})")

    def load(self, kind):
        dtype = kind.dtype if kind.dtype in INPUTS else {"bf16": "fp32", "i1": "u8", "u64": "i64"}[kind.dtype]
        self.inputs.add(dtype)
        place = f"in_{dtype} + pid * {self.per_program} + {self.places(kind.shape)}"
        if kind.shape and self.chance(0.5):
            at = offsets(kind.shape)
            mask = self.choose([f"{at} < n", f"{at} >= m", f"({at} & 1) == 0", f"{at} < {kind.numel - 1}", "n > 3",
                                f"tl.full({kind.shape}, {self.random.randrange(2)}, tl.int32) != 0"])
            if self.chance(0.4):
                return self.converted(Kind(dtype, kind.shape), kind, Expr(
                    Kind(dtype, kind.shape), f"tl.load({place}, mask=({mask}), other={{0}})",
                    (self.constant(Kind(dtype, kind.shape)),)))
            other = self.choose(["0", "1"]) if dtype in INTS else "-1.5"
            text = f"tl.load({place}, mask=({mask}), other={other})"
        else:
            text = f"tl.load({place})"
        return self.converted(Kind(dtype, kind.shape), kind, Expr(Kind(dtype, kind.shape), text))

    def converted(self, have, want, value):
        """`value` as another dtype of the same shape, floats brought into range before they become integers."""
        if have.dtype == want.dtype:
            return value
        if want.dtype == "i1":
            return Expr(want, "({0} != 0)", (value,))
        to = spelled(want.dtype)
        if have.dtype in FLOATS and want.dtype in INTS:
            low = "0.0" if want.dtype[0] == "u" else "-100.0"
            return Expr(want, f"tl.where(({{0}} > {low}) & ({{0}} < 100.0), {{0}}, 3.0).to({to})", (value,))
        return Expr(want, f"{{0}}.to({to})", (value,))

    def where(self, kind, depth):
        condition = self.expr(Kind("i1", kind.shape if self.chance(0.7) else ()), depth)
        return Expr(kind, "tl.where({0}, {1}, {2})", (condition, self.expr(kind, depth), self.expr(kind, depth)))

    def cast(self, kind, depth):
        wide = kind.dtype in FLOATS and not self.in_function and self.chance(0.2)   # integers that have to be rounded
        other = Kind("i64" if wide else self.choose(self.dtypes), kind.shape)
        if other.dtype == kind.dtype:
            return None
        if wide:
            return self.converted(other, kind, self.load(other))
        if other.dtype in FLOATS and kind.dtype in FLOATS and self.chance(0.3):
            narrow = self.choose(["fp8e5", "fp8e4nv"])
            return Expr(kind, f"{{0}}.to({spelled(narrow)}).to({spelled(kind.dtype)})", (self.expr(other, depth),))
        return self.converted(other, kind, self.expr(other, depth))

    def operands(self, kind, depth):
        """Two operands of a binary operation: one may be a scalar, a number, or of another dtype of the same sort."""
        shape = () if kind.shape and self.chance(0.25) else kind.shape
        left, right = self.expr(kind, depth), self.expr(Kind(kind.dtype, shape), depth)
        if self.chance(0.2):
            right = Expr(Kind(kind.dtype), "1.5" if kind.dtype in FLOATS else str(self.random.randrange(1, 9)))
        return (left, right) if self.chance(0.5) or not right.parts else (left, right)

    def int_binary(self, kind, depth):
        left, right = self.operands(kind, depth)
        bits = int(kind.dtype[1:])
        to = spelled(kind.dtype)
        form = self.choose(["({0} + {1})", "({0} - {1})", "({0} * {1})", "({0} & {1})", "({0} | {1})", "({0} ^ {1})",
                            "tl.minimum({0}, {1})", "tl.maximum({0}, {1})", "//", "%", "<<", ">>", "mixed"])
        if form in ("//", "%") and self.chance(0.4):         # by a number of any size, which is no zero and no -1
            odd = "{1} | 1" if kind.dtype[0] == "u" else f"{{1}} & {2 ** (bits - 1) - 1} | 1"
            # with some bits away, so that a tile may lie between the limits up to which a division is done in floats
            most = self.choose(["", "", f" & {2 ** (bits - 3) - 1}", f" & {2 ** (bits // 2 + 2) - 1}"])
            return Expr(kind, f"(({{0}}{most}) {form} ({odd})).to({to})", (left, right))
        if form in ("//", "%"):
            return Expr(kind, f"({{0}} {form} (({{1}} & 7) + 1)).to({to})", (left, right))
        if form in ("<<", ">>"):
            return Expr(kind, f"({{0}} {form} ({{1}} & {bits - 1})).to({to})", (left, right))
        if form == "mixed":
            other = self.expr(Kind(self.choose(INTS), kind.shape), depth)
            return Expr(kind, f"({{0}} {self.choose(['+', '*', '^', '-'])} {{1}}).to({to})", (left, other))
        return Expr(kind, form, (left, right))

    def int_unary(self, kind, depth):
        form = self.choose(["(-{0})", "(~{0})", "tl.abs({0})"])
        if kind.dtype[0] == "u" and form != "(~{0})":
            form = "(~{0})"
        return Expr(kind, form, (self.expr(kind, depth),))

    def int_special(self, kind, depth):
        if kind.dtype in ("i32", "u32", "i64", "u64") and self.chance(0.5):
            return Expr(kind, "tl.umulhi({0}, {1})", (self.expr(kind, depth), self.expr(kind, depth)))
        dtype = self.choose(["fp32", "fp16", "i8", "u16"])
        return self.converted(Kind(dtype, kind.shape), kind, self.expr(Kind(dtype, kind.shape), depth))

    def float_binary(self, kind, depth):
        left, right = self.operands(kind, depth)
        form = self.choose(["({0} + {1})", "({0} - {1})", "({0} * {1})", "tl.minimum({0}, {1})",
                            "tl.maximum({0}, {1})", "nan-min", "mixed", "({0} + {1} * {0})"])
        if form == "nan-min":
            form = (f"tl.{self.choose(['minimum', 'maximum'])}({{0}}, {{1}}, "
                    "propagate_nan=tl.PropagateNan.ALL)")
        if form == "mixed":
            other = self.expr(Kind(self.choose((*FLOATS, "i16", "u8")), kind.shape), depth)
            return Expr(kind, f"({{0}} {self.choose(['+', '*', '-'])} {{1}}).to({spelled(kind.dtype)})", (left, other))
        return Expr(kind, form, (left, right))

    def float_unary(self, kind, depth):
        forms = ["(-{0})", "tl.abs({0})"]
        if kind.dtype in ("fp32", "fp64"):
            forms += ["tl.floor({0})", "tl.ceil({0})"]
        if kind.dtype == "fp32":
            forms.append("tl.sqrt_rn({0})")
        return Expr(kind, self.choose(forms), (self.expr(kind, depth),))

    def float_special(self, kind, depth):
        if kind.dtype == "fp32" and self.chance(0.3):
            return Expr(kind, "tl.div_rn({0}, {1})", (self.expr(kind, depth), self.expr(kind, depth)))
        if self.chance(0.4):
            return Expr(kind, "tl.fma({0}, {1}, {2})", tuple(self.expr(kind, depth) for _ in range(3)))
        return Expr(kind, "tl.clamp({0}, -8.0, 12.0)" if kind.dtype != "fp64" else "tl.maximum({0}, 0.5)",
                    (self.expr(kind, depth),))

    def idiom(self, kind, depth):
        """What compilers like to simplify: neutral and equal operands, constants and casts in a row, opposites."""
        x = self.expr(kind, depth)
        if kind.shape and self.chance(0.3):
            back = tuple(reversed(range(len(kind.shape))))
            if len(kind.shape) == 3 and self.chance(0.7):
                first, second = (self.random.sample(range(3), 3) for _ in range(2))
                last = sorted(range(3), key=lambda i: first[second[i]])     # undoes both
                return Expr(kind, "tl.permute(tl.permute(tl.permute({0}, " + "), ".join(
                    str(tuple(order)) for order in (first, second, last)) + ")", (x,))
            return Expr(kind, f"tl.permute(tl.permute({{0}}, {back}), {back})", (x,))
        if kind.dtype == "i1":
            return Expr(kind, self.choose(["({0} == 0)", "({0} != 0)", "({0} == ({0} | {0}))", "({0} ^ ({0} | True))",
                                           "(({0} == 0) == 0)", "(~{0})"]), (x,))
        if kind.dtype in FLOATS and self.chance(0.4):
            return Expr(kind, self.choose([
                "tl.maximum({0}, 0.0)", "tl.maximum(-0.0, {0})", "tl.minimum({0}, -0.0)", "tl.minimum(0.0, {0})",
                "tl.maximum({0}, 1.5)", "tl.minimum(tl.maximum({0}, -2.0), 2.0)", "tl.maximum(-{0}, {0})"]), (x,))
        if kind.dtype in FLOATS:
            return Expr(kind, self.choose([
                "({0} + 0.0)", "(0.0 + {0})", "({0} - 0.0)", "({0} * 1.0)", "tl.abs(-{0})", "(-(-{0}))", "({0} * 0.0)",
                "(0.0 - {0})", "({0} - {0})", "tl.maximum({0}, {0})", "({0} + {0})"]), (x,))
        if self.chance(0.3):
            way = "".join(f".to({spelled(d)})" for d in (self.choose(INTS), self.choose(INTS), kind.dtype))
            return Expr(kind, "{0}" + way, (x,))
        a, b = self.random.randrange(1, 60), self.random.randrange(1, 60)
        return Expr(kind, self.choose([
            f"(({{0}} + {a}) + {b})", f"(({{0}} * {a}) * {b})", f"(({{0}} & {a}) & {b})", f"(({{0}} | {a}) | {b})",
            f"(({{0}} ^ {a}) ^ {b})", "(0 - {0})", "({0} * 1)", "({0} - 0)", "(0 + {0})", "({0} * 0)", "({0} // 1)",
            "({0} % 1)", "({0} - {0})", "({0} ^ {0})", "({0} & {0})", "({0} << 0)", "({0} | 0)", "({0} * 2)",
        ]), (x,))

    def compare(self, kind, depth):
        other = Kind(self.choose(self.dtypes[:-1]), kind.shape)
        left, right = self.operands(other, depth)
        if self.chance(0.1):
            right = left
        return Expr(kind, f"({{0}} {self.choose(['<', '<=', '>', '>=', '==', '!='])} {{1}})", (left, right))

    def logic(self, kind, depth):
        if self.chance(0.2):
            return Expr(kind, "({0} == 0)", (self.expr(Kind("i32", kind.shape), depth),))
        return Expr(kind, f"({{0}} {self.choose(['&', '|', '^'])} {{1}})",
                    (self.expr(kind, depth), self.expr(kind, depth)))

    def dot_int(self, kind, depth):
        """An exact product of bytes."""
        if kind.dtype != "i32" or len(kind.shape) != 2:
            return None
        k = self.choose(self.sides)
        left = self.expr(Kind("i8", (kind.shape[0], k)), depth)
        return Expr(kind, "tl.dot({0}, {1})", (left, self.expr(Kind("i8", (k, kind.shape[1])), depth)))

    def dot_float(self, kind, depth):
        """A product of small integers in a float format, which is exact in any order; without an accumulator it is
        negated, since of `x + dot(a, b)` passes make a sum that begins with x, which is another one (accumulate.py)."""
        if kind.dtype != "fp32" or len(kind.shape) != 2:
            return None
        k, format_ = self.choose(self.sides), self.choose(["fp16", "bf16", "fp32"])
        parts = [Expr(Kind(format_, s), f"({{0}} & 15).to({spelled(format_)})", (self.expr(Kind("i32", s), depth),))
                 for s in ((kind.shape[0], k), (k, kind.shape[1]))]
        if self.chance(0.3):
            acc = Expr(kind, "({0} & 255).to(tl.float32)", (self.expr(Kind("i32", kind.shape), depth),))
            return Expr(kind, "tl.dot({0}, {1}, {2})", (*parts, acc))
        return Expr(kind, "(-tl.dot({0}, {1}))", tuple(parts))

    def broadcast(self, kind, depth):
        shape = kind.shape
        if len(shape) == 1 or self.chance(0.3):
            return Expr(kind, f"tl.broadcast_to({{0}}, {shape})", (self.expr(Kind(kind.dtype), depth),))
        axis = self.random.randrange(len(shape))
        small = shape[axis]
        index = ", ".join(":" if i == axis else "None" for i in range(len(shape)))
        if (small,) not in self.shapes:
            return None
        return Expr(kind, f"tl.broadcast_to({{0}}[{index}], {shape})", (self.expr(Kind(kind.dtype, (small,)), depth),))

    def rearrange(self, kind, depth):
        shape = kind.shape
        way = self.random.randrange(5)
        if way == 0 and len(shape) == 2:
            return Expr(kind, "tl.trans({0})", (self.expr(Kind(kind.dtype, shape[::-1]), depth),))
        if way == 1 and len(shape) == 3:
            text, before = "{0}", list(shape)
            for _ in range(self.random.randrange(1, 3)):        # the last one first
                order, sizes = self.random.sample(range(3), 3), list(before)
                for i, o in enumerate(order):
                    before[o] = sizes[i]
                text = text.format(f"tl.permute({{0}}, {tuple(order)})")
            return Expr(kind, text, (self.expr(Kind(kind.dtype, tuple(before)), depth),))
        if way == 2:
            same = [s for s in self.shapes if s and s != shape and Kind("i32", s).numel == kind.numel]
            if same:
                x = self.expr(Kind(kind.dtype, self.choose(same)), depth)
                return Expr(kind, f"tl.reshape({{0}}, {shape})", (x,))
        if way == 3 and shape[-1] == 2 and len(shape) > 1:
            half = Kind(kind.dtype, shape[:-1])
            return Expr(kind, "tl.join({0}, {1})", (self.expr(half, depth), self.expr(half, depth)))
        if way == 4 and len(shape) == 1 and shape[0] % 2 == 0:
            half = Kind(kind.dtype, (shape[0] // 2,))
            self.sizes.add(shape[0] // 2)
            return Expr(kind, "tl.interleave({0}, {1})", (self.expr(half, depth), self.expr(half, depth)))
        return None

    def reduce(self, kind, depth):
        """A reduction over one axis of a tile of a known shape."""
        wider = [(s, a) for s in self.shapes for a in range(len(s)) if s[:a] + s[a + 1:] == kind.shape]
        if not wider:
            return None
        shape, axis = self.choose(wider)
        whole = Kind(kind.dtype, shape)
        if kind.dtype == "i1":
            return Expr(kind, f"(tl.max({{0}}.to(tl.int32), axis={axis}) > 0)", (self.expr(whole, depth),))
        to = spelled(kind.dtype)
        if kind.dtype in FLOATS:
            form = self.choose(["max", "min"])
            if kind.dtype == "fp32" and self.chance(0.3):
                small = Expr(whole, "({0} & 63).to(tl.float32)", (self.expr(Kind("i32", shape), depth),))
                return Expr(kind, f"tl.sum({{0}}, axis={axis})", (small,))
            return Expr(kind, f"tl.{form}({{0}}, axis={axis}).to({to})", (self.expr(whole, depth),))
        form = self.choose(["sum", "max", "min", "xor_sum", "argmax", "argmin"])
        if form.startswith("arg"):
            whole = Kind(self.choose(("i32", "fp32")), shape)
        return Expr(kind, f"tl.{form}({{0}}, axis={axis}).to({to})", (self.expr(whole, depth),))

    def scan(self, kind, depth):
        if kind.dtype not in INTS:
            return None
        axis = self.random.randrange(len(kind.shape))
        reverse = ", reverse=True" if self.chance(0.4) else ""
        return Expr(kind, f"tl.{self.choose(['cumsum', 'cumprod'])}({{0}}, axis={axis}{reverse})"
                          f".to({spelled(kind.dtype)})", (self.expr(kind, depth),))

    def gather(self, kind, depth):
        if len(kind.shape) != 1:
            return None
        source = self.choose([s for s in self.shapes if len(s) == 1])
        index = self.expr(Kind("i32", kind.shape), depth)
        return Expr(kind, f"tl.gather({{0}}, ({{1}} & 1023) % {source[0]}, 0)",
                    (self.expr(Kind(kind.dtype, source), depth), index))

    def call(self, kind, depth):
        fitting = [f for f in self.functions if f[1] == kind]
        if not fitting or self.in_function:
            return None
        name, _, kinds, _ = self.choose(fitting)
        return Expr(kind, f"{name}({{0}}, {{1}})", tuple(self.expr(k, depth) for k in kinds))

    def places(self, shape):
        """Distinct offsets of a tile's elements within a program's part of an array, in one of several orders."""
        at, count = offsets(shape), Kind("i32", shape).numel
        room = self.per_program - count
        forms = [at, at, at, f"({count - 1} - {at})", f"({at} + {self.random.randrange(room)})"]
        if 2 * count <= self.per_program:
            forms.append(f"({at} * 2)")
        if len(shape) == 2:
            forms.append(offsets_transposed(shape))
        return self.choose(forms)

    def crowded_places(self, shape):
        """Offsets of which some are equal: of what is stored at one the last in row-major order stays."""
        at = offsets(shape)
        forms = [f"({at} * 0)", f"({at} // 3)", f"({at} & 5)", f"({at} % 7)"]
        if len(shape) == 2:
            forms += [f"(r{shape[0]}[:, None] * {self.choose([0, 1, 2])} + r{shape[1]}[None, :])",
                      f"(r{shape[0]}[:, None] + r{shape[1]}[None, :] * {self.choose([0, 1, 3])})"]
        return self.choose(forms)

    def tame(self, kind):
        """A float of moderate size that is no NaN."""
        x = self.expr(kind, 1)
        return Expr(kind, "tl.where(tl.abs({0}) < 64.0, {0}, 1.25)", (x,))


def offsets_transposed(shape):
    """The offsets of a matrix stored by columns."""
    return f"(r{shape[0]}[:, None] + r{shape[1]}[None, :] * {shape[0]})"
