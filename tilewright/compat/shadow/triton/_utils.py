"""`triton._utils`: paths into nested tuples of arguments."""

from tilewright.compiler.paths import find_paths_if, get_iterable_path
