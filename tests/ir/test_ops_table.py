"""The op table: rows are complete, type rules refuse what is wrong, laws hold bit for bit.

What can be is made from the table: every row gets a valid example (elementwise rows the first combination of types
that they take, the others from `STRUCTURAL`) and then wrong variants of it.
"""

import enum
import itertools
import string

import numpy as np
import pytest

from tests.conform import edges
from tests.conform.cases import cases_of
from tests.conform.compare import same
from tests.conform.modules import Kernel
from tests.conform.rows import evaluate
from tilewright.diagnostics import InternalError
from tilewright.ir.build import complete_attrs, make_op
from tilewright.ir.node import Block, Value
from tilewright.ir.ops import TABLE, Algebra, Effect, OpRow, TypeRuleError
from tilewright.ir.ops.attributes import Precision, Rmw, Scope, Sem
from tilewright.ir.ops.table import OpTable
from tilewright.ir.types import BF16, F16, F32, I1, I8, I32, I64, Pointer, Tile
from tilewright.layout import Layout

P32 = Pointer(I32)
CONST = Pointer(I32, const=True)


def region(arg_types, body, terminator="yield"):
    return Kernel().region(arg_types, body, terminator)


def pick(*types):
    """A region without arguments that yields constants of scalar types."""
    def body():
        return [k.const(False if t == I1 else 0 if t.is_int else 0.0, t) for t in types]

    k = Kernel()
    return k.region([], body)


def combine(*elements):
    """A region of a reduction that keeps the left elements."""
    return region([*elements, *elements], lambda *args: args[:len(elements)])


def loop_condition(*types):
    k = Kernel()
    return k.region(types, lambda *args: [k.const(True, I1), *args], "condition")


def t(element, *shape):
    return Tile(shape, element)


# row: (operand types, attributes, regions) that the type rule takes, and what it gives
SPREAD = Tile((4,), F32, Layout.of((4,), register=(), lane=(1, 2, 0, 0, 0), warp=()))
KEPT = Tile((4,), F32, Layout.of((4,), offset=(1, 2)))       # in shared memory
STRUCTURAL = {
    "shared_free": ([I32], {}, [], ()),
    "shared_alloc": ([], {"memory": KEPT, "count": 2}, [], (I32,)),
    "async_copy": ([t(Pointer(F32), 4), I32, I1, t(I1, 4)], {"memory": KEPT, "has_mask": True}, [], ()),
    "async_commit": ([], {}, [], ()),
    "async_wait": ([], {"pending": 1}, [], ()),
    "shared_load": ([I32], {"memory": KEPT, "to": SPREAD}, [], (SPREAD,)),
    "shared_store": ([t(F32, 4), I32], {"memory": KEPT}, [], ()),
    "warpgroup_dot": ([t(F16, 64, 16), t(F16, 16, 8), t(F32, 64, 8)], {}, [], (t(F32, 64, 8),)),
    "warpgroup_wait": ([t(F32, 64, 8)], {"pending": 0}, [], (t(F32, 64, 8),)),
    "convert": ([t(F32, 4)], {"to": SPREAD}, [], (SPREAD,)),
    "barrier": ([], {}, [], ()),
    "inline_asm": ([t(F32, 4)], {"text": "a", "name": "tl.x", "constraints": "=r,f", "results": (I32,)}, [],
                   (t(I32, 4),)),
    "inline_asm_ordered": ([], {"text": "a", "name": "tl.x", "constraints": "=r", "results": (I32, F32)}, [],
                           (I32, F32)),
    "constant": ([], {"value": 5, "type": I8}, [], (I8,)),
    "splat": ([F32], {"shape": (2, 3)}, [], (t(F32, 2, 3),)),
    "iota": ([], {"start": 3, "end": 7}, [], (t(I32, 4),)),
    "reshape": ([t(F32, 4, 3)], {"shape": (12,)}, [], (t(F32, 12),)),
    "permute": ([t(F32, 2, 3, 4)], {"order": (2, 0, 1)}, [], (t(F32, 4, 2, 3),)),
    "expand_dims": ([t(I8, 4)], {"axis": 0}, [], (t(I8, 1, 4),)),
    "broadcast": ([t(I8, 1, 4)], {"shape": (3, 4)}, [], (t(I8, 3, 4),)),
    "join": ([t(I8, 4), t(I8, 4)], {}, [], (t(I8, 4, 2),)),
    "split": ([t(I8, 4, 2)], {}, [], (t(I8, 4), t(I8, 4))),
    "cat": ([t(I8, 4), t(I8, 5)], {"axis": 0}, [], (t(I8, 9),)),
    "box": ([t(P32, 4), P32, I64, I64, I64], {}, [], (t(P32, 4),)),
    "box_copy": ([Pointer(KEPT.element), I32, I32, I1, I64, I64, I64],
                 {"memory": KEPT, "swizzle": 0, "nan": False, "has_guard": True}, [], ()),
    "mbarrier_alloc": ([], {"count": 2}, [], (I32,)),
    "mbarrier_arrive": ([I32, I1], {"has_guard": True}, [], ()),
    "mbarrier_wait": ([I32, I32], {}, [], ()),
    "box_store": ([Pointer(KEPT.element), SPREAD, I64, I64, I64],
                  {"memory": KEPT, "swizzle": 0, "shared": True, "again": False}, [], ()),
    "proxy_fence": ([], {"everywhere": True}, [], ()),
    "hint": ([t(P32, 4)], {"divisible": (16,)}, [], (t(P32, 4),)),
    "program_id": ([], {"axis": 2}, [], (I32,)),
    "num_programs": ([], {"axis": 0}, [], (I32,)),
    "block_id": ([], {"axis": 1}, [], (I32,)),
    "num_blocks": ([], {"axis": 2}, [], (I32,)),
    "load": ([t(CONST, 4), t(I1, 4), t(I32, 4)], {"has_mask": True, "has_other": True}, [], (t(I32, 4),)),
    "store": ([t(P32, 4), t(I32, 4), t(I1, 4)], {"has_mask": True}, [], ()),
    "atomic_rmw": ([t(P32, 4), t(I32, 4), t(I1, 4)], {"has_mask": True, "kind": Rmw.MAX_U, "sem": Sem.RELAXED}, [],
                   (t(I32, 4),)),
    "atomic_cas": ([P32, I32, I32, I1], {"has_mask": True, "scope": Scope.SYS}, [], (I32,)),
    "slice": ([t(F32, 4, 8)], {"axis": 1, "start": 7, "step": -3, "size": 2}, [], (t(F32, 4, 2),)),
    "gather": ([t(F32, 4, 8), t(I64, 4, 3)], {"axis": 1}, [], (t(F32, 4, 3),)),
    "sort": ([t(I8, 4, 3)], {}, [], (t(I8, 4, 3),)),
    "histogram": ([t(I64, 4), t(I1, 4)], {"has_mask": True, "bins": 3}, [], (t(I32, 3),)),
    "reduce": ([t(F32, 4, 3), t(I32, 4, 3)], {"axis": 1}, [combine(F32, I32)], (t(F32, 4), t(I32, 4))),
    "map": ([t(F32, 4), t(I32, 4)], {}, [region([F32, I32], lambda x, i: [i, x, i])],
            (t(I32, 4), t(F32, 4), t(I32, 4))),
    "scan": ([t(F32, 4, 3), t(I32, 4, 3)], {"axis": 0, "reverse": True}, [combine(F32, I32)],
             (t(F32, 4, 3), t(I32, 4, 3))),
    "dot": ([t(F16, 4, 8), t(F16, 8, 2), t(F32, 4, 2)], {}, [], (t(F32, 4, 2),)),
    "device_print": ([t(F32, 4), I32], {"prefix": "x", "signed": (True, False)}, [], ()),
    "device_assert": ([t(I1, 4)], {"message": "m"}, [], ()),
    "assume": ([I1], {}, [], ()),
    "for": ([I64, I64, I64, F32], {}, [region([I64, F32], lambda i, x: [x])], (F32,)),
    "while": ([I32, F32], {}, [loop_condition(I32, F32), region([I32, F32], lambda i, x: [i, x])], (I32, F32)),
    "if": ([I1], {}, [pick(I32), pick(I32)], (I32,)),
    "call": ([F32], {"callee": "f", "result_types": (I8,)}, [], (I8,)),
    "yield": ([F32, t(I8, 2)], {}, [], ()),
    "condition": ([I1, F32], {}, [], ()),
    "return": ([F32], {}, [], ()),
}

# what the generated variants cannot find: (row, operand types, attributes, regions, part of the message)
REFUSED = [
    ("constant", [], {"value": 128, "type": I8}, [], "does not fit"),
    ("constant", [], {"value": 1, "type": F32}, [], "no float"),
    ("constant", [], {"value": 1.0, "type": I8}, [], "is no i8"),
    ("constant", [], {"value": True, "type": I8}, [], "is no i8"),
    ("constant", [], {"value": 2, "type": I1}, [], "does not fit"),
    ("splat", [t(F32, 1)], {"shape": (2,)}, [], "splats a scalar"),
    ("splat", [F32], {"shape": ()}, [], "one or more sizes"),
    ("splat", [F32], {"shape": (2, 0)}, [], "sizes >= 1"),
    ("iota", [], {"start": 4, "end": 4}, [], "is empty"),
    ("iota", [], {"start": 0, "end": 2**31 + 1}, [], "leaves int32"),
    ("reshape", [t(F32, 4, 3)], {"shape": (11,)}, [], "another number of elements"),
    ("reshape", [t(F32, 4, 3)], {"shape": (-4, -3)}, [], "sizes >= 1"),
    ("permute", [t(F32, 4, 3)], {"order": (0, 0)}, [], "no permutation"),
    ("expand_dims", [t(F32, 4)], {"axis": 2}, [], "axis 2"),
    ("broadcast", [F32], {"shape": (2,)}, [], "rank"),
    ("broadcast", [t(F32, 4)], {"shape": (2, 4)}, [], "rank"),
    ("broadcast", [t(F32, 2, 4)], {"shape": (4, 4)}, [], "does not broadcast"),
    ("join", [t(F32, 4), t(F32, 5)], {}, [], "differ"),
    ("split", [t(F32, 2, 4)], {}, [], "is not 2"),
    ("cat", [t(F32, 2, 4), t(F32, 3, 5)], {"axis": 0}, [], "other sizes"),
    ("cat", [t(F32, 4), t(F32, 4)], {"axis": 1}, [], "axis 1"),
    ("slice", [t(F32, 4)], {"axis": 1, "start": 0, "step": 1, "size": 1}, [], "axis 1"),
    ("slice", [t(F32, 4)], {"axis": 0, "start": 1, "step": 2, "size": 3}, [], "leave dimension"),
    ("slice", [t(F32, 4)], {"axis": 0, "start": 2, "step": -1, "size": 4}, [], "leave dimension"),
    ("gather", [t(F32, 4), t(I8, 4)], {"axis": 0}, [], "the index"),
    ("gather", [t(F32, 4, 8), t(I32, 3, 8)], {"axis": 1}, [], "differ beside axis 1"),
    ("gather", [t(F32, 4), t(I32, 3, 8)], {"axis": 0}, [], "axis 0"),
    ("sort", [t(F32, 4)], {}, [], "sorts integers"),
    ("histogram", [t(I8, 4)], {"bins": 2}, [], "counts i32"),
    ("histogram", [t(I32, 4)], {"bins": 0}, [], "0 bins"),
    ("hint", [t(F32, 4)], {"divisible": (2, 2)}, [], "needs 1"),
    ("box", [t(P32, 4), Pointer(F32), I64, I64, I64], {}, [], "are no"),
    ("box", [t(P32, 4), P32, I64, I32, I64], {}, [], "has 3 numbers, all i64"),
    ("box", [t(P32, 4, 2), P32, I64, I64, I64], {}, [], "has 6 numbers"),
    ("box_copy", [P32, I32, I32, I64, I64, I64], {"memory": KEPT, "swizzle": 0, "nan": False}, [], "does not point to"),
    ("box_copy", [Pointer(F32), I32, I64, I64, I64, I64], {"memory": KEPT, "swizzle": 0, "nan": False}, [], "are i32"),
    ("mbarrier_alloc", [], {"count": 0}, [], "0 mbarriers"),
    ("mbarrier_arrive", [I32, I32], {"has_guard": True}, [], "the guard an i1"),
    ("mbarrier_wait", [I32, I1], {}, [], "are i32"),
    ("box_store", [Pointer(F32), t(F32, 5), I64, I64, I64],
     {"memory": KEPT, "swizzle": 0, "shared": True, "again": False}, [], "is no tile of"),
    ("shared_alloc", [], {"memory": KEPT, "count": 1, "align": 96}, [], "at a multiple of 96 bytes"),
    ("hint", [t(F32, 4)], {"contiguous": (0,)}, [], "sizes >= 1"),
    ("program_id", [], {"axis": 3}, [], "axis 3"),
    ("num_programs", [], {"axis": -1}, [], "axis -1"),
    ("block_id", [], {"axis": 3}, [], "axis 3"),
    ("num_blocks", [], {"axis": -1}, [], "axis -1"),
    ("load", [t(I32, 4)], {}, [], "no pointer"),
    ("load", [t(P32, 4), t(I1, 5)], {"has_mask": True}, [], "the mask"),
    ("load", [t(P32, 4), t(I8, 4)], {"has_mask": True}, [], "the mask"),
    ("load", [t(P32, 4), t(I1, 4), t(F32, 4)], {"has_mask": True, "has_other": True}, [], "`other` is"),
    ("load", [t(P32, 4), t(I32, 4)], {"has_other": True}, [], "needs a mask"),
    ("store", [t(CONST, 4), t(I32, 4)], {}, [], "const pointer"),
    ("store", [t(P32, 4), t(F32, 4)], {}, [], "does not fit"),
    ("store", [P32, t(I32, 4)], {}, [], "does not fit"),
    ("atomic_rmw", [t(CONST, 4), t(I32, 4)], {"kind": Rmw.ADD}, [], "const pointer"),
    ("atomic_rmw", [P32, I32], {"kind": Rmw.FADD}, [], "no atomic add_f of i32"),
    ("atomic_rmw", [Pointer(F32), F32], {"kind": Rmw.XOR}, [], "no atomic xor of f32"),
    ("atomic_rmw", [Pointer(I1), I1], {"kind": Rmw.XCHG}, [], "no atomic access to i1"),
    ("atomic_rmw", [t(P32, 4), I32], {"kind": Rmw.ADD}, [], "does not fit"),
    ("atomic_cas", [P32, I32, I8], {}, [], "does not fit"),
    ("atomic_cas", [t(P32, 4), t(I32, 4), t(I32, 4), t(I1, 2)], {"has_mask": True}, [], "the mask"),
    ("ptr_add", [P32, I8], {}, [], "i32 or i64"),
    ("ptr_add", [t(P32, 4), I32], {}, [], "shapes"),
    ("ptr_add", [I64, I64], {}, [], "no pointer"),
    ("select", [t(I1, 4), F32, F32], {}, [], "the condition"),
    ("select", [I8, F32, F32], {}, [], "the condition"),
    ("reduce", [F32], {"axis": 0}, [combine(F32)], "tiles"),
    ("reduce", [t(F32, 4)], {"axis": 1}, [combine(F32)], "axis 1"),
    ("reduce", [t(F32, 4), t(F32, 5)], {"axis": 0}, [combine(F32, F32)], "differ in shape"),
    ("reduce", [t(F32, 4)], {"axis": 0}, [combine(I32)], "the region takes"),
    ("reduce", [t(F32, 4)], {"axis": 0}, [region([F32, F32], lambda a, b: [a, b])], "yields one value"),
    ("map", [F32], {}, [region([F32], lambda x: [x])], "tiles"),
    ("map", [t(F32, 4), t(F32, 5)], {}, [region([F32, F32], lambda x, y: [x])], "differ in shape"),
    ("map", [t(F32, 4)], {}, [region([I32], lambda x: [x])], "takes an element a tile"),
    ("scan", [t(F32, 4)], {"axis": -1}, [combine(F32)], "axis -1"),
    ("scan", [t(F32, 4), F32], {"axis": 0}, [combine(F32, F32)], "tiles"),
    ("dot", [t(F16, 4, 8), t(F16, 7, 2), t(F32, 4, 2)], {}, [], "K differs"),
    ("warpgroup_dot", [t(F16, 4, 8), t(F16, 7, 2), t(F32, 4, 2)], {}, [], "K differs"),
    ("shared_store", [t(F32, 8), I32], {"memory": KEPT}, [], "no tile"),
    ("warpgroup_wait", [F32], {"pending": 0}, [], "a tile"),
    ("dot", [t(F16, 4, 8), t(F16, 8, 2), t(F32, 4, 3)], {}, [], "acc is"),
    ("dot", [t(F16, 4), t(F16, 4), t(F32, 4)], {}, [], "rank"),
    ("dot", [t(F16, 4, 8), t(BF16, 8, 2), t(F32, 4, 2)], {}, [], "no dot"),
    ("dot", [t(I32, 4, 8), t(I32, 8, 2), t(I32, 4, 2)], {}, [], "no dot"),
    ("dot", [t(BF16, 4, 8), t(BF16, 8, 2), t(BF16, 4, 2)], {}, [], "accumulates"),
    ("dot", [t(F16, 3, 4, 8), t(F16, 2, 8, 2), t(F32, 3, 4, 2)], {}, [], "batch"),
    ("device_print", [I32], {"prefix": "x", "signed": ()}, [], "one flag"),
    ("device_assert", [I32], {"message": "m"}, [], "i1"),
    ("for", [I8, I8, I8], {}, [region([I8], lambda i: [])], "i32 or three i64"),
    ("for", [I32, I32, I64], {}, [region([I32], lambda i: [])], "i32 or three i64"),
    ("for", [I32, I32, I32, F32], {}, [region([I32], lambda i: [])], "the region takes"),
    ("for", [I32, I32, I32, F32], {}, [region([I32, F32], lambda i, x: [i])], "yields"),
    ("while", [I32], {}, [loop_condition(I32), region([F32], lambda x: [x])], "the body takes"),
    ("while", [I32], {}, [loop_condition(F32), region([F32], lambda x: [x])], "`before` takes"),
    ("while", [I32], {}, [region([I32], lambda x: [x]), region([I32], lambda x: [x])], "condition"),
    ("while", [I32], {}, [loop_condition(I32), region([I32], lambda x: [])], "the body yields"),
    ("if", [I8], {}, [pick(), pick()], "i1"),
    ("if", [I1], {}, [pick(I32), pick(F32)], "different types"),
    ("if", [I1], {}, [region([I32], lambda x: []), pick()], "no arguments"),
    ("condition", [F32], {}, [], "i1"),
    ("trunc", [I8], {"to": I8}, [], "cannot trunc"),
    ("ext_s", [I8], {"to": I1}, [], "cannot ext_s"),
    ("fp_ext", [F16], {"to": BF16}, [], "cannot fp_ext"),
    ("fp_trunc", [F16], {"to": F16}, [], "cannot fp_trunc"),
    ("fp_to_int_s", [F16], {"to": I1}, [], "kind wide_int"),
    ("bitcast", [F32], {"to": I64}, [], "cannot bitcast"),
    ("bitcast", [P32], {"to": I64}, [], "cannot bitcast"),
    ("ptr_to_int", [P32], {"to": I32}, [], "cannot ptr_to_int"),
    ("exp", [F16], {}, [], "f32 and f64"),
    ("div_s", [I1, I1], {}, [], "kind wide_int"),
]


def example(row: OpRow):
    """A valid (types, attributes, regions) of a row; attributes complete."""
    if row.elementwise:
        case = next(iter(cases_of(row)))
        return [Tile((4,), e) for e in case.elements], complete_attrs(row, case.attrs), []
    types, attrs, regions, _ = STRUCTURAL[row.name]
    return types, complete_attrs(row, attrs), regions


rows = pytest.mark.parametrize("row", TABLE.values(), ids=lambda r: r.name)


def test_every_structural_row_has_an_example():
    assert STRUCTURAL.keys() == {name for name, row in TABLE.items() if not row.elementwise}


@rows
def test_the_example_is_taken(row):
    types, attrs, regions = example(row)
    results = row.infer(types, attrs, regions)
    if not row.elementwise:
        assert results == STRUCTURAL[row.name][3]


@rows
def test_rows_are_complete(row):
    assert row.doc and row.source and row.doc[0] != " "
    assert (row.ref is None) == bool(row.effects & (Effect.NESTED | Effect.CONTROL))
    assert row.terminator == bool(row.effects & Effect.CONTROL)
    assert [o.variadic for o in row.operands[:-1]].count(True) == 0, "only the last operand may be variadic"
    names = [o.name for o in row.operands] + [a.name for a in row.attributes]
    assert len(set(names)) == len(names)
    for spec in row.attributes:
        kinds = spec.kind if isinstance(spec.kind, tuple) else (spec.kind,)
        assert all(isinstance(k, type) or hasattr(k, "__args__") for k in kinds)
        assert spec.required or isinstance(spec.default, spec.kind)
        assert spec.kind is not str or spec.required, "a text has no default"
    if row.elementwise:
        assert row.ref is not None and row.regions == 0 and row.is_pure
        assert not any(o.variadic or o.optional for o in row.operands)
    if row.algebra & Algebra.COMMUTATIVE:
        assert len(row.operands) == 2
    if row.domain is not None or row.template is not None:
        assert row.elementwise


@rows
def test_templates_name_only_what_there_is(row):
    if row.template is None:
        return
    fields = {name for _, name, _, _ in string.Formatter().parse(row.template) if name is not None}
    assert {str(i) for i in range(len(row.operands))} <= fields
    assert fields - {str(i) for i in range(len(row.operands))} <= {"t", "r", "s", "c"}
    assert ("r" in fields) == any(a.name == "to" for a in row.attributes)


@rows
def test_a_wrong_number_of_operands_or_regions_is_refused(row):
    types, attrs, regions = example(row)
    variadic = any(o.variadic for o in row.operands)
    fixed = sum(not o.variadic for o in row.operands)
    wrong = [(types[:n], regions) for n in range(fixed)] if fixed else []
    if not variadic:
        wrong.append(([*types, F32], regions))
    wrong += [(types, [*regions, combine(F32)]), *([(types, regions[:-1])] if regions else [])]
    for operands, blocks in wrong:
        with pytest.raises(TypeRuleError):
            row.infer(operands, attrs, blocks)


@rows
def test_attributes_of_a_wrong_kind_are_refused(row):
    types, attrs, regions = example(row)
    for spec in row.attributes:
        for bad in (object(), None, "text" if spec.kind is not str else 5):
            with pytest.raises(TypeRuleError, match=f"attribute {spec.name}"):
                row.infer(types, {**attrs, spec.name: bad}, regions)
        if spec.kind is int:
            with pytest.raises(TypeRuleError, match=f"attribute {spec.name}"):
                row.infer(types, {**attrs, spec.name: True}, regions)
    with pytest.raises(KeyError, match="no attribute unheard_of"):
        complete_attrs(row, {**attrs, "unheard_of": 1})


@pytest.mark.parametrize("row", [r for r in TABLE.values() if r.elementwise], ids=lambda r: r.name)
def test_elementwise_rows_never_promote_or_broadcast(row):
    """No operand may differ in shape, or in type where the row does not say so."""
    types, attrs, _ = example(row)
    for i in range(len(types) if len(types) > 1 else 0):
        for other in (types[i].element, Tile((1,), types[i].element), Tile((1, 4), types[i].element)):
            with pytest.raises(TypeRuleError):
                row.infer([*types[:i], other, *types[i + 1:]], attrs, [])
    accepted = {c.elements for c in cases_of(row)}
    elements = {e for c in accepted for e in c} | {I8, F32, I1, Pointer(F32)}
    if len(types) == 2 and row.name != "ptr_add":
        assert all(a == b for a, b in accepted)
    for combination in itertools.product(elements, repeat=len(types)):
        if combination not in accepted and len(set(combination)) > 1 and row.name != "ptr_add":
            with pytest.raises(TypeRuleError):
                row.infer([Tile((4,), e) for e in combination], attrs, [])


@pytest.mark.parametrize("name,types,attrs,regions,message", REFUSED,
                         ids=lambda v: v if isinstance(v, str) else None)
def test_type_rules_refuse(name, types, attrs, regions, message):
    row = TABLE[name]
    with pytest.raises(TypeRuleError, match=message):
        row.infer(types, complete_attrs(row, attrs), regions)
    with pytest.raises(InternalError, match=f"cannot build {name}"):
        make_op(name, [Value(t) for t in types], attrs, regions)


TAKES_ANY_VALUES = ("yield", "return", "call", "device_print", "inline_asm", "inline_asm_ordered")


@pytest.mark.parametrize("row", [r for r in TABLE.values() if r.operands and r.name not in TAKES_ANY_VALUES],
                         ids=lambda r: r.name)
def test_every_row_refuses_nonsense(row):
    """Beside counts and attributes: an operand of an element or shape that makes no sense there."""
    types, attrs, regions = example(row)
    nonsense = [Tile((3, 5, 7), Pointer(Pointer(F16))), F16, Tile((2, 9), BF16), Tile((4,), P32), I8]
    refused = 0
    for bad in nonsense:
        try:
            row.infer([bad, *types[1:]], attrs, regions)
        except TypeRuleError:
            refused += 1
    listed = any(name == row.name for name, *_ in REFUSED)
    assert refused or listed


# -- laws --------------------------------------------------------------------------------------------------------------

LAWFUL = [c for row in TABLE.values() if row.algebra for c in cases_of(row)]


def apply(case, a, b):
    return evaluate(case.row, case.elements, [a[None], b[None]], **case.attrs)[0]


@pytest.mark.parametrize("case", LAWFUL, ids=str)
def test_laws_hold_bit_for_bit(case):
    element, algebra = case.elements[0], TABLE[case.row].algebra
    few = edges.values(element)
    a, b = (few[i.reshape(-1)] for i in np.meshgrid(np.arange(len(few)), np.arange(len(few))))
    if algebra & Algebra.COMMUTATIVE:
        assert same(apply(case, a, b), apply(case, b, a), case.result).all()
    if algebra & Algebra.IDEMPOTENT:
        assert same(apply(case, few, few), few, case.result).all()
    if algebra & Algebra.ASSOCIATIVE:
        c = np.roll(np.random.default_rng(0).permutation(a), 1)
        assert same(apply(case, apply(case, a, b), c), apply(case, a, apply(case, b, c)), case.result).all()


def test_associativity_is_not_claimed_for_float_sums():
    for name in ("add_f", "mul_f", "sub_f", "div_rn"):
        assert not TABLE[name].algebra & Algebra.ASSOCIATIVE


# -- the table itself --------------------------------------------------------------------------------------------------

def row_like(name="new", **changes):
    fields = {"operands": (), "infer": lambda types, attrs, regions: (), "ref": lambda call: (), "doc": "a doc",
              "source": "a source"}
    return OpRow(name, **{**fields, **changes})


def test_the_table_is_frozen_and_checks_rows():
    with pytest.raises(RuntimeError, match="comes too late"):
        TABLE.add(row_like())
    table = OpTable()
    table.add(row_like())
    with pytest.raises(ValueError, match="two rows"):
        table.add(row_like())
    for wrong in ({"doc": ""}, {"source": ""}):
        with pytest.raises(ValueError, match="a doc line and a source"):
            table.add(row_like("b", **wrong))
    with pytest.raises(ValueError, match="needs a NumPy meaning"):
        table.add(row_like("c", ref=None))
    assert list(table) == ["new"] and len(table) == 1


def test_operands_are_found_by_name():
    row = TABLE["load"]
    assert row.operand_index("other", {"has_mask": True, "has_other": True}, 3) == 2
    assert row.operand_index("other", {"has_mask": True, "has_other": False}, 2) is None
    assert row.operand_index("mask", {"has_mask": True}, 2) == 1
    with pytest.raises(KeyError, match="no operand 'value'"):
        row.operand_index("value", {}, 1)


def test_closed_attributes_are_enums_with_distinct_texts():
    kinds = {a.kind for row in TABLE.values() for a in row.attributes
             if isinstance(a.kind, type) and issubclass(a.kind, enum.Enum)}
    assert Precision in kinds and len(kinds) >= 4
    for kind in kinds:
        assert len({m.value for m in kind}) == len(kind) and all(isinstance(m.value, str) for m in kind)


def test_rows_without_operands_do_not_look_at_the_batch():
    """Constants and iota stand for all programs: one row."""
    for name, attrs in (("constant", {"value": 1.5, "type": F32}), ("iota", {"start": 0, "end": 5})):
        assert evaluate(name, (), [], **attrs).shape[0] == 1
    assert isinstance(combine(F32), Block)
