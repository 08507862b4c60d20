"""`triton.language.core`: the language's values and types, and its builtins."""

from tilewright.compat.refusals import refused_in
from tilewright.language import *
from tilewright.language.core import *
from tilewright.language.descriptors import tensor_descriptor as tensor_descriptor_base
from tilewright.runtime.sizes import must_use_result

__getattr__ = refused_in(__name__)
