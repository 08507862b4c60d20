"""Which names are needed after a statement and at the head of a loop."""

import ast
import textwrap

from tilewright.frontend.liveness import Liveness, assigned_names, read_names


def parse(text):
    return ast.parse(textwrap.dedent(text)).body


def loops(body):
    return [n for top in body for n in ast.walk(top) if isinstance(n, ast.For | ast.While)]


def heads(text):
    body = parse(text)
    live = Liveness(body)
    return [set(live.loop(loop).at_head) - {"range", "use"} for loop in loops(body)]


def test_assigned_and_read_names():
    body = parse("""
        a, (b, c) = d
        e += f
        g: int = (h := i)
        for j in k:
            l = [m for m in n]
    """)
    assert assigned_names(body) == {"a", "b", "c", "e", "g", "h", "j", "l", "m"}
    assert read_names(body) == {"d", "e", "f", "i", "int", "k", "m", "n"}


def test_names_of_nested_scopes_do_not_count():
    assert assigned_names(parse("f = lambda x: (y := x)")) == {"f"}


def test_a_variable_assigned_before_it_is_read_is_not_needed_at_the_head():
    assert heads("""
        for i in range(n):
            t = i
            s = s + t
        use(s)
    """) == [{"s"}]


def test_a_variable_assigned_on_one_path_is_needed():
    assert heads("""
        for i in range(n):
            if i > m:
                t = i
            use(t)
    """) == [{"t", "m"}]


def test_what_is_read_after_the_loop_is_needed():
    assert heads("""
        for i in range(n):
            t = i
        use(t)
    """) == [{"t"}]


def test_break_and_continue_lead_past_assignments():
    assert heads("""
        while c:
            if d:
                break
            t = 1
            if e:
                continue
            u = t
        use(t, u)
    """) == [{"c", "d", "e", "t", "u"}]


def test_return_leads_nowhere():
    body = parse("""
        while True:
            if d:
                return r
            t = 1
        use(t)
    """)
    live = Liveness(body)
    (branch,) = [n for n in ast.walk(body[0]) if isinstance(n, ast.If)]
    assert {"d", "r"} <= live.loop(body[0]).at_head
    assert "t" in live.after(branch)


def test_inner_loops_see_the_next_iteration_of_outer_ones():
    assert heads("""
        for i in range(n):
            use(t)
            for j in range(m):
                t = j
    """) == [{"t", "m"}, {"t", "m"}]


def test_the_loop_variable_is_needed_only_if_it_is_read_afterwards():
    assert heads("for i in range(n):\n    use(i)\n") == [set()]
    assert heads("for i in range(n):\n    use(i)\nuse(i)\n") == [{"i"}]


def test_after_a_branch():
    body = parse("""
        if c:
            x = 1
        else:
            y = 2
        use(x)
    """)
    assert Liveness(body).after(body[0]) == {"use", "x"}
