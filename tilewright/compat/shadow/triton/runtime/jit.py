"""`triton.runtime.jit`."""

from tilewright.compat.refusals import refused_in
from tilewright.compiler.paths import native_specialize_impl
from tilewright.language.function import ConstexprFunction
from tilewright.language.function import Param as KernelParam
from tilewright.runtime.arguments import MockTensor
from tilewright.runtime.hooks import JitFunctionInfo
from tilewright.runtime.interface import KernelInterface
from tilewright.runtime.jit import JITFunction, jit
from tilewright.runtime.reinterpret import TensorWrapper, reinterpret
from tilewright.runtime.sizes import constexpr_function
from tilewright.runtime.specialize import mangle_type

__getattr__ = refused_in(__name__)
