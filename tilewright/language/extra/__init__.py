"""`tl.extra`: functions beyond the language's own.

Tests: tests/lang/test_surface.py.
"""
