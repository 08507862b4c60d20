"""Exits, branches and loops in all nestings: functions run by every engine against the same functions run by Python."""

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tests.frontend.running import POINTS, agrees_with_python
from tilewright.testing.engines import launch


def early_return(a, b):
    if a > b:
        return a
    return b


def guard_returns(a, b):
    if a < 0:
        return -1
    if b < 0:
        return -2
    if a == b:
        return 0
    return a * 10 + b


def nested_return(a, b):
    r = a
    if a > 2:
        if b > 3:
            return 100
        r = r + 1
    else:
        if b == 1:
            return 200
        elif b == 2:
            r = 50
    r = r + b
    return r


def return_in_both(a, b):
    if a > b:
        if b > 1:
            return 1
        else:
            return 2
    else:
        return 3


def break_for(a, b):
    s = 0
    for i in range(b):
        if i == a:
            break
        s += i + 1
    return s


def continue_for(a, b):
    s = 0
    for i in range(b):
        if i == a:
            continue
        s += i + 1
    return s


def break_continue(a, b):
    s = 0
    for i in range(10):
        if i < a:
            continue
        if i > a + b:
            break
        s = s * 2 + i
    return s


def return_in_for(a, b):
    for i in range(b):
        if i * i > a:
            return i
    return -7


def return_in_nested_for(a, b):
    s = 0
    for i in range(4):
        for j in range(5):
            if i * j == a:
                return s * 100 + i * 10 + j
            if j > b:
                break
            s += 1
        if s > 9:
            continue
        s += 1
    return s


def while_break(a, b):
    i = 0
    while True:
        if i > a:
            break
        if i == b:
            i = i + 3
            continue
        i += 2
    return i


def while_return(a, b):
    i = 0
    while i < 20:
        i += 3
        if i % 4 == b:
            return i
        if i > a * 2:
            break
    return -i


def while_true_return(a, b):
    i = a
    while True:
        i += 1
        if i > b:
            return i


def while_true_defines(a, b):
    n = a
    while True:
        last = n * 3
        n += 1
        if last > b:
            break
    return last * 100 + n


def walrus_condition(a, b):
    n = 0
    while (m := n * 2 + a) < b:
        n += 1
    return m * 10 + n


def walrus_with_break(a, b):
    n = 0
    while (m := n * 2 + a) < b + 4:
        n += 1
        if n == 3:
            break
    return m * 10 + n


def loop_variable_after(a, b):
    i = 77
    for i in range(b):
        a += i
    return a * 100 + i


def loop_variable_after_break(a, b):
    i = 77
    for i in range(b):
        if i > a:
            break
    return i


def loop_variable_reassigned(a, b):
    i = 5
    s = 0
    for i in range(b):
        s += i
        i = i * 10
    return s * 1000 + i


def negative_step(a, b):
    s = 0
    for i in range(b, a, -2):
        s = s * 3 + i
    return s


def negative_step_break(a, b):
    s = 0
    for i in range(b, a, -1):
        if s > 20:
            break
        s = s + i * i
    return s


def run_time_step(a, b):
    s = 1
    step = a
    if step == 0:
        step = 7
    for i in range(0, b * step, step):
        s = s * 2 + i
    return s


def run_time_step_break(a, b):
    s = 1
    step = a
    if step == 0:
        step = 7
    for i in range(b, a * 3, step):
        if i == 4:
            break
        s = s + i
    return s


def empty_downward(a, b):
    s = 3
    for i in range(5, 10, -3):
        s += i
    return s + a


def assigned_in_one_branch_of_exit(a, b):
    if a > 3:
        x = b
    else:
        return 9
    return x + 1


def assigned_unless_break(a, b):
    s = 0
    for i in range(6):
        if i > a:
            if i > b:
                break
            y = i
        else:
            y = 2
        s += y
    return s


def continue_in_nested_ifs(a, b):
    s = 0
    for i in range(8):
        if i > 2:
            if a > 0:
                if i == b:
                    continue
                s += 100
            s += 10
        s += 1
    return s


def unrolled_break(a, b):
    s = 0
    for i in (1, 2, 3, 4):
        if i == a:
            break
        if i == b:
            continue
        s = s * 10 + i
    return s


def unrolled_return(a, b):
    for i in (4, 2, 6):
        if i == a:
            return i * b
        b = b + 1
    return b


def break_only(a, b):
    for i in range(b):
        a = a + 5
        break
    return a


def return_always_in_loop(a, b):
    for i in range(b):
        return a + i + 1
    return -a


def conditional_values(a, b):
    return (a if a > b else b) + (1 if a == b else 2) - (b if a > 2 and b < 5 or a == -1 else 0)


def chained_comparisons(a, b):
    x = 0
    if 0 <= a < b < 7:
        x = 1
    if a < 3 > b:
        x = x + 2
    if not a == b != 2:
        x = x + 4
    return x


def swap_and_tuples(a, b):
    a, b = b, a
    pair = (a, b + 1)
    (c, d), e = pair, 5
    if a > b:
        pair = (d, c)
    for i in range(3):
        pair = (pair[1], pair[0] + i)
    return pair[0] * 100 + pair[1] + e


def multiple_targets(a, b):
    x = y = a + b
    x += 1
    return x * 10 + y


def nested_while_break(a, b):
    n = 0
    i = 0
    while i < 5:
        j = 0
        while True:
            if j == b or j > 6:
                break
            j += 1
            n += 1
        if n > a * 4:
            break
        i += 1
    return n * 10 + i


def return_from_while_in_for(a, b):
    for i in range(3):
        k = i
        while k < 9:
            if k == a:
                return k * 10 + i
            k += b + 3
    return 99


def dead_code(a, b):
    if a > 0:
        return a
        a = b
    else:
        return b
    return 1000


def pass_and_docstring(a, b):
    """Not a statement."""
    if a > b:
        pass
    else:
        ...
    return a


def two_returns_then_more(a, b):
    if a > 0:
        if b > 0:
            return 1
        if b < 0:
            return 2
    elif b > 3:
        return 3
    x = a * 2
    if x > 8:
        return x
    return x + b


FUNCTIONS = [f for n, f in sorted(globals().items())
             if callable(f) and getattr(f, "__module__", "") == __name__ and not n.startswith("_")]


def _kernel(function):
    """A kernel that applies `function` to elements of two arrays."""

    def kernel(x, y, out):
        i = tl.program_id(0)
        tl.store(out + i, device(tl.load(x + i), tl.load(y + i)))

    device = triton.jit(function)
    return triton.jit(kernel)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_agrees_with_python(function):
    agrees_with_python(function)


@pytest.mark.parametrize("engine", ["cpu", "eager", "batched-passes"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_engines_agree(function, engine):
    points = POINTS[::7] if engine == "eager" else POINTS      # it runs one program at a time
    x, y = (np.array(column, np.int32) for column in zip(*points))
    out = np.full(len(points), 12345, np.int32)
    launch(engine, _kernel(function), (len(points),), x, y, out)
    assert out.tolist() == [function(a, b) for a, b in points]
