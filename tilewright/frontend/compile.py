"""From a kernel and a signature to tile IR: the frontend's way in.

The entry's parameters are the run-time arguments of the signature in order, tuples flattened.  Every op has its place
in the user's file.  Tests: tests/frontend/test_compile.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tilewright.diagnostics import CompilationError, cut_own_frames
from tilewright.frontend.functions import DeviceFunctions, trace_function
from tilewright.frontend.graph import GraphBuilder, Warned
from tilewright.frontend.values import as_tuple, from_python
from tilewright.ir.node import Module, ParamFacts, Value
from tilewright.ir.rewrite import without_unreachable
from tilewright.language.core import tensor
from tilewright.language.function import SourceFunction
from tilewright.language.options import Arg, ConstantArg, Options, RuntimeArg, Signature


def compile_function(fn: SourceFunction, signature: Signature, options: Options | None = None,
                     allow_non_constexpr_globals: bool = False, warned: list[Warned] | None = None) -> Module:
    """The module of `fn` for one signature; `CompilationError` with the guilty place if it is no kernel.

    `allow_non_constexpr_globals` lifts the rule that a kernel reads only globals that cannot change under it.
    What is warned of is also put into `warned`.
    """
    try:
        return _compiled(fn, signature, options or Options(), allow_non_constexpr_globals,
                         [] if warned is None else warned)
    except BaseException as error:
        cut_own_frames(error)
        raise


def _compiled(fn: SourceFunction, signature: Signature, options: Options, allow_non_constexpr_globals: bool,
              warned: list[Warned]) -> Module:
    devices = DeviceFunctions(allow_non_constexpr_globals)
    builder = GraphBuilder(options, devices.call)
    builder.warned = warned
    fn.tree()       # a missing source is said before anything else
    values = {p.name: _parameter_value(fn, p.name, signature.args, builder) for p in fn.params}
    facts = [f for p in fn.params if p.name in signature.args for f in _facts(signature.args[p.name])]
    function, _ = trace_function(builder, fn, fn.__name__, values, True, allow_non_constexpr_globals, facts)
    module = Module(function.name, {function.name: function, **builder.functions}, signature.disjoint, signature.wide)
    return without_unreachable(module)


def _parameter_value(fn: SourceFunction, name: str, args: Any, builder: GraphBuilder) -> Any:
    param = next(p for p in fn.params if p.name == name)
    if name in args:
        return _value(args[name], name, builder)
    if param.has_default:
        return from_python(param.default)
    raise CompilationError(f"{fn.__name__}: the signature has no argument for the parameter {name!r}; it has "
                           f"{', '.join(args) or 'none'}", fn.location(fn.tree()))


def _value(arg: Arg, name: str, builder: GraphBuilder) -> Any:
    """The language value of an argument; its handles stand for the types until the function's own are made."""
    if isinstance(arg, ConstantArg):
        return from_python(arg.value)
    if isinstance(arg, RuntimeArg):
        return tensor(Value(arg.type.to_ir(), name), arg.type, builder)
    return as_tuple([_value(item, name, builder) for item in arg.items], arg.rebuild or ())


def _facts(arg: Arg) -> Iterator[ParamFacts]:
    if isinstance(arg, RuntimeArg):
        yield ParamFacts(arg.divisible_by)
    elif not isinstance(arg, ConstantArg):
        for item in arg.items:
            yield from _facts(item)
