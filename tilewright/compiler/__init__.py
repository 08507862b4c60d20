"""Compiling a kernel for a signature that is written down, with no launch: `compile(ASTSource(...))`.

    source      ASTSource: a @jit function, the types of its arguments and its compile-time values
    compiled    CompiledKernel: the machine code, as something to launch or to pickle
    compilation compile, make_backend
    view        the accesses of a kernel to memory, in the form in which torch's compiler looks at IR

Tests: tests/compat/test_compile.py.
"""

from tilewright.backends.compiler import GPUTarget
from tilewright.compiler.compilation import compile, make_backend
from tilewright.compiler.compiled import CompiledKernel
from tilewright.compiler.source import ASTSource
from tilewright.diagnostics import CompilationError

__all__ = ["ASTSource", "CompilationError", "CompiledKernel", "GPUTarget", "compile", "make_backend"]
