"""`triton.compiler.errors`."""

from tilewright.diagnostics import CompilationError, CompileTimeAssertionFailure, UnsupportedLanguageConstruct
