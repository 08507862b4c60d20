"""The IR of typical exits as text, so that a change of the lowering rules is seen."""

import textwrap

import tilewright.language as tl
from tests.frontend.running import compiled, text_of


def check(kernel, expected, **args):
    text = text_of(compiled(kernel, **args)).split("{\n", 1)[1].rsplit("}", 1)[0]
    assert textwrap.dedent(text).strip() == textwrap.dedent(expected).strip()


def test_early_return():
    def kernel(out, n):
        if n > 3:
            return
        tl.store(out, n)

    check(kernel, """
        %0 = constant 3 : i32
        %1 = cmp_gt_s %n, %0 : i1
        if %1 then {
          yield
        } else {
          store %out, %n
          yield
        }
        return
    """, out="*i32", n="i32")


def test_for_with_break():
    def kernel(out, n):
        while True:
            if n > 3:
                break
            n += 1
        tl.store(out, n)

    check(kernel, """
        %0 = constant false : i1
        %1, %2 = while %0, %n before (%break: i1, %n_1: i32) {
          %3 = constant true : i1
          %4 = xor %break, %3 : i1
          condition %4, %break, %n_1
        } do (%break_1: i1, %n_2: i32) {
          %5 = constant 3 : i32
          %6 = cmp_gt_s %n_2, %5 : i1
          %7 = if %6 then {
            yield %n_2
          } else {
            %8 = constant 1 : i32
            %9 = add %n_2, %8 : i32
            yield %9
          } : i32
          yield %6, %7
        } : i1, i32
        store %out, %2
        return
    """, out="*i32", n="i32")


def test_exit_in_one_of_two_nested_branches():
    """Both sides of the outer branch may go on, so what follows is under the flag."""

    def kernel(out, n, m):
        if n > 3:
            if m > 4:
                return
            tl.store(out, 1)
        tl.store(out, n)

    check(kernel, """
        %0 = constant 3 : i32
        %1 = cmp_gt_s %n, %0 : i1
        %2 = if %1 then {
          %3 = constant 4 : i32
          %4 = cmp_gt_s %m, %3 : i1
          if %4 then {
            yield
          } else {
            %5 = constant 1 : i32
            store %out, %5
            yield
          }
          yield %4
        } else {
          %6 = constant false : i1
          yield %6
        } : i1
        if %2 then {
          yield
        } else {
          store %out, %n
          yield
        }
        return
    """, out="*i32", n="i32", m="i32")
