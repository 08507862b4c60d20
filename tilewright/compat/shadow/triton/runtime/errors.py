"""`triton.runtime.errors`."""

from tilewright.diagnostics import AutotunerError, InterpreterError, OutOfResources, PTXASError
