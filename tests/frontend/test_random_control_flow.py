"""Random nests of branches, loops and exits, run by the batched interpreter and by Python."""

import linecache
import random

import pytest

import tilewright.language as tl
from tests.frontend.running import agrees_with_python

VARIABLES = ("a", "b", "s", "t")


class Generator:
    """Writes a function of two ints; every loop ends soon, and names are assigned before they are read."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lines = []
        self.fresh = 0

    def function(self):
        self.lines = ["def generated(a, b):", "    s = 1", "    t = a - b"]
        self.statements(1, 3, (), VARIABLES)
        self.lines.append(f"    return {self.expression(VARIABLES)}")
        return "\n".join(self.lines) + "\n"

    def name(self, stem):
        self.fresh += 1
        return f"{stem}{self.fresh}"

    def atom(self, names):
        return self.random.choice([*names, str(self.random.randint(0, 5))])

    def expression(self, names):
        kind = self.random.randint(0, 5)
        x, y = self.atom(names), self.atom(names)
        if kind == 0:
            return f"({x} if {self.condition(names)} else {self.random.choice(names)} + 0)" if x in names else x
        return f"{x} {self.random.choice(['+', '-', '+', '^', '&'])} {y}"

    def condition(self, names):
        one = f"{self.random.choice(names)} {self.random.choice(['<', '>', '==', '!=', '<=', '>='])} {self.atom(names)}"
        if self.random.random() < 0.2:
            return f"{one} {self.random.choice(['and', 'or'])} {self.condition(names)}"
        return f"not ({one})" if self.random.random() < 0.1 else one

    def statements(self, indent, depth, exits, names):
        for _ in range(self.random.randint(1, 3)):
            self.statement(indent, depth, exits, names)

    def statement(self, indent, depth, exits, names):
        kinds = ["assign"] * 3 + (["if", "if", "for", "while", "unrolled"] if depth else []) + ["exit"] * bool(exits)
        getattr(self, self.random.choice(kinds))(indent, depth, exits, names)

    def write(self, indent, text):
        self.lines.append("    " * indent + text)

    def assign(self, indent, depth, exits, names):
        target = self.random.choice(VARIABLES)
        if self.random.random() < 0.3:
            self.write(indent, f"{target} -= {self.atom(names)}")
        else:
            self.write(indent, f"{target} = ({self.expression(names)}) & 63")

    def exit(self, indent, depth, exits, names):
        self.write(indent, f"if {self.condition(names)}:")
        kind = self.random.choice(exits)
        self.write(indent + 1, f"return {self.expression(names)} + 0" if kind == "return" else kind)

    def block(self, indent, depth, exits, names):
        self.statements(indent, depth - 1, exits, names)
        if exits and self.random.random() < 0.25:
            kind = self.random.choice(exits)
            self.write(indent, f"return {self.expression(names)} + 0" if kind == "return" else kind)

    def if_(self, indent, depth, exits, names):
        exits = exits or ("return",)
        self.write(indent, f"if {self.condition(names)}:")
        self.block(indent + 1, depth, exits, names)
        if self.random.random() < 0.5:
            self.write(indent, "else:")
            self.block(indent + 1, depth, exits, names)

    def for_(self, indent, depth, exits, names):
        index = self.name("i")
        bounds = self.random.choice(["0, 4", "b & 3", "4, a & 3, -1", "a & 3, b & 7, 2", "3"])
        self.write(indent, f"for {index} in range({bounds}):")
        self.block(indent + 1, depth, ("break", "continue", "return"), (*names, index))

    def while_(self, indent, depth, exits, names):
        count = self.name("k")
        self.write(indent, f"{count} = 0")
        test = self.random.choice([f"{count} < 4", f"{count} < 5 and ({self.condition(names)})", "True"])
        self.write(indent, f"while {test}:")
        self.write(indent + 1, f"{count} += 1")
        if test == "True":
            self.write(indent + 1, f"if {count} > 4:")
            self.write(indent + 2, "break")
        self.block(indent + 1, depth, ("break", "continue", "return"), (*names, count))

    def unrolled(self, indent, depth, exits, names):
        index = self.name("c")
        self.write(indent, f"for {index} in {self.random.choice(['(1, 5)', 'tl.static_range(2)', '(3, 0, 2)'])}:")
        self.block(indent + 1, depth, ("break", "continue", "return"), (*names, index))


for _kind in ("if", "for", "while"):
    setattr(Generator, _kind, getattr(Generator, f"{_kind}_"))


def generated(seed):
    text = Generator(seed).function()
    file = f"<generated {seed}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names = {"tl": tl}
    exec(compile(text, file, "exec"), names)
    return names["generated"], text


@pytest.mark.parametrize("seed", range(60))
def test_generated_function_agrees_with_python(seed):
    function, text = generated(seed)
    try:
        agrees_with_python(function, [(a, b) for a in range(-2, 6) for b in range(-1, 6)])
    except Exception:
        print(text)
        raise
