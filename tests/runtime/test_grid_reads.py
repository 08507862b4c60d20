"""What grid functions read by their code, and that no grid function can tell which dict it gets."""

import functools
import sys
import weakref
from types import SimpleNamespace

import numpy as np
import pytest

import tilewright as triton
import tilewright.language as tl
from tilewright.runtime import grid_reads
from tilewright.runtime.grid_reads import names_read
from tilewright.runtime.native_launch import MOST_GRIDS
from tilewright.targets.cpu.host.choice import best_kind

native = pytest.mark.skipif(best_kind() != "linux", reason="native launchers are for Linux")

cdiv, n, KEPT = triton.cdiv, 1000, []


def two_statements(meta):
    blocks = cdiv(n, meta["BLOCK"])
    return (blocks, meta["n"] if blocks > meta["BLOCK"] else 1)


def with_loop(meta):
    total = 0
    for k in range(3):
        total += k * meta["BLOCK"]
    return (total,)


def with_try(meta):
    try:
        return (meta["BLOCK"],)
    except KeyError:
        return (meta["n"],)


READS = [
    (lambda meta: (cdiv(n, meta["BLOCK"]),), ["BLOCK"]),
    (lambda META: (cdiv(META["n"], META["BLOCK"]), META["BLOCK"]), ["n", "BLOCK"]),
    (lambda meta: (1,), []),
    (lambda meta, n=n: (cdiv(n, meta["BLOCK"]),), ["BLOCK"]),
    (lambda meta, *more, **named: (meta["BLOCK"],), ["BLOCK"]),
    (lambda meta: (meta["BLOCK"] if n else meta["n"],), ["BLOCK", "n"]),
    (lambda meta: (len(f"{meta['BLOCK']}"),), ["BLOCK"]),
    (lambda meta: (lambda: 1, meta["BLOCK"])[1:], ["BLOCK"]),
    (lambda meta: (sum(k for k in range(3)), meta["BLOCK"]), ["BLOCK"]),
    (lambda meta: ((x := meta["BLOCK"]), x), ["BLOCK"]),
    (lambda meta: (meta["missing"],), ["missing"]),
    (two_statements, ["BLOCK", "n"]),
    (with_loop, ["BLOCK"]),
    (with_try, ["BLOCK", "n"]),
]


@pytest.mark.parametrize(("function", "names"), READS, ids=lambda value: getattr(value, "__name__", None))
def test_functions_that_only_subscript(function, names):
    assert names_read(function.__code__) == tuple(names)


def returned(meta):
    return meta


def stored(meta):
    KEPT.append(meta)
    return (1,)


def assigned(meta):
    meta["BLOCK"] = 1
    return (1,)


def increased(meta):
    meta["n"] += 1
    return (meta["n"],)


def item_deleted(meta):
    del meta["n"]
    return (1,)


def deleted(meta):
    del meta
    return (1,)


def reassigned(meta):
    meta = {"BLOCK": 2}
    return (meta["BLOCK"],)


def another_name(meta):
    m = meta
    return (m["BLOCK"],)


def as_loop_variable(meta):
    blocks = meta["BLOCK"]
    for meta in ((blocks,),):
        pass
    return meta


def generator(meta):
    yield meta["BLOCK"]


async def coroutine(meta):
    return (meta["BLOCK"],)


def global_statement(meta):
    global KEPT_META
    KEPT_META = meta
    return (1,)


def frame_reader(meta):
    return (len(sys._getframe().f_locals["meta"]) * 0 + meta["BLOCK"],)


def matched(meta):
    match meta:
        case {"BLOCK": block}:
            return (block,)
    return (1,)


def no_parameter():
    return (1,)


ESCAPES = [
    returned, stored, assigned, increased, item_deleted, deleted, reassigned, another_name, as_loop_variable,
    generator, coroutine, global_statement, frame_reader, matched, no_parameter,
    lambda meta: (dict(**meta)["BLOCK"],),
    lambda meta: (meta.get("BLOCK"),),
    lambda meta: (len([*meta]),),
    lambda meta: (len(f"{meta}"),),
    lambda meta: (len(f"{meta!r}"),),
    lambda meta: ((lambda: meta["BLOCK"])(),),
    lambda meta: (sum(meta["BLOCK"] for _ in range(2)),),
    lambda meta: tuple(meta[k] for k in ("BLOCK",)),
    lambda meta: ((lambda other=meta: other["BLOCK"])(),),
    lambda meta: ((m := meta)["BLOCK"],),
    lambda meta: (meta[str(n)],),
    lambda meta: (meta[0],),
    lambda meta: (meta["a":"b"],),
    lambda meta: (1 if "BLOCK" in meta else 2,),
    lambda meta: (meta["BLOCK"] if meta else 2,),
    lambda meta: ((meta or {})["BLOCK"],),
    lambda meta: (len(meta),),
    lambda meta: (meta["BLOCK"], meta)[:1],
    lambda meta: (len(locals()), meta["BLOCK"]),
    lambda meta: (vars()["meta"]["BLOCK"],),
    lambda meta: (eval("meta")["BLOCK"],),
    lambda *all_of_them: (all_of_them[0]["BLOCK"],),
    lambda *, meta: (meta["BLOCK"],),
    lambda **named: (1,),
]


@pytest.mark.parametrize("function", ESCAPES)
def test_functions_that_may_see_more(function):
    assert names_read(function.__code__) is None


def test_a_comprehension_reads_or_hides_its_parameter():
    """Newer versions of Python run comprehensions in the function itself."""
    inlined = sys.version_info >= (3, 12)
    assert names_read((lambda meta: [meta["BLOCK"] for _ in range(2)]).__code__) == (("BLOCK",) if inlined else None)
    hidden = names_read((lambda meta: ([-meta for meta in range(2)], meta["BLOCK"])).__code__)
    assert hidden == (None if inlined else ("BLOCK",))


LOCAL = 124


def instructions(*words):
    return [SimpleNamespace(opname=name, opcode=LOCAL if "FAST" in name else 0, argval=value, argrepr=text,
                            is_jump_target=target)
            for name, value, text, target in words]


CONSTANT, ITEM = ("LOAD_CONST", "B", "'B'", False), ("BINARY_OP", 26, "[]", False)
NEWER = [       # as Python 3.13 and 3.14 write them; the function's parameters are `meta` and `n`
    ([("LOAD_FAST_BORROW", "meta", "meta", False), CONSTANT, ITEM], ("B",)),
    ([("LOAD_FAST_LOAD_FAST", ("n", "meta"), "n, meta", False), CONSTANT, ITEM], ("B",)),
    ([("LOAD_FAST_BORROW_LOAD_FAST_BORROW", ("n", "meta"), "n, meta", False), CONSTANT, ITEM], ("B",)),
    ([("STORE_FAST_LOAD_FAST", ("n", "meta"), "n, meta", False), CONSTANT, ITEM], ("B",)),
    ([("LOAD_FAST_LOAD_FAST", ("n", "n"), "n, n", False), CONSTANT, ITEM], ()),
    ([("LOAD_FAST_LOAD_FAST", ("meta", "n"), "meta, n", False), CONSTANT, ITEM], None),
    ([("LOAD_FAST_LOAD_FAST", ("meta", "meta"), "meta, meta", False), CONSTANT, ITEM], None),
    ([("STORE_FAST_LOAD_FAST", ("meta", "n"), "meta, n", False), CONSTANT, ITEM], None),
    ([("STORE_FAST_STORE_FAST", ("n", "meta"), "n, meta", False), CONSTANT, ITEM], None),
    ([("LOAD_FAST_AND_CLEAR", "meta", "meta", False), CONSTANT, ITEM], None),
    ([("LOAD_FAST_CHECK", "meta", "meta", False), CONSTANT, ITEM], None),
    ([("LOAD_FAST_OF_THE_FUTURE", 0, "", False), CONSTANT, ITEM], None),
    ([("LOAD_FAST", "meta", "meta", False), CONSTANT, ("BINARY_OP", 0, "+", False)], None),
    ([("LOAD_FAST", "meta", "meta", False), ("LOAD_CONST", "B", "'B'", True), ITEM], None),
    ([("LOAD_FAST", "meta", "meta", False), ("LOAD_CONST", ("B",), "('B',)", False), ITEM], None),
    ([("LOAD_FAST", "meta", "meta", False), CONSTANT], None),
]


@pytest.mark.parametrize(("words", "names"), NEWER)
def test_instructions_of_other_versions(monkeypatch, words, names):
    code = (lambda meta, n: None).__code__
    fake = SimpleNamespace(haslocal=[LOCAL], get_instructions=lambda code: instructions(*words))
    monkeypatch.setattr(grid_reads, "dis", fake)
    assert names_read(code) == names


# -- launches ---------------------------------------------------------------------------------------------------------


def fill_source(o, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + i, tl.num_programs(0), mask=i < n)


@pytest.fixture
def fill():
    return triton.jit(fill_source)


def count(kernel, grid, size=4, **constants):
    """How many programs a launch with this grid has; `size` is the argument `n`."""
    o = np.zeros(64, np.int32)
    kernel[grid](o, size, **({"BLOCK": 2} | constants))
    return o[0]


@native
def test_the_items_are_those_of_the_launch(fill):
    def grid(meta):
        return (meta["n"] * 100 + meta["BLOCK"],)

    for _ in range(3):
        for size, block in ((4, 2), (5, 2), (4, 8), (1, 1), (16, 4), (63, 2)):
            assert count(fill, lambda meta: (meta["BLOCK"] + min(meta["n"], 100),), size, BLOCK=block) == block + size
    for size in range(2, 30):
        assert count(fill, grid, size) == 100 * size + 2


@native
@pytest.mark.parametrize("grid", [returned, stored, another_name, deleted, frame_reader, matched, *ESCAPES[15:-3]])
def test_what_escapes_is_fresh_and_whole(fill, grid):
    """Whatever the function does with the dict, it has all names, and no other launch sees it."""
    name = grid.__code__.co_varnames[0]
    seen = []

    def spy(meta):
        seen.append(meta)
        assert sorted(meta) == ["BLOCK", "n", "o"] and (meta["n"], meta["BLOCK"]) == (4, 2)
        answer = None
        try:
            answer = grid(meta)
        except (KeyError, TypeError):
            pass
        meta.clear()
        return (1,) if not isinstance(answer, tuple) else (3,)

    assert name == "meta"
    for _ in range(6):
        count(fill, spy)
        assert count(fill, lambda meta: (meta["BLOCK"] + meta["n"],)) == 6
    assert len({id(meta) for meta in seen}) == len(seen)


@native
def test_kept_and_changed_dicts(fill):
    KEPT.clear()

    def changing(meta):
        meta["n"] += 7
        meta["BLOCK"] = 1
        return (meta["n"],)

    for _ in range(6):
        count(fill, stored)
        assert count(fill, changing) == 11
    assert len({id(meta) for meta in KEPT}) == 6
    assert all((meta["n"], meta["BLOCK"]) == (4, 2) for meta in KEPT)


@native
def test_a_dict_taken_through_the_frame_is_given_up(fill):
    """Nothing in the function's code says so: `Reader` reads the caller's frame."""
    got = []

    class Reader:
        def __rfloordiv__(self, other):
            got.append(sys._getframe(1).f_locals["meta"])
            return 3

    reader = Reader()

    def grid(meta):
        return (meta["n"] // reader,)

    for size in (4, 5, 6, 7, 8):
        assert count(fill, grid, size) == 3
    assert [meta["n"] for meta in got] == [4, 5, 6, 7, 8]


@native
def test_callables_that_are_no_plain_functions(fill):
    class Grid:
        def __call__(self, meta):
            return (len(meta),)

        def method(self, meta):
            return (len(meta) + meta["BLOCK"],)

        @staticmethod
        def static(meta):
            return (meta["BLOCK"] + 1,)

        @classmethod
        def of_class(cls, meta):
            return (meta["BLOCK"] + 2,)

    def partial(extra, meta):
        return (extra["BLOCK"] + meta["BLOCK"],)

    grid = Grid()
    for _ in range(6):
        assert count(fill, grid) == 3
        assert count(fill, grid.method) == 5
        assert count(fill, Grid.static) == count(fill, grid.static) == 3
        assert count(fill, grid.of_class) == 4
        assert count(fill, functools.partial(partial, {"BLOCK": 5})) == 7
        assert count(fill, functools.partial(lambda meta, extra: (meta["BLOCK"] + extra,), extra=1)) == 3


@native
def test_a_function_whose_code_is_exchanged(fill):
    def grid(meta):
        return (meta["BLOCK"],)

    def other(meta):
        return (len(meta),)

    for code, programs in ((grid.__code__, 2), (other.__code__, 3), (grid.__code__, 2)):
        grid.__code__ = code
        for _ in range(4):
            assert count(fill, grid) == programs


@native
def test_a_missing_name_is_the_same_error(fill):
    def grid(meta):
        return (meta["BLOCK"] if good else meta["BLOK"],)

    for good in (True, True, True, True, False, True):
        if good:
            assert count(fill, grid) == 2
        else:
            with pytest.raises(KeyError, match="BLOK"):
                count(fill, grid)


@native
def test_errors_and_wrong_answers_leave_the_next_launch_alone(fill):
    def grid(meta):
        return answer if meta["BLOCK"] else None

    good = ((2,), None)
    for answer, error in (*[good] * 4, (None, TypeError), good, (("x",), TypeError), ((-1,), ValueError), good):
        if error is None:
            assert count(fill, grid) == 2
        else:
            with pytest.raises(error):
                count(fill, grid)

    def failing(meta):
        return (meta["n"] // (meta["n"] - 5),)

    for size in (6, 6, 6, 6, 5, 6, 7):
        if size == 5:
            with pytest.raises(ZeroDivisionError):
                count(fill, failing, size)
        else:
            assert count(fill, failing, size) == size // (size - 5)


@native
def test_a_grid_function_that_launches(fill):
    """Its own launches have the dict of another call."""
    depth = []

    def grid(meta):
        before = meta["n"]
        if len(depth) < 3:
            depth.append(before)
            assert count(fill, grid, before + 1) == before + 1
            depth.pop()
        return (meta["n"] if meta["n"] == before else 99,)

    for _ in range(5):
        assert count(fill, grid, 4) == 4


@native
def test_tensors_are_read_and_not_kept(fill):
    def grid(meta):
        return (meta["o"].shape[0],)

    for _ in range(4):
        assert count(fill, grid) == 64
    o = np.zeros(32, np.int32)
    fill[grid](o, 4, BLOCK=2)
    alive = weakref.ref(o)
    assert o[0] == 32
    del o
    assert alive() is None


@native
def test_more_grid_functions_than_are_known(fill):
    grids = [eval(f"lambda meta: ({k} + meta['BLOCK'],)") for k in range(2 * MOST_GRIDS)]
    for _ in range(4):
        for k, grid in enumerate(grids):
            assert count(fill, grid) == k + 2


@native
def test_a_new_tuple_where_an_old_one_was(fill):
    """The sizes of a grid are known by the tuple that a bound launcher keeps: another one has its own sizes."""
    addresses = []
    for k in range(40):
        grid = (k + 1,)
        addresses.append(id(grid))
        assert count(fill, grid) == k + 1
        del grid
        if k % 3 == 1:
            assert count(fill, lambda meta: (meta["BLOCK"],)) == 2
        if k % 3 == 2:
            assert count(fill, [7]) == 7
    assert len(set(addresses)) < 40      # the allocator gives the same places again


@native
def test_bound_launchers_that_are_kept_have_their_own_sizes(fill):
    o = np.zeros(64, np.int32)
    for _ in range(4):
        count(fill, (1,))
    bound = [(k, fill[(k,)]) for k in (1, 2, 3, 4)]
    for programs, launch in (*bound, *reversed(bound)):
        launch(o, 4, BLOCK=2)
        assert o[0] == programs
    del bound[::2]
    for k in (5, 6):
        assert count(fill, (k,)) == k
    for programs, launch in bound:
        launch(o, 4, BLOCK=2)
        assert o[0] == programs


@pytest.mark.parametrize("known", [0, 6], ids=["through Python", "native"])
def test_a_key_error_of_the_functions_own_is_its_own(fill, known):
    own = {"a": 1}

    def asks_its_own(meta):
        return (own["tile"] + meta["BLOCK"],)

    for _ in range(known):
        assert count(fill, lambda meta: (meta["BLOCK"],)) == 2
    for _ in range(3):
        with pytest.raises(KeyError, match="^'tile'$"):
            count(fill, asks_its_own)
