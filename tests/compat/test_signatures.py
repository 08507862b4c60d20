"""Signatures of triton's public functions, classes and methods, 3.6 and 3.9: each call that triton takes is taken.

`signatures.txt` has them, one a line.  Ours may have more parameters, all with defaults, and may take by position what
triton takes by keyword only; names, order and defaults are the same, or the line is among the departures, with why.
The checks run in a process of their own, where the alias is installed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILE = Path(__file__).parent / "signatures.txt"

_MADE_INSIDE = "a program meets these objects and makes none"
_CALLED_INSIDE = "called by triton's own launch path only"
_ERRORS = "an error carries a location instead of a node of the syntax tree"
_CLASS_TESTS = "a method of types, not a static function"
DEPARTURES: Mapping[str, str] = {
    **{f"triton.{where}": _ERRORS for where in (
        "CompilationError", "InterpreterError", "compiler.CompilationError", "compiler.errors.CompilationError",
        "compiler.errors.CompileTimeAssertionFailure", "compiler.errors.UnsupportedLanguageConstruct",
        "runtime.InterpreterError", "runtime.errors.InterpreterError", "runtime.errors.AutotunerError")},
    **{f"triton.{where}": _MADE_INSIDE for where in (
        "compiler.CompiledKernel", "compiler.compiler.CompiledKernel", "runtime.jit.KernelParam",
        "runtime.Heuristics", "runtime.autotuner.Heuristics", "runtime.interpreter.InterpretedFunction",
        "language.tensor", "language.core.tensor", "language.tensor_descriptor", "language.core.tensor_descriptor",
        "language.core.tensor_descriptor_base")},
    **{f"triton.{where}": "`jit` hands its options on to JITFunction, which names them" for where in
       ("jit", "runtime.jit.jit")},
    **{f"triton.{where}": "the default shape of a MockTensor is (1,), as in triton's constructor" for where in
       ("MockTensor", "runtime.MockTensor", "runtime.jit.MockTensor")},
    **{f"triton.{where}": _CALLED_INSIDE for where in (
        "runtime.Autotuner.run", "runtime.Heuristics.run", "runtime.jit.mangle_type",
        "runtime.jit.native_specialize_impl", "backends.compiler.BaseBackend.get_int_specialization",
        "backends.compiler.BaseBackend.get_tensor_specialization", "backends.compiler.BaseBackend.parse_attr",
        "_utils.find_paths_if", "_utils.get_iterable_path")},
    **{f"triton.language.dtype.{name}": _CLASS_TESTS for name in
       ("is_block", "is_const", "is_ptr", "is_void")},
    "triton.language.dtype.to_ir": "it needs no builder",
    **{f"triton.language.tensor_descriptor.{name}": "the parameters are named" for name in ("gather", "scatter")},
    "triton.language.dtype.codegen_name": "a property",
    "triton.language.random.N_ROUNDS_DEFAULT": "a number, no class",
    "triton.language.core._unwrap_if_constexpr": "its parameter is called `value`",
    "triton.runtime.TensorWrapper.stride": "it gives all strides",
    "triton.runtime.driver.driver.set_active": "a method of an object",
    "triton.knobs.HookChain": "it tells its owner of changes",
}
LOOK = r"""
import ast, importlib, inspect, sys, tilewright.compat
tilewright.compat.install()

def parameters(text):
    # (kind, name, default) of each parameter; constexpr[3] is 3, an enum member its name
    text = text.replace("constexpr[0]", "0").replace("constexpr[10]", "10")
    for shown in ("PROPAGATE_NAN.NONE", "<PropagateNan.NONE: 0>"):
        text = text.replace(shown, "'NONE'")
    arguments = ast.parse(f"def f{text}: pass").body[0].args
    positional = arguments.posonlyargs + arguments.args
    defaults = [None] * (len(positional) - len(arguments.defaults)) + arguments.defaults
    kinds = [("positional", p.arg, d) for p, d in zip(positional, defaults)]
    kinds += [("*", arguments.vararg.arg, None)] if arguments.vararg else []
    kinds += [("keyword", p.arg, d) for p, d in zip(arguments.kwonlyargs, arguments.kw_defaults)]
    kinds += [("**", arguments.kwarg.arg, None)] if arguments.kwarg else []
    return [(kind, name, None if d is None else (ast.literal_eval(d) if not isinstance(d, (ast.Name, ast.Attribute))
                                                 else ast.unparse(d), ))
            for kind, name, d in kinds]

def refused_call(wanted, ours, method):
    # what triton takes and ours does not, or nothing
    by_name = {name: (kind, default) for kind, name, default in ours}
    take_all = {kind for kind, _, _ in ours if kind in ("*", "**")}
    places = [name for kind, name, _ in ours if kind == "positional"]
    for place, (kind, name, default) in enumerate(wanted):
        if method and place == 0:
            continue            # the receiver
        if kind in ("*", "**"):
            if kind not in take_all:
                return f"takes no {kind}{name}"
        elif name not in by_name:
            return f"has no parameter {name}"
        elif default is not None and by_name[name][1] != default:
            return f"the default of {name} is {by_name[name][1]}, not {default}"
        elif kind == "positional" and (place >= len(places) or places[place] != name):
            return f"{name} is not parameter number {place}"
    for kind, name, default in ours[1 if method else 0:]:
        if kind in ("positional", "keyword") and default is None and name not in {n for _, n, _ in wanted}:
            return f"needs {name}"
    return ""

for line in open(sys.argv[1]):
    if line[0] == "#":
        continue
    module, name, text = line.rstrip("\n").split(" ", 2)
    found = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    method = "." in name and text.startswith("(self") or name.startswith("tensor.")
    try:
        shown = inspect.signature(found)
        plain = shown.replace(parameters=[p.replace(annotation=inspect.Parameter.empty)
                                          for p in shown.parameters.values()],
                              return_annotation=inspect.Signature.empty)
        wrong = refused_call(parameters(text), parameters(str(plain)), method)
    except Exception as error:
        wrong = f"{type(error).__name__}: {error}"
    print("bad" if wrong else "good", f"{module}.{name}", wrong)
"""


@pytest.fixture(scope="module")
def seen() -> list[list[str]]:
    result = subprocess.run([sys.executable, "-c", LOOK, str(FILE)], capture_output=True, text=True, timeout=120,
                            env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert result.returncode == 0, result.stderr
    return [line.split(" ", 2) for line in result.stdout.splitlines()]


def test_each_call_that_triton_takes_is_taken(seen: list[list[str]]) -> None:
    assert len(seen) > 700
    assert [(name, wrong) for kind, name, wrong in seen if kind == "bad" and name not in DEPARTURES] == []


def test_departures_are_departures(seen: list[list[str]]) -> None:
    assert DEPARTURES.keys() - {name for kind, name, _ in seen if kind == "bad"} == set()
