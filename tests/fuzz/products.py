"""Statements that multiply tiles: small integers, so that every sum is exact in float32, in whatever order."""

from __future__ import annotations

from tests.fuzz.trees import Kind, Stmt

SIDES = (16, 32, 48, 64)        # of blocks
MOST_BLOCKS = 4                 # along k
BLOCK_NUMBERS = MOST_BLOCKS * SIDES[-1] ** 2


class Products:
    """What grows a program (`generate.Maker`) has these beside its other statements."""

    def _products(self, depth):
        """Products of small integers that go round a loop and are operands of the next; all are exact in float32."""
        n, name, other, index = self.choose(self.sides), self.name("v"), self.name("v"), self.name("i")
        kind, ints = Kind("fp32", (n, n)), Kind("i32", (n, n))
        starts = [Stmt(f"{v} = ({{0}} & {most}).to(tl.float32)", (self.expr(ints, 2),))
                  for v, most in ((name, 15), (other, 3))]
        form = self.choose([f"{name} = tl.dot({name}, {other})", f"{name} = tl.dot({other}, {name})",
                            f"{name} = tl.dot({name}, {other}, {name})", f"{name} = tl.dot(tl.trans({name}), {other})",
                            f"{name} = tl.dot({other}, tl.trans({name}))"])
        self.variables[name] = self.variables[other] = kind
        if self.chance(0.3):        # a sum that goes on, while what it began with is needed as well
            part, whole = self.name("v"), self.name("v")
            self.variables[part] = self.variables[whole] = kind
            return [*starts, Stmt(f"{part} = tl.dot({name}, {other})"),
                    Stmt(f"{whole} = tl.dot({other}, {other}, {part})")]
        return [*starts, Stmt(f"for {index} in range(m & 3):", (), ((Stmt(form),),))]

    def _blocks(self, depth):
        """A loop over blocks of an array, which targets copy ahead, and whose products make sums: one after the other,
        in a branch, on both ways of one, in a loop of their own or behind it."""
        self.has_blocks = True
        rows, columns, inner = self.choose(SIDES), self.choose(SIDES), self.choose(SIDES[:-1])
        self.sizes.update((rows, columns, inner))
        total, other, result, index = (self.name(c) for c in "vvvi")
        zeros = f"tl.zeros(({rows}, {columns}), tl.float32)"
        bounds = self.choose([f"range(m & {MOST_BLOCKS - 1})", f"range(n & 1, {MOST_BLOCKS})",
                              f"range(0, {MOST_BLOCKS}, 2)", f"range({MOST_BLOCKS - 1}, -1, -1)",
                              f"tl.range(0, {MOST_BLOCKS}, num_stages={self.random.randrange(1, 6)})"])
        x, y = self.name("x"), self.name("y")
        body = (Stmt(f"{x} = {self._block(index, inner, rows, left=True)}"),
                Stmt(f"{y} = {self._block(index, inner, columns, left=False)}"),
                *self._before_products(x, y), *self._sums(x, y, total, other, index))
        self.variables[result] = Kind("i32", (rows,))
        return [Stmt(f"{total} = {zeros}"), Stmt(f"{other} = {zeros}"), Stmt(f"for {index} in {bounds}:", (), (body,)),
                Stmt(f"{result} = tl.sum(({total}.to(tl.int32) ^ ({other}.to(tl.int32) * 3)) "
                     f"* (r{columns} * 2 + 1)[None, :], 1)")]

    def _block(self, index, inner, side, *, left):
        """A load of block `index` along k, `side` wide; memory has its rows or its columns together."""
        turned, masked = self.chance(0.5), self.choose(["", "", "k", "side"])
        k = f"({index} * {inner} + r{inner})"
        by_rows = left != turned        # of the tile that is loaded, k is the second dimension
        at = (f"r{side}[:, None] * {MOST_BLOCKS * inner} + {k}[None, :]" if by_rows else
              f"{k}[:, None] * {side} + r{side}[None, :]")
        flag = f"({k} < n * 7)" if masked == "k" else f"(r{side} < m)"
        along = "[None, :]" if by_rows == (masked == "k") else "[:, None]"
        load = f"tl.load(blocks + {at}, mask={flag}{along}, other=0.0)" if masked else f"tl.load(blocks + {at})"
        return f"tl.trans({load})" if turned else load

    def _before_products(self, x, y):
        """Most operands are what was loaded."""
        if self.chance(0.8):
            return []
        return [Stmt(self.choose([f"{x} = {x} + {x}", f"{y} = -{y}", f"{y} = tl.where({y} > 3, {y}, 0)"]))]

    def _sums(self, x, y, total, other, index):
        adds = Stmt(self.choose([f"{total} = tl.dot({x}, {y}, {total})", f"{total} += tl.dot({x}, {y})",
                                 f"{other} += tl.dot({x}, -{y}, {total})",
                                 f"{other}, {total} = {total}, tl.dot({x}, {y}, {other})"]))
        again = Stmt(self.choose([f"{total} = tl.dot({x}, {y}, {other})", f"{other} = tl.dot({x}, {y}, {total} * 2)",
                                  f"{total} += tl.sum({other}, 1)[:, None] * 0 + 1"]))
        condition = self.choose([*[f"({index} & 1) == 0"] * 2, f"{index} != 1", f"{index} < n - 2", "m > 20"])
        loop = Stmt(f"for {self.name('i')} in range({self.choose(['2', 'n & 1', 'm & 3'])}):", (), ((adds,),))
        return self.choose([
            (adds,), (adds, again), (Stmt(f"if {condition}:", (), ((adds,),)),), (loop,), (loop, again),
            (Stmt(f"if {condition}:", (), ((adds,), (again,)), ("else:",)),)])
