"""What Dynamo reads in place of a launch in compiled code.

Sizes, grids and heuristics are computed by the code that the eager launch runs too, on the graph's values, so that
they become part of the graph (or guards, where a compile-time value depends on them).  Everything here has to be
Python that Dynamo understands; `operator_of` is the one call that it does not look into.

An argument is described by a *form*, a tuple of plain values: `("tensor", i, dtype)`, `("int", i)`, `("float", i)` for
what the operator gets as its argument number i, `("constant", j)` for the j-th compile-time value,
`("tuple", class, forms)`, `("reinterpreted", form, j)` and `("descriptor", form, forms of sizes, of strides, j)`.
Tests: tests/torch/test_compile.py, tests/torch/test_arguments.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import guard_scalar

from tilewright.language.constexpr import constexpr
from tilewright.language.types import dtype
from tilewright.runtime.autotune import Autotuner
from tilewright.runtime.descriptor import TensorDescriptor
from tilewright.runtime.heuristics import Heuristics
from tilewright.runtime.interface import KernelInterface
from tilewright.runtime.reinterpret import TensorWrapper
from tilewright.torch.operators import operator_of, parameters_of

Form = tuple[Any, ...]


def launch(kernel: Any, grid: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Put the operator for `kernel[grid](*args, **kwargs)` into the graph."""
    names, static, variadic, defaults = parameters_of(kernel.name_in_graphs)
    given = _by_name(names, variadic, args, kwargs)
    leaves: list[Any] = []
    constants: list[tuple[str, Any]] = []
    args_form = tuple([_form(value, names[i] in static if i < len(names) else False, leaves, constants)
                       for i, value in enumerate(args)])
    kwargs_form = tuple([(name, _form(value, name not in names or name in static, leaves, constants))
                         for name, value in kwargs.items()])
    choices, sizes = [], []
    for choice in _choices(kernel, given, grid, {}):
        choices.append(tuple([(name, _form(value, True, leaves, constants)) for name, value in choice.items()]))
        sizes.extend(_sizes(grid, {**dict(defaults), **given, **choice}))
    kinds, values = tuple([kind for kind, _ in constants]), [value for _, value in constants]
    name = operator_of(kernel.name_in_graphs, args_form, kwargs_form, tuple(choices), kinds, *values)
    getattr(torch.ops.tilewright, name)(*leaves, sizes)


def _by_name(names: Sequence[str], variadic: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as the functions of heuristics and grids see them."""
    count = names.index(variadic) if variadic else len(names)
    given = {**dict(zip(names[:count], args)), **kwargs}
    if variadic and len(args) > count:
        given[variadic] = tuple(args[count:])
    return given


def _choices(kernel: Any, given: Mapping[str, Any], grid: Any, chosen: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What tuning and heuristics may add to the arguments: a dict for each way in which the kernel may be run."""
    if isinstance(kernel, Heuristics):
        chosen = dict(chosen)
        for name, rule in kernel.values.items():
            chosen[name] = rule({**given, **chosen, "grid": grid, "warmup": False})
        return _choices(kernel.fn, given, grid, chosen)
    if isinstance(kernel, Autotuner):
        found: list[dict[str, Any]] = []
        for config in kernel.configs:
            found.extend(_choices(kernel.fn, given, grid, {**chosen, **config.all_kwargs()}))
        return found
    return [dict(chosen)]


def _sizes(grid: Any, bound: dict[str, Any]) -> list[Any]:
    """The grid's sizes, three of them; what else a launch asks of a grid is looked at when it happens."""
    sizes = list(grid(bound) if callable(grid) else grid)
    if not 1 <= len(sizes) <= 3:
        raise ValueError(f"a grid has 1 to 3 sizes, not {len(sizes)}")
    return [*sizes, *[1] * (3 - len(sizes))]


def _form(value: Any, static: bool, leaves: list[Any], constants: list[tuple[str, Any]]) -> Form:
    """The form of `value`, whose parts are appended to `leaves` or, if they are fixed in the code, to `constants`."""
    if isinstance(value, torch.Tensor):
        return ("tensor", _place(value, leaves), value.dtype)
    if isinstance(value, tuple):
        cls = _constant(type(value), constants)
        return ("tuple", cls, tuple([_form(item, static, leaves, constants) for item in value]))
    if isinstance(value, TensorWrapper):
        place = _constant(value.dtype, constants)
        return ("reinterpreted", _form(value.base, static, leaves, constants), place)
    if isinstance(value, TensorDescriptor):
        place = _constant((tuple(value.block_shape), value.padding, value.round_f32_to_tf32), constants)
        sizes = tuple([_form(size, False, leaves, constants) for size in value.shape])
        strides = tuple([_form(stride, False, leaves, constants) for stride in value.strides[:-1]])     # the last is 1
        return ("descriptor", _form(value.base, False, leaves, constants), sizes, strides, place)
    if isinstance(value, int | float):
        if not static and not isinstance(value, bool):
            leaves.append(value)
            return ("int" if isinstance(value, int) else "float", len(leaves) - 1)
        value = guard_scalar(value)         # what the code depends on; another value, another graph
    return ("constant", _constant(value.value if isinstance(value, constexpr) else value, constants))


def _constant(value: Any, constants: list[tuple[str, Any]]) -> int:
    """The number of `value` among the constants; kernels and types go there by name (see `KernelInterface`)."""
    if isinstance(value, KernelInterface):
        constants.append(("kernel", value.name_in_graphs))
    elif isinstance(value, dtype):
        constants.append(("type", value.name))
    else:
        constants.append(("plain", value))
    return len(constants) - 1


def _place(tensor: Any, leaves: list[Any]) -> int:
    """The number of `tensor` among the leaves: a tensor that is passed twice is one argument of the operator."""
    for index, leaf in enumerate(leaves):
        if leaf is tensor:
            return index
    leaves.append(tensor)
    return len(leaves) - 1
