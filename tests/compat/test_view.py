"""The walkable view of a kernel's accesses: what torch's analysis would find in it is what the kernel does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import tilewright as triton
import tilewright.language as tl
from tilewright.backends.compiler import CpuOptions
from tilewright.compiler import ASTSource


def seen(kernel: Any, signature: Mapping[str, Any], constexprs: Mapping[str, Any] | None = None) -> list[str]:
    """`op parameter` for each op of the walk."""
    module = ASTSource(kernel, signature, constexprs or {}).make_ir(None, CpuOptions(), {}, {}, None)
    assert module.verify()
    ops: list[Any] = []
    module.walk(ops.append)
    assert ops[-1].get_name() == "tt.func" and ops[-1].get_str_attr("sym_name") == kernel.__name__
    body = ops[0].get_block()
    assert ops[-1].get_region(0).id() == body.get_parent().id() and ops[-2].get_name() == "tt.return"
    names = {body.get_argument(i).id(): i for i in range(body.get_num_arguments())}
    assert len({r.id() for op in ops for r in op.results} | set(names)) == len(names) + sum(
        op.get_num_results() for op in ops)
    return [f"{op.get_name()[3:]} {names[op.get_operand(0).id()]}" for op in ops[:-2]]


def test_each_access_is_one_op() -> None:
    @triton.jit
    def kernel(x, n, out):
        tl.store(out, tl.load(x) + tl.load(x + n))
        tl.store(out + 1, 0.0)

    assert seen(kernel, {"x": "*fp32", "n": "i32", "out": "*fp32"}) == ["load 0", "load 0", "store 2", "store 2"]


def test_compile_time_arguments_are_no_parameters() -> None:
    @triton.jit
    def kernel(bias, N: tl.constexpr, out):
        if bias is not None:
            tl.store(out, tl.load(bias))
        tl.atomic_add(out, N)

    assert seen(kernel, {"bias": "*i32", "N": "constexpr", "out": "*i32"}, {"bias": None, "N": 3}) == ["atomic_rmw 0"]
    assert seen(kernel, {"bias": "*i32", "N": "constexpr", "out": "*i32"}, {"N": 3}) == \
        ["load 0", "store 1", "atomic_rmw 1"]


def test_pointer_that_may_be_of_two_arguments() -> None:
    @triton.jit
    def kernel(a, b, n):
        pointer = a
        for i in range(n):
            if i == 2:
                pointer = b
        tl.store(pointer, 1.0)

    assert seen(kernel, {"a": "*fp32", "b": "*fp32", "n": "i32"}) == ["store 0", "store 1"]


def test_pointers_from_memory_are_refused() -> None:
    @triton.jit
    def kernel(table):
        pointer = tl.load(table).to(tl.pointer_type(tl.float32))
        tl.store(pointer, 1.0)

    with pytest.raises(NotImplementedError, match="kernel reaches memory through a pointer that is no argument"):
        seen(kernel, {"table": "*i64"})
