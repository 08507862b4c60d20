"""The operators that stand for launches in torch's graphs.

There is one for each kernel and each set of compile-time values, kinds of arguments and tuned choices; it is defined
(`torch.library`) when a function that launches it is compiled.  Its schema names the arguments that the kernel may
write, as its tile IR says; its result is nothing; the grids of all tuned choices are its last argument.  Running it is
the launch, so specialisation, tuning and checks are those of eager code, on the real tensors.

An operator does nothing for autograd, as a launch in eager code: `torch.autograd.Function` is the place to say what
the gradient is.

Compiled graphs may be kept on disk by torch and call operators by name.  A name is made from the schema and the
kernel's source, and it stands for one kernel as long as the process lives.
Tests: tests/torch/test_operators.py.
"""

from __future__ import annotations

import hashlib
import keyword
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from tilewright.computed import computed
from tilewright.language.function import ParamKind
from tilewright.language.structures import part_name
from tilewright.language.types import dtype
from tilewright.locks import ForkSafeLock
from tilewright.runtime.arguments import MockTensor
from tilewright.runtime.autotune import Autotuner
from tilewright.runtime.descriptor import TensorDescriptor, class_of
from tilewright.runtime.interface import KernelInterface
from tilewright.runtime.jit import JITFunction
from tilewright.runtime.launch import CompiledKernel
from tilewright.runtime.reinterpret import TensorWrapper
from tilewright.runtime.specialize import typed

NAMESPACE = "tilewright"
Form = tuple[Any, ...]          # see tilewright.torch.launch
# A whole number that stands for any: no multiple of 16, not 1, small (what a kernel may write does not hang on it).
_SOME_INT = 17
_KINDS = {"tensor": "Tensor", "int": "SymInt", "float": "float"}


@dataclass(frozen=True)
class Plan:
    """A launch without its run-time values: `args`, `kwargs` and `choices` are forms, `constants` fills them."""

    kernel: Any
    args: tuple[Form, ...]
    kwargs: tuple[tuple[str, Form], ...]
    choices: tuple[tuple[tuple[str, Form], ...], ...]
    constants: tuple[Any, ...]

    def key(self) -> tuple[Any, ...]:
        """Equal for plans that are the same launch."""
        return (id(self.kernel), self.args, self.kwargs, self.choices, tuple(map(typed, self.constants)))

    def arguments(self, leaves: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
        """Positional and keyword arguments of the launch."""
        return ([self.value(form, leaves) for form in self.args],
                {name: self.value(form, leaves) for name, form in self.kwargs})

    def choice(self, number: int) -> dict[str, Any]:
        """What tuning and heuristics add in the choice `number`."""
        return {name: self.value(form, ()) for name, form in self.choices[number]}

    def value(self, form: Form, leaves: Sequence[Any]) -> Any:
        """The value that `form` describes."""
        if form[0] == "constant":
            return self.constants[form[1]]
        if form[0] == "tuple":
            cls, items = self.constants[form[1]], [self.value(item, leaves) for item in form[2]]
            return cls(*items) if hasattr(cls, "_fields") else cls(items)
        if form[0] == "reinterpreted":
            return TensorWrapper(self.value(form[1], leaves), self.constants[form[2]])
        if form[0] == "descriptor":
            sizes, strides = ([self.value(part, leaves) for part in parts] for parts in form[2:4])
            return TensorDescriptor(self.value(form[1], leaves), sizes, [*strides, 1], *self.constants[form[4]])
        return leaves[form[1]]

    def forms(self) -> Iterator[tuple[str, Form]]:
        """The forms of the leaves, with the name of the parameter that each belongs to, in the order of the leaves."""
        names = parameters(self.kernel)[0]
        named = [(names[min(i, len(names) - 1)], form) for i, form in enumerate(self.args)]
        found: dict[int, tuple[str, Form]] = {}
        for name, form in (*named, *self.kwargs):
            for leaf in _leaf_forms(form):
                found.setdefault(leaf[1], (name, leaf))
        return (found[i] for i in sorted(found))


def _leaf_forms(form: Form) -> Iterator[Form]:
    if form[0] == "tuple":
        for item in form[2]:
            yield from _leaf_forms(item)
    elif form[0] == "reinterpreted":
        yield from _leaf_forms(form[1])
    elif form[0] == "descriptor":
        for part in (form[1], *form[2], *form[3]):
            yield from _leaf_forms(part)
    elif form[0] != "constant":
        yield form


class Launch:
    """The operator's kernel: called with the leaves and the grids' sizes, it launches."""

    def __init__(self, plan: Plan, written: frozenset[int]) -> None:
        self._plan = plan
        self._written = written

    def __call__(self, *values: Any) -> None:
        leaves, sizes = values[:-1], values[-1]
        args, kwargs = self._plan.arguments(leaves)
        kernel = self._plan.kernel[self._grid(sizes)](*args, **kwargs)
        self._check(frozenset(kernel.metadata.written_params) if isinstance(kernel, CompiledKernel) else
                    self._may_write(args, kwargs))

    def _may_write(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> frozenset[str]:
        """What a launch may write that compiles nothing: in checked mode, in an interpreter."""
        fn, numbers = base_of(self._plan.kernel), range(len(self._plan.choices))
        written = [fn.written_by(*args, **{**kwargs, **self._plan.choice(number)})[0] for number in numbers]
        return frozenset[str]().union(*written)

    def _check(self, written: frozenset[str]) -> None:
        """RuntimeError if what the kernel reads beside its arguments has changed so that it writes another one."""
        unknown = written - self._written_names
        if unknown:
            name = base_of(self._plan.kernel).__name__
            raise RuntimeError(f"{name} writes {', '.join(sorted(unknown))}, which it did not when torch "
                               "compiled the launch; call torch.compiler.reset() after changing what a kernel reads")

    @computed
    def _written_names(self) -> frozenset[str]:
        names = tensor_names(self._plan, stand_ins(self._plan))
        return frozenset(name for name, leaf in names if leaf in self._written)

    def _grid(self, sizes: Sequence[int]) -> Any:
        """The grid; with tuned choices, a function that tells them apart by what they set."""
        choices = range(len(self._plan.choices))
        grids = [tuple(sizes[3 * i:3 * i + 3]) for i in choices]
        if len(set(grids)) == 1:
            return grids[0]

        def grid(bound: Mapping[str, Any]) -> tuple[int, ...]:
            for number in choices:
                if all(name not in bound or typed(bound[name]) == typed(value)
                       for name, value in self._plan.choice(number).items()):
                    return grids[number]
            raise RuntimeError(f"{self._plan.kernel.__name__}: it is tuned to values that its configs did not have "
                               "when torch compiled the launch; call torch.compiler.reset() after changing them")
        return grid


class Operators:
    """The operators that were defined in this process."""

    def __init__(self) -> None:
        self._library = torch.library.Library(NAMESPACE, "FRAGMENT")
        self._names: dict[Any, str] = {}
        self._lock = ForkSafeLock()

    def name_of(self, plan: Plan) -> str:
        """The name of the operator for `plan`, which is defined if it is new."""
        with self._lock:
            written = written_leaves(plan)
            key = (plan.key(), written)
            if key not in self._names:
                self._names[key] = self._define(plan, written)
            return self._names[key]

    def _define(self, plan: Plan, written: frozenset[int]) -> str:
        schema = schema_of(plan, written)
        text = repr((base_of(plan.kernel).src, schema, plan.args, plan.kwargs, plan.choices, plan.constants))
        stem = f"{plan.kernel.__name__}_{hashlib.sha256(text.encode()).hexdigest()[:12]}"
        name, taken = stem, set(self._names.values())
        while name in taken:
            name = f"{stem}_{len(taken)}"
        self._library.define(name + schema, tags=_tags())
        self._library.impl(name, Launch(plan, written), "CompositeExplicitAutograd")
        self._library.impl(name, torch.library.fallthrough_kernel, "Autograd")
        torch.library.register_fake(f"{NAMESPACE}::{name}", lambda *values: None, lib=self._library)
        return name


def _tags() -> tuple[Any, ...]:
    """A kernel got strides as numbers: what it is given must have them."""
    exact = getattr(torch.Tag, "needs_exact_strides", None) or torch.Tag.needs_fixed_stride_order
    return (torch.Tag.pt2_compliant_tag, exact)


def schema_of(plan: Plan, written: frozenset[int]) -> str:
    """The operator's arguments, named by the kernel's parameters, as torch writes them."""
    params, names = [], {"grid", "self"}
    for index, (name, form) in enumerate(plan.forms()):
        while name in names or keyword.iskeyword(name):
            name += "_"
        names.add(name)
        kind = f"Tensor(a{index}!)" if index in written else _KINDS[form[0]]
        params.append(f"{kind} {name}")
    return f"({', '.join([*params, 'SymInt[] grid'])}) -> ()"


def stand_ins(plan: Plan) -> list[Any]:
    """A value in place of each leaf, as far as it counts for what a kernel writes."""
    return [MockTensor(form[2]) if form[0] == "tensor" else _SOME_INT if form[0] == "int" else 0.5
            for _, form in plan.forms()]


def written_leaves(plan: Plan) -> frozenset[int]:
    """The leaves that the launch may write, in any choice.

    Hooks see the tensors and may do anything with them; a kernel that stores through pointers from memory may reach
    any; and an operator that is said to write nothing would be left out of the graph although it may print.
    """
    leaves = stand_ins(plan)
    tensors = frozenset(i for i, leaf in enumerate(leaves) if isinstance(leaf, MockTensor))
    if _has_hooks(plan.kernel):
        return tensors
    fn, found = base_of(plan.kernel), set(_reset_by(plan.kernel))
    args, kwargs = plan.arguments(leaves)
    for number in range(len(plan.choices)):
        names, anything = fn.written_by(*args, **{**kwargs, **plan.choice(number)})
        if anything:
            warnings.warn(f"{fn.__name__} stores through a pointer that it loaded from memory; torch's compiler takes "
                          "its arguments for written, and cannot know of other tensors that it writes", stacklevel=2)
            return tensors
        found |= names
    return frozenset(leaf for name, leaf in tensor_names(plan, leaves) if name in found) or tensors


def tensor_names(plan: Plan, leaves: Sequence[Any]) -> list[tuple[str, int]]:
    """The tensors among the parameters, elements of tuples as `name[0]`, each with its leaf."""
    fn = base_of(plan.kernel)
    args, kwargs = plan.arguments(leaves)
    values = fn.bind(args, {**kwargs, **plan.choice(0)})[0]
    places = {id(leaf): index for index, leaf in enumerate(leaves)}
    return [(name, places[id(tensor)]) for name, tensor in _tensors(dict(zip(fn.arg_names, values, strict=True)))]


def _tensors(bound: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The stand-ins for tensors among the arguments; elements of tuples are `name[0]`."""
    for name, value in bound.items():
        if isinstance(value, tuple):
            yield from _tensors({f"{name}[{i}]": item for i, item in enumerate(value)})
        elif isinstance(value, TensorDescriptor):
            yield part_name(name, class_of(value), 0), value.base
        elif isinstance(value, TensorWrapper):
            yield name, value.base
        elif isinstance(value, MockTensor):
            yield name, value


def base_of(kernel: Any) -> JITFunction:
    """The @jit function under tuners and heuristics."""
    while not isinstance(kernel, JITFunction):
        if not hasattr(kernel, "fn"):
            raise TypeError(f"{type(kernel).__name__} cannot be launched in a function that torch compiles: it is no "
                            "@jit function, with or without @autotune and @heuristics")
        kernel = kernel.fn
    return kernel


def _tuners(kernel: Any) -> Iterator[Autotuner]:
    while not isinstance(kernel, JITFunction):
        if isinstance(kernel, Autotuner):
            yield kernel
        kernel = kernel.fn


def _has_hooks(kernel: Any) -> bool:
    """Whether code of the user's sees the tensors before or after a launch."""
    return bool(base_of(kernel).pre_run_hooks) or any(
        tuner.user_defined_pre_hook or tuner.user_defined_post_hook
        or any(config.pre_hook is not None for config in tuner.configs) for tuner in _tuners(kernel))


def _reset_by(kernel: Any) -> Iterator[str]:
    for tuner in _tuners(kernel):
        yield from tuner.reset_to_zero


def parameters(kernel: Any) -> tuple[tuple[str, ...], tuple[str, ...], str, tuple[tuple[str, Any], ...]]:
    """Names of the parameters, those with compile-time values, the name of the variadic one, and the defaults."""
    params = base_of(kernel).params
    variadic = [p.name for p in params if p.kind is ParamKind.VARIADIC]
    return (tuple(p.name for p in params), tuple(p.name for p in params if p.is_constexpr),
            variadic[0] if variadic else "", tuple((p.name, p.default) for p in params if p.has_default))


def _parameters_of(name: str) -> tuple[tuple[str, ...], tuple[str, ...], str, tuple[tuple[str, Any], ...]]:
    return parameters(KernelInterface.by_name_in_graphs[name])


def _operator_of(name: str, args: tuple[Form, ...], kwargs: tuple[tuple[str, Form], ...],
                 choices: tuple[tuple[tuple[str, Form], ...], ...], kinds: tuple[str, ...], *constants: Any) -> str:
    """The name of the operator for a launch; the kernel, and constants of the kinds `kernel` and `type`, are names."""
    objects = {"plain": lambda value: value, "kernel": KernelInterface.by_name_in_graphs.__getitem__, "type": dtype}
    values = tuple(objects[kind](value) for kind, value in zip(kinds, constants, strict=True))
    return OPERATORS.name_of(Plan(KernelInterface.by_name_in_graphs[name], args, kwargs, choices, values))


OPERATORS = Operators()         # torch has one table of operators for the process
# Dynamo calls these while it compiles and takes what they return for constants; it guards the kernel by its name.
parameters_of = torch.compiler.assume_constant_result(_parameters_of)
operator_of = torch.compiler.assume_constant_result(_operator_of)
