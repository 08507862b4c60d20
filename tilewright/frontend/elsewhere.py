"""What kernels call that other libraries have: the name, or the words, that the language has for it.

Only for messages: after "has no attribute" and "cannot be called".  Tests: tests/errors/names.py, calls.py.
"""

from __future__ import annotations

from pathlib import Path

from tilewright import language
from tilewright.imported import imported
from tilewright.language.builtin import is_builtin
from tilewright.language.extra import libdevice

# names of NumPy, torch and math, by the language's name for the same
_OTHER_NAMES = {"absolute": "abs", "fabs": "abs", "amax": "max", "amin": "min", "concatenate": "cat", "matmul": "dot",
                "transpose": "trans", "mm": "dot", "bmm": "dot", "empty": "zeros", "stack": "join"}
# what has no function of its own, spelled out for a value x
_SPELLED = {
    "relu": "write tl.maximum(x, 0)",
    "mean": "write tl.sum(x, axis) / n, with n the number of elements that count",
    "silu": "write x * tl.sigmoid(x)",
    "gelu": "write 0.5 * x * (1 + tl.erf(x * 0.7071067811865476))",
    "square": "write x * x",
    "linspace": "compute it from tl.arange",
    "any": "write tl.max((x != 0).to(tl.int32), axis)",
    "all": "write tl.min((x != 0).to(tl.int32), axis)",
}
_OF_LIBDEVICE = {"round": "rint"}
# methods of arrays and torch's tensors
_METHODS = {
    "astype": "write x.to(dtype)", "type_as": "write x.to(y.dtype)", "float": "write x.to(tl.float32)",
    "half": "write x.to(tl.float16)", "bfloat16": "write x.to(tl.bfloat16)", "double": "write x.to(tl.float64)",
    "int": "write x.to(tl.int32)", "long": "write x.to(tl.int64)", "bool": "write x != 0",
    "size": "use x.shape[axis], or x.numel", "ndim": "use len(x.shape)", "dim": "use len(x.shape)",
    "squeeze": "use tl.squeeze or x.reshape(shape)", "flatten": "use x.reshape(x.numel)",
    "matmul": "use tl.dot(x, y)", "mm": "use tl.dot(x, y)", "dot": "use tl.dot(x, y)",
    "data_ptr": "a pointer's number is p.to(tl.int64)", "copy": "a tile is a value: no copy is needed",
    "clone": "a tile is a value: no copy is needed", "contiguous": "a tile has no strides: leave it out",
}


def language_function(name: str) -> str:
    """"use tl.sqrt", where the language has a function of this (or a related) name or words for it; else nothing."""
    own = name if is_builtin(getattr(language, name, None)) else _OTHER_NAMES.get(name, "")
    if own:
        return f"use tl.{own}"
    if name in _SPELLED:
        return _SPELLED[name]
    device = _OF_LIBDEVICE.get(name, name)
    if device in libdevice.FUNCTIONS:
        return f"use libdevice.{device} (from {_package()}.language.extra import libdevice)"
    return ""


def _package() -> str:
    """The name by which the program imports the language: triton's, where `compat` has made it ours."""
    alias = getattr(imported("triton.language"), "__file__", None) or ""
    return "triton" if alias.startswith(str(Path(language.__file__).parents[1])) else "tilewright"


def method(name: str) -> str:
    """What stands for the method `x.name` of other libraries' arrays; nothing if nothing is known."""
    return _METHODS.get(name, "") or language_function(name)
