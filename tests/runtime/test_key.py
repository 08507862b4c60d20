"""The key of the disk cache: every difference that matters is in it, and nothing else."""

import collections
import enum
import os
import types

import numpy as np
import pytest

import tilewright.language as tl
from tilewright.frontend.dependencies import dependencies
from tilewright.language.constexpr import constexpr
from tilewright.language.function import ConstexprFunction, SourceFunction
from tilewright.language.options import ConstantArg, Options, RuntimeArg, Signature, TupleArg
from tilewright.language.types import float32, int32, pointer_type
from tilewright.runtime.key import Describer, Part, UncacheableError, kernel_parts, key_text, parse_key

POINT = collections.namedtuple("POINT", "x y")
SIGNATURE = Signature({"x": RuntimeArg(pointer_type(float32), 16), "n": RuntimeArg(int32), "B": ConstantArg(16)})


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Own:
    pass


def twice(n):
    return n * 2


def text_of(value):
    return Describer([]).value("it", value)


VALUES = [
    1, True, 1.0, -0.0, 0.0, float("nan"), "1", b"1", None, 2**70, (), (1,), (True,), [1], {"a": 1}, {"b": 1},
    constexpr(1), constexpr(1.0), tl.float32, tl.int32, tl.pointer_type(tl.int8), tl.sum, tl.max,
    POINT, POINT(1, 2), POINT(1, 3), Colour, Colour.RED, Colour.BLUE, int, float, np.float32,
    np.dtype("f4"), np.dtype(">f4"), np.int32(1), np.int64(1),
    ConstexprFunction(twice), ConstexprFunction(lambda n: n * 3), lambda n: n, lambda n, k=2: n, lambda n, k=3: n]


def test_values_that_differ_have_different_texts():
    texts = [text_of(v) for v in VALUES]
    assert len(set(texts)) == len(texts), [t for t in texts if texts.count(t) > 1]
    assert texts == [text_of(v) for v in VALUES]


@pytest.mark.parametrize("value", [Own(), Own, object(), open(os.devnull), (1, Own()), constexpr(Own())])  # noqa: SIM115
def test_what_cannot_be_told_is_refused(value):
    with pytest.raises(UncacheableError, match="it, a"):
        text_of(value)


def test_torch_dtypes():
    torch = pytest.importorskip("torch")
    assert text_of(torch.float32) == "torch.float32" != text_of(torch.float16)


def kernel_text(fn, signature=SIGNATURE, options=Options()):
    return key_text(kernel_parts(dependencies(fn), signature, options))


def made(text, **names):
    exec(text, names)
    return SourceFunction(names["kernel"], source=text)


PLAIN = "def kernel(x, n, B):\n    return N\n"


def test_equal_content_at_another_place_has_the_same_key():
    moved = "\n\nif True:\n    " + PLAIN.replace("\n", "\n    ").rstrip(" ")
    assert kernel_text(made(PLAIN, N=1)) == kernel_text(made(moved, N=1)) == kernel_text(made(PLAIN, N=1, other=3))


@pytest.mark.parametrize("other", [
    made(PLAIN.replace("N", "N + 1"), N=1), made(PLAIN, N=2), made(PLAIN, N=1.0), made(PLAIN, N=True), made(PLAIN),
    made(PLAIN.replace("B)", "B=3)"), N=1), made(PLAIN.replace("B)", "B: C)"), N=1, C=tl.constexpr),
    made(PLAIN.replace("B)", "B: C)"), N=1, C=int)])
def test_source_globals_defaults_and_annotations_are_in_the_key(other):
    assert kernel_text(made(PLAIN, N=1)) != kernel_text(other)


def test_decorators_arguments_are_in_the_key():
    names = {}
    exec(PLAIN, names)
    given = [{}, {"noinline": True}, {"do_not_specialize": ["n"]}, {"do_not_specialize_on_alignment": ["n"]}]
    assert len({kernel_text(SourceFunction(names["kernel"], source=PLAIN, **g)) for g in given}) == 4


@pytest.mark.parametrize("change", [
    {"x": RuntimeArg(pointer_type(float32), 1)}, {"x": RuntimeArg(pointer_type(int32), 16)},
    {"x": RuntimeArg(pointer_type(float32, const=True), 16)}, {"B": ConstantArg(17)}, {"B": ConstantArg(16.0)},
    {"B": RuntimeArg(int32)}, {"n": TupleArg((RuntimeArg(int32),))}, {"n": TupleArg((RuntimeArg(int32),), POINT)}])
def test_arguments_are_in_the_key(change):
    fn = made(PLAIN, N=1)
    assert kernel_text(fn) != kernel_text(fn, Signature({**SIGNATURE.args, **change}))


@pytest.mark.parametrize("options", [Options(num_warps=8), Options(debug=True), Options(enable_fp_fusion=True),
                                     Options(extra=(("allow_non_constexpr_globals", True),))])
def test_options_are_in_the_key(options):
    fn = made(PLAIN, N=1)
    assert kernel_text(fn) != kernel_text(fn, options=options)


def test_callees_and_their_globals_are_in_the_key():
    def outer(helper_text, **names):
        exec(helper_text, names)
        helper = SourceFunction(names["helper"], source=helper_text)
        return made("def kernel(x, n, B):\n    return helper(n)\n", helper=helper)

    texts = [outer("def helper(n):\n    return n + M\n", M=1), outer("def helper(n):\n    return n + M\n", M=2),
             outer("def helper(n):\n    return n - M\n", M=1)]
    assert len(set(map(kernel_text, texts))) == 3


def with_compile_time_function(text, module="made_up", **names):
    """A kernel that calls the function `plain` of `text`, and the kernel's names."""
    exec(text, names)
    names["plain"].__module__ = module
    return made("def kernel(x, n, B):\n    return f(B)\n", f=ConstexprFunction(names["plain"]), __name__="made_up")


def test_compile_time_functions_and_all_that_they_call_are_in_the_key():
    text = "def inner(n):\n    return n * M\ndef plain(n):\n    return inner(n)\n"
    changes = [("M", "M"), ("n * M", "n + M"), ("return inner", "return 1 + inner"), ("inner(n):", "inner(n, k=3):")]
    kernels = [with_compile_time_function(text.replace(*change), M=1, __name__="made_up") for change in changes]
    kernels.append(with_compile_time_function(text, M=2, __name__="made_up"))
    assert len(set(map(kernel_text, kernels))) == 5


@pytest.mark.parametrize(("names", "said"), [
    ({"inner": types.FunctionType(twice.__code__, {}, "inner")}, "calls the Python function inner"),
    ({"inner": types.ModuleType("own")}, "attributes of the module inner")])
def test_compile_time_functions_that_read_what_is_not_followed_are_not_cached(names, said):
    if isinstance(names["inner"], types.FunctionType):
        names["inner"].__module__ = "another_library"
    fn = with_compile_time_function("def plain(n):\n    return inner(n)\n", **names)
    with pytest.raises(UncacheableError, match=said):
        kernel_text(fn)


def test_keys_are_read_again():
    parts = [Part("a", "é\n'"), Part("b", "")]
    assert parse_key(key_text(parts)) == parts
    for text in ("", "[1]", "no key\nat all", "[('a',)]"):
        with pytest.raises(ValueError):
            parse_key(text)


def plain_kernel(x, n, B):
    pass


def test_places_count_where_lines_are_compiled_in():
    """Code with line tables says where its functions are, so it is not taken for theirs after a move."""
    guards = dependencies(SourceFunction(plain_kernel))
    plain, lined = (kernel_parts(guards, SIGNATURE, Options(line_info=on)) for on in (False, True))
    assert {p.label for p in lined} - {p.label for p in plain} == {"place of plain_kernel"}
    assert dict(lined)["place of plain_kernel"] == f"{__file__}:{plain_kernel.__code__.co_firstlineno}"
