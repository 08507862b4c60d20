"""Kernels whose source is not to be found."""

from tests.errors.harness import TextCase, case

of_lambda = case(lambda x: x, x="*fp32")  # error: SourceNotFoundError: a lambda cannot be compiled; write it

executed = TextCase("executed", """
def kernel(x):  # error: SourceNotFoundError: give the text: jit(source=...)
    return x
""", forget=True)

text_of_another = TextCase("text_of_another", """
def kernel(x):  # error: SourceNotFoundError: the text given as `source` has 0 definitions of it
    return x
""", source="def another(x):\n    return x\n")

text_with_two = TextCase("text_with_two", """

def kernel(x):  # error: SourceNotFoundError: the text given as `source` has 2 definitions of it
    return x
""", source="def kernel(x):\n    return x\n\n\n\ndef kernel(x):\n    return x\n")

text_that_is_no_python = TextCase("text_that_is_no_python", """
def kernel(x):  # error: SourceNotFoundError: the text given as `source` is no Python
    return x
""", source="def kernel(x:\n")

wrong_inside = TextCase("wrong_inside", """
def kernel(x):
    return y  # error: CompilationError: y is not defined
""", source="""
def kernel(x):
    return y
""")
