"""`ASTSource`: a kernel and what it is to be compiled for, in triton's terms.

`signature` maps parameters to types (`*fp32`, `i32`, a tuple of them, `constexpr`), `constexprs` maps parameters (or
paths to them, as `(2,)`) to values, `attrs` maps paths to what is known of an argument, as `[["tt.divisibility", 16]]`.
Tests: tests/compat/test_compile.py.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.backends.compiler import CpuOptions
from tilewright.compiler.view import ModuleView
from tilewright.diagnostics import shows_users_frames_when_made
from tilewright.language.options import Arg, ConstantArg, RuntimeArg, Signature, TupleArg
from tilewright.language.types import parse_type
from tilewright.lowering import lower
from tilewright.runtime.jit import JITFunction

Path = tuple[int, ...]


@shows_users_frames_when_made
class ASTSource:
    """See the module's docstring."""

    ext = "ttir"

    def __init__(self, fn: JITFunction, signature: Mapping[str, Any], constexprs: Mapping[Any, Any] | None = None,
                 attrs: Mapping[Path, Sequence[Sequence[Any]]] | None = None) -> None:
        self.fn = fn
        self.name = fn.__name__
        self.signature = dict(signature)
        self.constants: dict[Path, Any] = {self._path(key): value for key, value in (constexprs or {}).items()}
        self.attrs = {self._path(key): value for key, value in (attrs or {}).items()}
        unknown = [name for name in self.signature if name not in fn.arg_names]
        missing = [name for name in fn.arg_names if name not in self.signature and self._index(name) not in
                   {path[0] for path in self.constants}]
        if unknown or missing:
            what = f"names {', '.join(unknown)}" if unknown else f"lacks {', '.join(missing)}"
            raise ValueError(f"the signature {what}, but the parameters of {self.name} are {', '.join(fn.arg_names)}")

    def _index(self, name: str) -> int:
        return self.fn.arg_names.index(name)

    def _path(self, key: Any) -> Path:
        if isinstance(key, str):
            if key not in self.fn.arg_names:
                raise ValueError(f"{key!r} is no parameter of {self.name}; they are {', '.join(self.fn.arg_names)}")
            return (self._index(key),)
        return tuple(key) if isinstance(key, tuple | list) else (int(key),)

    def hash(self) -> str:
        """A text that is equal for equal sources, in every process."""
        parts = (self.fn.cache_key, sorted(self.signature.items()), sorted(self.constants.items(), key=repr),
                 sorted(self.attrs.items()))
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    def parse_options(self) -> dict[str, Any]:
        """Options that the source brings along; a function brings none."""
        return {}

    def args(self) -> dict[str, Arg]:
        """The parameters as the frontend takes them."""
        return {name: self._arg(name, self.signature.get(name, "constexpr"), (index,))
                for index, name in enumerate(self.fn.arg_names)}

    def _arg(self, name: str, wanted: Any, path: Path) -> Arg:
        if path in self.constants:
            return ConstantArg(self.constants[path])
        if isinstance(wanted, tuple | list):
            return TupleArg(tuple(self._arg(name, item, (*path, i)) for i, item in enumerate(wanted)))
        if wanted == "constexpr":
            raise ValueError(f"parameter {name!r} of {self.name} is a constexpr without a value; give it in constexprs")
        known = {fact[0]: fact[1] for fact in self.attrs.get(path, ())}
        divides = int(known.get("tt.divisibility", 1)) % 16 == 0
        try:
            return RuntimeArg(parse_type(wanted), 16 if divides else 1)
        except ValueError as error:
            raise ValueError(f"parameter {name!r} of {self.name}: {error}") from None

    def make_ir(self, target: object, options: CpuOptions, codegen_fns: object, module_map: object,
                context: object) -> ModuleView:
        """The accesses of the kernel to memory.

        The arguments are those that triton takes; only `options` counts, since tile IR is the same for all targets.
        """
        args = self.args()
        lowered = lower(self.fn, Signature(args), options.compiled_with())
        slots = [name for name, arg in args.items() for _ in range(_count(arg))]
        self.fn.found_written.update(slots[slot] for slot in lowered.written.params)
        return ModuleView(self.name, lowered.module)


def _count(arg: Arg) -> int:
    """How many parameters of the compiled function an argument becomes."""
    if isinstance(arg, TupleArg):
        return sum(map(_count, arg.items))
    return 0 if isinstance(arg, ConstantArg) else 1
