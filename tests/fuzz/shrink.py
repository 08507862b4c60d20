"""Making a failing program smaller while it fails in the same way.

Statements go, bodies take the place of their statement, expressions become one of their parts or a constant, outputs
and functions go; what is tried first removes most.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.fuzz.trees import Expr, Program, Stmt, spelled


def smaller_expressions(e: Expr) -> Iterator[Expr]:
    """Expressions of the same kind that could stand for `e`."""
    if e != simplest(e):
        yield simplest(e)
    for part in e.parts:
        if part.kind == e.kind:
            yield part
    for i, part in enumerate(e.parts):
        for less in smaller_expressions(part):
            yield replace(e, parts=(*e.parts[:i], less, *e.parts[i + 1:]))


def simplest(e: Expr) -> Expr:
    if e.kind.dtype == "i1":
        return Expr(e.kind, f"(tl.full({e.kind.shape}, 1, tl.int32) != 0)")
    return Expr(e.kind, f"tl.full({e.kind.shape}, 1, {spelled(e.kind.dtype)})")


def smaller_bodies(body: tuple[Stmt, ...]) -> Iterator[tuple[Stmt, ...]]:
    """Lists of statements with something less: many statements, one, or something of one."""
    for count in (8, 4, 2):
        for i in range(len(body) - count, -1, -count):
            if not any(s.fixed for s in body[i:i + count]):
                yield body[:i] + body[i + count:]
    for i in range(len(body) - 1, -1, -1):
        stmt = body[i]
        if not stmt.fixed:
            yield body[:i] + body[i + 1:]
        for inner in stmt.bodies:
            yield body[:i] + inner + body[i + 1:]
        bare = tuple(simplest(p) for p in stmt.parts)
        if bare != stmt.parts:
            yield (*body[:i], replace(stmt, parts=bare), *body[i + 1:])
    for i in range(len(body) - 1, -1, -1):
        for less in smaller_statements(body[i]):
            yield (*body[:i], less, *body[i + 1:])


def smaller_statements(stmt: Stmt) -> Iterator[Stmt]:
    for i, inner in enumerate(stmt.bodies):
        for less in smaller_bodies(inner):
            yield replace(stmt, bodies=(*stmt.bodies[:i], less, *stmt.bodies[i + 1:]))
    for i, part in enumerate(stmt.parts):
        for less in smaller_expressions(part):
            yield replace(stmt, parts=(*stmt.parts[:i], less, *stmt.parts[i + 1:]))


def smaller_programs(p: Program) -> Iterator[Program]:
    for i in range(len(p.outputs)):
        out = p.outputs[i]
        if not any(o.bound == out.name for o in p.outputs):
            gone = {out.name, out.bound}
            yield replace(p, outputs=tuple(o for o in p.outputs if o.name not in gone))
    if p.grid > 1:
        yield replace(p, grid=1)
    for body in smaller_bodies(p.body):
        yield p.with_body(body)
    for i in range(len(p.functions)):
        yield replace(p, functions=p.functions[:i] + p.functions[i + 1:])


def shrink(program: Program, still_fails: Callable[[Program], bool], seconds: float = 60.0) -> Program:
    """The smallest program found in the time that still fails.

    After a success the search goes on where it was, since what was tried before mostly fails as before; a round
    without a success ends it.
    """
    end = time.monotonic() + seconds
    start = 0
    while time.monotonic() < end:
        for position, less in enumerate(smaller_programs(program)):
            if time.monotonic() > end:
                return tidy(program, still_fails)
            if position >= start and still_fails(less):
                program, start = less, max(0, position - 1)
                break
        else:
            if start == 0:
                break
            start = 0
    return tidy(program, still_fails)


def tidy(program: Program, still_fails: Callable[[Program], bool]) -> Program:
    """Without the arguments that nothing uses."""
    text = program.source()
    bare = replace(program, inputs=tuple(d for d in program.inputs if text.count(f"in_{d}") > 1),
                   buffers=tuple(b for b in program.buffers if text.count(b[0]) > 1),
                   sizes=tuple(n for n in program.sizes if text.count(f"r{n}") > 1))
    return bare if still_fails(bare) else program
