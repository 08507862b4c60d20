"""Semantics §10: static and device prints and asserts, assume, hints; and loops' range objects (§11)."""

import pytest

from tests.lang.recorder import call, evaluate, trace
from tilewright import language as tl
from tilewright.diagnostics import CompileTimeAssertionFailure
from tilewright.language.options import Options

DEBUG = Options(debug=True)


class TestStaticAssert:
    def test_holds_or_fails(self):
        assert trace(lambda b: call(b, tl.static_assert, tl.constexpr(True), "m")).result is None
        with pytest.raises(CompileTimeAssertionFailure, match="block is odd"):
            trace(lambda b: call(b, tl.static_assert, tl.constexpr(False), "block is odd"))
        with pytest.raises(CompileTimeAssertionFailure, match="static assertion failed"):
            trace(lambda b: call(b, tl.static_assert, False))

    def test_takes_a_compile_time_bool(self):
        for value in (1, None, "a"):
            with pytest.raises(TypeError, match="needs a bool"):
                trace(lambda b: call(b, tl.static_assert, value))
        with pytest.raises(TypeError, match="use tl.device_assert"):
            trace(lambda b, x: call(b, tl.static_assert, x), "int1")

    def test_positional_only(self):
        with pytest.raises(TypeError, match="static_assert"):
            trace(lambda b: call(b, tl.static_assert, cond=True))


def test_static_print(capsys):
    trace(lambda b, x: call(b, tl.static_print, "x", x, tl.constexpr(3), tl.float32, sep="|", end="!"), "int32[16]")
    assert capsys.readouterr().out == "x|int32[constexpr[16]]|3|fp32!"


class TestDevicePrint:
    def test_operands(self):
        done = trace(lambda b, x, y: call(b, tl.device_print, "v", x, y, 2.5, hex=True), "uint32[4]", "int64")
        attrs = done.op("device_print").attrs
        assert (attrs["prefix"], attrs["hex"], attrs["signed"]) == ("v", True, (False, True, False))
        assert len(done.op("device_print").operands) == 3
        assert trace(lambda b: call(b, tl.device_print, "hello")).op("device_print").operands == ()

    def test_refuses(self):
        for prefix in (5, "ü", None):
            with pytest.raises(TypeError, match="must be an ascii string"):
                trace(lambda b: call(b, tl.device_print, prefix))
        with pytest.raises(TypeError, match="takes a text first, not int32"):
            trace(lambda b, x: call(b, tl.device_print, x), "int32")
        with pytest.raises(TypeError, match="not the string 'b'"):
            trace(lambda b: call(b, tl.device_print, "a", "b"))


class TestDeviceAssert:
    def test_only_with_debug(self):
        assert trace(lambda b, x: call(b, tl.device_assert, x, "m"), "int1[4]").names == []
        done = trace(lambda b, x: call(b, tl.device_assert, x, "m"), "int1[4]", options=DEBUG)
        assert done.names == ["device_assert"] and done.ops[0].attrs["message"] == "m"

    def test_other_types_are_compared_with_zero(self):
        with pytest.raises(AssertionError, match="zero"):
            evaluate(lambda b, x: (call(b, tl.device_assert, x, "zero"), x)[1], ([1, 0], "int32"), options=DEBUG)
        assert evaluate(lambda b, x: (call(b, tl.device_assert, x, "zero"), x)[1], ([1, 2], "int32"),
                        options=DEBUG).tolist() == [1, 2]

    def test_masked(self):
        def meaning(b, x):
            call(b, tl.device_assert, x > 0, "m", x < 5)
            return x

        assert evaluate(meaning, ([1, 7, 4], "int32"), options=DEBUG).tolist() == [1, 7, 4]
        with pytest.raises(AssertionError):
            evaluate(meaning, ([1, -1], "int32"), options=DEBUG)
        with pytest.raises(ValueError, match="mask of tl.device_assert must be int1"):
            trace(lambda b, x: call(b, tl.device_assert, x, "m", x), "int32", options=DEBUG)

    def test_the_message_is_checked_without_debug(self):
        with pytest.raises(TypeError, match="msg of tl.device_assert"):
            trace(lambda b, x: call(b, tl.device_assert, x, 5), "int1")


def test_assume_and_barrier():
    assert trace(lambda b, x: call(b, tl.assume, x > 0), "int32").names[-1] == "assume"
    assert trace(lambda b: call(b, tl.assume, True)).names == []
    with pytest.raises(ValueError, match="scalar condition"):
        trace(lambda b, x: call(b, tl.assume, x), "int1[4]")
    assert trace(lambda b: call(b, tl.debug_barrier)).names == []


class TestHints:
    def test_attributes(self):
        done = trace(lambda b, x: call(b, tl.multiple_of, x, 16), "int32")
        assert done.op("hint").attrs["divisible"] == (16,) and done.result.type == tl.int32
        done = trace(lambda b, x: call(b, tl.max_contiguous, x, (tl.constexpr(1), 8)), "*fp32[4, 8]")
        assert done.op("hint").attrs["contiguous"] == (1, 8)
        assert trace(lambda b, x: call(b, tl.max_constancy, x, [4]), "int32[8]").op("hint").attrs["constant"] == (4,)

    def test_refuses(self):
        with pytest.raises(ValueError, match="Shape of input to multiple_of does not match the length of values"):
            trace(lambda b, x: call(b, tl.multiple_of, x, 8), "int32[4, 4]")
        with pytest.raises(ValueError, match="Shape of input to max_contiguous"):
            trace(lambda b, x: call(b, tl.max_contiguous, x, 8), "int32")
        with pytest.raises(ValueError, match="must be 1 or more"):
            trace(lambda b, x: call(b, tl.multiple_of, x, 0), "int32")
        with pytest.raises(TypeError, match="must be known"):
            trace(lambda b, x: call(b, tl.multiple_of, x, x), "int32")
        with pytest.raises(TypeError, match="speaks of a run-time value"):
            trace(lambda b: call(b, tl.multiple_of, 8, 8))


class TestRanges:
    def test_range(self):
        for args, want in (((5,), (0, 5, 1)), ((2, 5), (2, 5, 1)), ((9, 1, -2), (9, 1, -2))):
            r = tl.range(*args, num_stages=3)
            assert (r.start, r.end, r.step, r.num_stages) == (*want, 3)
        assert tl.range(4, loop_unroll_factor=tl.constexpr(2), flatten=True, warp_specialize=True,
                        disallow_acc_multi_buffer=True, disable_licm=True).loop_unroll_factor == 2
        with pytest.raises(TypeError, match="only in a `for` statement"):
            list(tl.range(3))

    def test_a_step_of_zero(self):
        for kind in (tl.range, tl.static_range):
            with pytest.raises(ValueError, match="must not be zero"):
                kind(0, 4, 0)

    def test_static_range(self):
        assert list(tl.static_range(3)) == [0, 1, 2]
        assert list(tl.static_range(tl.constexpr(5), 1, -2)) == [5, 3] and len(tl.static_range(4)) == 4
        trace(lambda b, x: pytest.raises(TypeError, tl.static_range, x), "int32")

    def test_condition(self):
        assert tl.condition(True, disable_licm=True).disable_licm is True


def test_expect_zero_is_the_value_and_an_assertion_in_debug_kernels():
    assert trace(lambda b, x, m: call(b, tl.expect_zero, x, m), "fp32[4]", "int1[4]").names == []
    with_debug = trace(lambda b, x, m: call(b, tl.expect_zero, x, m), "fp32[4]", "int1[4]",
                       options=Options(debug=True))
    assert with_debug.names[-1] == "device_assert"
    with pytest.raises(ValueError, match="mask of tl.expect_zero must be int1"):
        trace(lambda b, x, m: call(b, tl.expect_zero, x, m), "fp32[4]", "int32[4]", options=Options(debug=True))
