"""Syntax that has no meaning in a kernel; each message names what to write instead."""

import tilewright.language as tl
from tests.errors.harness import case, jit


@case(x="*fp32")
def try_statement(x):
    try:  # error: UnsupportedLanguageConstruct: unsupported AST node type: Try
        tl.store(x, 1)
    except ValueError:
        pass


@case(x="*fp32", n="i32")
def raise_statement(x, n):
    if n > 3:
        raise ValueError("n")  # error: UnsupportedLanguageConstruct: use tl.device_assert
    tl.store(x, n)


@case(x="*fp32")
def import_statement(x):
    import math  # error: UnsupportedLanguageConstruct: import at the top of the module
    tl.store(x, math.pi)


@case(x="*fp32")
def lambda_expression(x):
    tl.store(x, (lambda: 1)())  # error: UnsupportedLanguageConstruct: unsupported AST node type: Lambda


@case(x="*fp32")
def nested_function(x):
    def inner():  # error: UnsupportedLanguageConstruct: a nested function; define it outside
        return 1
    tl.store(x, inner())


@case(x="*fp32")
def dictionary(x):
    d = {"a": 1}  # error: UnsupportedLanguageConstruct: a dict; use separate variables
    tl.store(x, d["a"])


@case(x="*fp32")
def delete_statement(x):
    y = 1
    tl.store(x, y)
    del y  # error: UnsupportedLanguageConstruct: unsupported AST node type: Delete


@case(x="*fp32")
def with_statement(x):
    with tl.static_range(3):  # error: UnsupportedLanguageConstruct: there is no context to enter
        tl.store(x, 1)


@case(x="*fp32", n="i32")
def match_statement(x, n):
    match n:  # error: UnsupportedLanguageConstruct: use if and elif
        case 1:
            tl.store(x, 1)


@case(x="*fp32", n="i32")
def membership(x, n):
    if n in (1, 2):  # error: UnsupportedLanguageConstruct: compare one by one
        tl.store(x, n)


@case(x="*fp32")
def element_assignment(x):
    t = tl.zeros((4,), tl.float32)
    t[0] = 1.0  # error: UnsupportedLanguageConstruct: write memory with tl.store
    tl.store(x + tl.arange(0, 4), t)


@case(x="*fp32")
def attribute_assignment(x):
    x.name = 1  # error: UnsupportedLanguageConstruct: values cannot be changed
    tl.store(x, 1)


@case(x="*fp32")
def starred_target(x):
    a, *b = (1, 2, 3)  # error: UnsupportedLanguageConstruct: a starred target; slice the tuple
    tl.store(x, a)


@case(x="*fp32")
def two_generators(x):
    t = [i + j for i in (1, 2) for j in (3, 4)]  # error: UnsupportedLanguageConstruct: several `for`
    tl.store(x, t[0])


@case(x="*fp32")
def global_statement(x):
    global counter  # error: UnsupportedLanguageConstruct: unsupported AST node type: Global
    tl.store(x, 1)


@case(x="*fp32")
def set_display(x):
    s = {1, 2}  # error: UnsupportedLanguageConstruct: a set; use a tuple
    tl.store(x, s)


@jit
def takes_two(a, b):
    return a + b


@case(x="*fp32")
def double_star(x):
    tl.store(x, takes_two(**x))  # error: UnsupportedLanguageConstruct: `**` in a call; name the arguments


@case(x="*fp32")
def bytes_literal(x):
    y = b"abc"  # error: UnsupportedLanguageConstruct: a literal of type bytes
    tl.store(x, y)
