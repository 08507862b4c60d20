"""Running a program on the engines, and telling whether they agree."""

from __future__ import annotations

import importlib.util
import itertools
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tests.fuzz.trees import Output, Program
from tilewright.runtime import knobs
from tilewright.testing import engines

# `wide` is `batched-passes` as if a tensor had 2**30 elements
ENGINES = ("batched", "cpu", "batched-passes", "wide", "eager", "checked")
DTYPES = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "u8": np.uint8, "u16": np.uint16,
          "u32": np.uint32, "u64": np.uint64, "fp16": np.float16, "fp32": np.float32, "fp64": np.float64}
# Just beside the middle of two numbers of fp16, bf16, fp32: wrong if they are rounded twice, or to nearest at once.
NEAR_TIES = [s * (1 + 2.0 ** -(p + 1) + d * 2.0**-30) for p in (10, 7, 23) for d in (-1, 0, 1) for s in (1, -3)]
INTEGER_TIES = [(1 << e) + (1 << e - p) + d for e in (30, 40, 62) for p in (24, 11, 8) for d in (0, 1)]
_numbers = itertools.count()


@dataclass
class Verdict:
    """What came of a program: engines that refused it or failed, and outputs in which they differ from the first."""

    errors: dict[str, str] = field(default_factory=dict)
    differences: list[str] = field(default_factory=list)

    @property
    def fails(self) -> bool:
        return bool(self.errors or self.differences)

    def signature(self) -> tuple:
        """What the shrinker keeps: which engines fail, by which class of error, or differ."""
        return (tuple(sorted((e, text.split(":")[0]) for e, text in self.errors.items())),
                tuple(sorted({d.split(" ")[0] for d in self.differences})))

    def __str__(self) -> str:
        return "\n".join([*(f"{e}: {text}" for e, text in self.errors.items()), *self.differences[:6]])


def load(program: Program, folder: Path):
    """The kernel of a program, from a file."""
    path = folder / f"fuzz_{program.seed}_{next(_numbers)}.py"
    path.write_text(program.source())
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.kernel


def values(dtype: str, count: int, rng) -> np.ndarray:
    """Random elements, with those at the ends of the type among them."""
    t = np.dtype(DTYPES[dtype])
    if t.kind == "f":
        special = np.array([*[0.0, -0.0] * 4, 1.0, -1.5, np.inf, -np.inf, np.nan,
                            np.finfo(t).max, np.finfo(t).tiny / 4, 3.25,
                            *NEAR_TIES])
        some = rng.choice(np.concatenate([special, rng.normal(0, 4, 30), rng.normal(0, 1000, 6)]), count)
        with np.errstate(over="ignore"):
            return some.astype(t)
    info = np.iinfo(t)
    wide = rng.integers(info.min, info.max, count, dtype=t, endpoint=True)
    small = rng.integers(0 if t.kind == "u" else -9, 20, count).astype(t)
    ends = rng.choice(np.array([info.min, info.max, 0, 1, *(n for n in INTEGER_TIES if n <= info.max)], t), count)
    return np.where(rng.random(count) < 0.3, ends, np.where(rng.random(count) < 0.6, small, wide))


def arguments(program: Program) -> dict[str, np.ndarray]:
    """Fresh arrays for a launch, the same each time."""
    rng = np.random.default_rng(program.seed)
    arrays = {f"in_{d}": values(d, program.grid * program.per_program, rng) for d in program.inputs}
    for name, dtype, count in program.buffers:
        size = count if name.startswith("count") else count * program.grid
        arrays[name] = (np.arange(size) % 7 * 3 - 5).astype(DTYPES[dtype])
    for out in program.outputs:
        arrays[f"out_{out.name}"] = np.full(program.grid * out.kind.numel, 77, DTYPES[out.storage])
    return arrays


def launch(engine: str, kernel, grid, *args, **kwargs) -> None:
    with knobs.scope(f32_default="ieee"):       # a GPU's own default, tf32, takes no numbers of more bits
        if engine == "wide":
            engines.run_batched(kernel, grid, args, kwargs, with_passes=True, wide=True)
        else:
            engines.launch(engine, kernel, grid, *args, **kwargs)


def check(program: Program, names=ENGINES, folder: Path | None = None) -> Verdict:
    """Run a program on engines and compare all memory with that of the first."""
    verdict = Verdict()
    with tempfile.TemporaryDirectory() as made:
        try:
            kernel = load(program, folder or Path(made))
        except SyntaxError as error:
            return Verdict({"python": f"SyntaxError: {error}"})
        results: dict[str, dict[str, np.ndarray]] = {}
        for engine in names:
            arrays = arguments(program)
            try:
                with np.errstate(all="ignore"):
                    launch(engine, kernel, (program.grid,), *arrays.values(), **dict(program.scalars),
                           **dict(program.constants))
                results[engine] = arrays
            except Exception as error:
                verdict.errors[engine] = f"{type(error).__name__}: {error}"
    if names[0] in results:
        for engine in names[1:]:
            if engine in results:
                compare(program, engine, results[names[0]], results[engine], verdict)
    return verdict


def compare(program: Program, engine: str, want: dict, got: dict, verdict: Verdict) -> None:
    by_name: dict[str, Output] = {f"out_{o.name}": o for o in program.outputs}
    bounds = {o.bound for o in program.outputs if o.bound}
    for name, array in want.items():
        out = by_name.get(name)
        if out is not None and out.name in bounds:
            continue
        bad = np.flatnonzero(~equal(out, array, got[name], want))
        if bad.size:
            i = bad[0]
            verdict.differences.append(f"{engine} differs in {name} at {i} ({bad.size} of {array.size}): "
                                       f"{got[name][i]!r}, batched has {array[i]!r}")


def equal(out: Output | None, a: np.ndarray, b: np.ndarray, want: dict) -> np.ndarray:
    """Where two results agree: bit for bit (any NaN is a NaN), or within what the output allows."""
    same = a.view(f"u{a.itemsize}") == b.view(f"u{b.itemsize}")
    if a.dtype.kind != "f":
        return same
    same |= np.isnan(a) & np.isnan(b)
    if out is None or not (out.bound or out.ulps):
        return same
    with np.errstate(all="ignore"):
        if out.bound:
            allowed = 64 * np.finfo(a.dtype).eps * np.abs(want[f"out_{out.bound}"])
        else:
            allowed = out.ulps * np.spacing(np.abs(a))
            if a.dtype == np.float32:       # a GPU's exp2 gives zero where it would be subnormal
                allowed = np.maximum(allowed, np.finfo(np.float32).tiny)
        return same | (np.abs(a - b) <= allowed)
