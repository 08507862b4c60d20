"""`triton.compiler`."""

from triton.compiler import compiler, errors
from triton.compiler.compiler import *
from triton.compiler.errors import *
