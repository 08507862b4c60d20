"""`triton.language.core`: the language's values and types, and its builtins."""

from tilewright.language import *
from tilewright.language import __dir__, __getattr__
from tilewright.language.core import *
