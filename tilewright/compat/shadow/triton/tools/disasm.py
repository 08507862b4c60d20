"""`triton.tools.disasm`."""

from tilewright.compat.refusals import refused_in
from tilewright.tools.disasm import extract, get_sass, path_to_cuobjdump

__getattr__ = refused_in(__name__)
