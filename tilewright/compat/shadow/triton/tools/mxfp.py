"""`triton.tools.mxfp`; it imports torch when one of its names is asked for."""

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    if name in ("MXFP4Tensor", "MXScaleTensor", "fp8e8m0_to_float32"):
        return getattr(importlib.import_module("tilewright.tools.mxfp"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
