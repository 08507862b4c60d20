"""The tables of a kernel's native launcher: filled when a launch has gone the slow way, read by native code.

`kernel[grid](...)` is native code from a kernel's second launch on (`targets.cpu.host.launcher_code` says what it
does).  It calls back here for what its tables do not know.  The second launch teaches it how the arguments are passed,
the third the specialisation; from the fourth on Python sees nothing of a launch.
Before: a kernel whose second launch has ended well on a host with native launchers.  What the tables name stays alive
as long as they do, and nothing in them refers to the kernel itself.
Tests: tests/runtime/test_native_launch.py.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, NoReturn

from tilewright.diagnostics import cut_own_frames
from tilewright.frontend.dependencies import Dependencies
from tilewright.imported import imported
from tilewright.language.function import Param, ParamKind
from tilewright.runtime import dlpack
from tilewright.runtime.arguments import ANYWHERE, CPU, ELEMENTS, Readers
from tilewright.runtime.driver import driver
from tilewright.runtime.grid_reads import names_read
from tilewright.runtime.launch import CUDA
from tilewright.runtime.specialize import Rule
from tilewright.targets.cpu.host.records import WORD, Bound, GridReads, Launcher, Shape, Spec, Tag, Types, element_word
from tilewright.targets.cpu.host.records import Rule as RuleBits

if TYPE_CHECKING:
    from tilewright.runtime.launch import CompiledKernel, Facts

# Specialisations that native code looks through; the one learnt longest ago goes first.
MOST_SPECS = 16
# Ways to call; programs have few.
MOST_SHAPES = 32
# Codes of grid functions; programs have few at a kernel.  None is ever forgotten, since a call may be in one.
MOST_GRIDS = 16

# What a subclass of torch's Tensor that is read as it is has from there.
_TELLING = ("data_ptr", "dtype", "shape", "stride", "device", "numel", "is_contiguous", "is_neg", "__torch_dispatch__",
            "__getattribute__")
_READERS = Readers()
_SIZES = dict(ELEMENTS.values())
# Words that stand for types of elements where DLPack's do not: no type code of DLPack is so high.
_ELEMENT_WORDS = {name: element_word(200 + k, 8 * size) for k, (name, size) in enumerate(sorted(_SIZES.items()))}

Words = ctypes.Array[ctypes.c_int64]


def words(values: Sequence[int]) -> Words:
    """Values as 64-bit words in memory."""
    return (ctypes.c_int64 * max(1, len(values)))(*values)


class Learned:
    """A specialisation in the table, and what it keeps alive."""

    def __init__(self, record: Words, entry: Any, keeps: Sequence[Any]) -> None:
        self.record = record
        self.entry = entry
        self.keeps = list(keeps)


class NativeLauncher:
    """The tables of one kernel; `bind(kernel, grid)` makes what is called."""

    def __init__(self, launchers: Any, params: Sequence[Param], rules: Sequence[Rule], slow: Callable[..., Any],
                 overrides: ContextVar[Mapping[str, Any]], nothing: Mapping[str, Any],
                 keeps_kernels: bool = True) -> None:
        """Without `keeps_kernels` the one kernel that is learnt owns this, and lives as long."""
        self._launchers = launchers
        self._keeps_kernels = keeps_kernels
        self._params = params
        self._rules = words([_bits(rule) for rule in rules])
        self._constants = [rule.is_constexpr for rule in rules]
        self._names = tuple(sys.intern(p.name) for p in params)
        self._shapes: dict[tuple[int, tuple[str, ...]], tuple[Words, Any]] = {}
        self._options: dict[tuple[str, ...], int] = {}
        self._specs: dict[bytes, Learned] = {}
        self._grids: dict[int, tuple[Words, CodeType]] = {}
        self._classes: set[type] = set()        # of values whose kind has been looked for
        self._keeps = (slow, _fail, overrides, nothing)
        self._nothing = nothing
        self._name_words = words([id(name) for name in self._names])
        self._meta_values = words([0] * len(params))
        self._state = words([0] * (Launcher.SIZE // WORD))
        for offset, value in (
                (Launcher.SLOW, id(slow)), (Launcher.FAIL, id(_fail)), (Launcher.VARIABLE, id(overrides)),
                (Launcher.NOTHING, id(nothing)), (Launcher.NAMES, ctypes.addressof(self._name_words)),
                (Launcher.PARAMS, len(params)),
                (Launcher.RULES, ctypes.addressof(self._rules)), (Launcher.TYPES, launchers.types),
                (Launcher.META_VALUES, ctypes.addressof(self._meta_values)), (Launcher.ASKS, 1),
                (Launcher.BOUND_TYPE, id(launchers.bound_type))):
            self._state[offset // WORD] = value
        self.bind = launchers.bind(ctypes.addressof(self._state))

    def __del__(self) -> None:
        # Of the words in memory too: another finaliser of the same garbage may launch the kernel after this one.
        spare = self._taken(self._state, Launcher.FREE)     # a bound launcher's memory, kept for the next
        if spare:
            grid = ctypes.c_void_p.from_address(spare + Bound.GRID).value
            ctypes.pythonapi.PyObject_GC_Del(ctypes.c_void_p(spare))
            ctypes.pythonapi.Py_DecRef(ctypes.py_object(self._launchers.bound_type))
            if grid:
                ctypes.pythonapi.Py_DecRef(ctypes.c_void_p(grid))
        for record, word in ((self._state, Launcher.META), *((r, GridReads.META) for r, _ in self._grids.values())):
            meta = self._taken(record, word)
            if meta:
                ctypes.pythonapi.Py_DecRef(ctypes.c_void_p(meta))

    @staticmethod
    def _taken(record: Words, word: int) -> int:
        """The reference that stands in a word, which has it no longer."""
        reference, record[word // WORD] = record[word // WORD], 0
        return reference

    def pause(self, paused: bool) -> None:
        """Leave every launch to Python, or end that: native code launches only where no knob is overridden."""
        self._state[Launcher.NOTHING // WORD] = 0 if paused else id(self._nothing)

    def prepare(self, compiled: CompiledKernel) -> None:
        """Let Python's launches of a kernel be done by native code, too, if its target has any for them."""
        compiled.make_launchable(self._launchers)

    def learn_kinds(self, values: Sequence[Any]) -> None:
        """Know how to read the tensors among these arguments, in whatever kernel."""
        self._launchers.learn_torch(values)
        self._launchers.ask(told)
        for value in values:
            if type(value) in self._classes:
                continue
            self._classes.add(type(value))
            if _READERS.told(value) is not None:
                self._launchers.learn_class(type(value), Types.TOLD)
            elif is_like_tensors(type(value)):
                self._launchers.learn_class(type(value), Types.LIKE_TENSORS)

    def learn_shape(self, positional: int, names: tuple[str, ...]) -> None:
        """Know launches with so many arguments by position and these by name, in this order."""
        if (positional, names) in self._shapes or len(self._shapes) >= MOST_SHAPES:
            return
        own = self._names
        options = tuple(name for name in names if name not in own)
        if len(own) + len(options) > Launcher.MOST_VALUES:
            return
        number = self._options.setdefault(options, len(self._options))
        sources = [self._source(p, positional, names) for p in self._params]
        sources += [positional + names.index(name) for name in options]
        record = words([self._state[Launcher.SHAPES // WORD], id(names) if names else 0, positional, len(names),
                        number, len(sources), *sources])
        self._shapes[positional, names] = (record, names)
        self._state[Launcher.SHAPES // WORD] = ctypes.addressof(record)

    def learn_grid(self, grid: Any) -> None:
        """Know what this grid reads of the arguments, if it is a function."""
        if type(grid) is not FunctionType or id(grid.__code__) in self._grids or len(self._grids) >= MOST_GRIDS:
            return
        code = grid.__code__
        read = names_read(code)
        items = None
        if read is not None and all(name in self._names for name in read):      # else it has to get its KeyError
            items = [word for name in read for word in (self._names.index(name), 0)]
        count = -1 if items is None else len(items) // 2
        record = words([self._state[Launcher.GRIDS // WORD], id(code), 0, 0, count, *(items or ())])
        self._grids[id(code)] = (record, code)
        self._state[Launcher.GRIDS // WORD] = ctypes.addressof(record)
        self._state[Launcher.ASKS // WORD] = len(self._grids) < MOST_GRIDS

    def _source(self, param: Param, positional: int, names: tuple[str, ...]) -> int:
        if param.index < positional:
            return param.index
        return positional + names.index(param.name) if param.name in names else id(param.default)

    def learn(self, key: int, positional: int, names: tuple[str, ...], constants: Sequence[Any], entry: Any,
              atoms: Sequence[Any], facts: Facts, compiled: CompiledKernel) -> bool:
        """Know that launches whose key words are those at address `key` run `compiled` under these facts; false if
        another key of launches like that is known for the same entry and facts.

        `constants` are the values that the key words may name by identity.
        """
        shape = self._shapes[positional, names][0]
        count = shape[Shape.VALUES // WORD]
        content = [shape[Shape.OPTIONS // WORD], *(ctypes.c_int64 * (2 * count)).from_address(key)]
        index = words(content)
        learned = self._specs.get(bytes(index))
        pair = Spec.KERNELS // WORD + 2 * (facts.disjoint + 2 * facts.wide)
        is_new = not any(known.entry is entry and known.record[Spec.OPTIONS // WORD] == content[0]
                         and known.record[pair] for known in self._specs.values() if known is not learned)
        if learned is None or learned.entry is not entry:
            learned = self._new_spec(content, entry, atoms, constants)
            gone = [self._specs.pop(bytes(index), None)]
            self._specs[bytes(index)] = learned
            while len(self._specs) > MOST_SPECS:
                gone.append(self._specs.pop(next(iter(self._specs))))
            self._link()
            del gone        # not before: other threads launch meanwhile, and what is chained has to be there
        if self._keeps_kernels:
            learned.keeps.append(compiled)
        compiled.make_launchable(self._launchers)
        learned.record[pair + 1] = id(compiled)
        learned.record[pair] = compiled.record
        return is_new

    def _new_spec(self, content: Sequence[int], entry: Any, atoms: Sequence[Any], constants: Sequence[Any]) -> Learned:
        guards = _guards(entry.guards)
        head = [0] * (Spec.KEY // WORD)
        head[Spec.OPTIONS // WORD] = content[0]
        head[Spec.GUARDS // WORD] = ctypes.addressof(guards)
        head[Spec.ANYTHING // WORD] = int(entry.written.anything)
        head[Spec.WRITTEN // WORD] = _written(atoms, entry.written.params, content[1::2])
        return Learned(words([*head, *content[1:]]), entry, [guards, *constants])

    def _link(self) -> None:
        """Chain the specialisations, the latest first."""
        following = 0
        for learned in self._specs.values():
            learned.record[Spec.NEXT // WORD] = following
            following = ctypes.addressof(learned.record)
        self._state[Launcher.SPECS // WORD] = following


def told(thing: Any) -> tuple[int, ...] | None:
    """What native code gets to know of an object with `data_ptr()` and `dtype` (`launcher_values.TOLD_WORDS`).

    None if the launch has to go the slow way, which makes the error; what a signal's handler raises comes through.
    """
    try:
        reader = _READERS.told(thing)
        if reader is None:
            return None
        element, address, low, high, _, device, _ = reader(thing)
        name = driver.device_name() if device == ANYWHERE else device
        return _ELEMENT_WORDS[element], _SIZES[element], _device_word(name), address, low, high
    except RecursionError:      # asked again at each level, it would double the work of each
        raise
    except (TypeError, ValueError, AttributeError, OverflowError, RuntimeError):
        return None


def _device_word(name: str) -> int:
    """A device as key words have it; ValueError for one whose number is not in its name."""
    kind, _, number = name.partition(":")
    if kind == CPU:
        return 0
    if kind != CUDA:
        raise ValueError(name)
    return int(number) << 32 | dlpack.CUDA


def is_like_tensors(kind: Any) -> bool:
    """Whether objects of this subclass of torch's Tensor are read as it is: no code of the class tells of its data."""
    torch = imported("torch")
    if torch is None or not issubclass(kind, torch.Tensor):
        return False
    functions = {getattr(known.__torch_function__, "__func__", known.__torch_function__)
                 for known in (torch.Tensor, torch.nn.Parameter)}
    return (getattr(kind.__torch_function__, "__func__", kind.__torch_function__) in functions
            and all(getattr(kind, name) is getattr(torch.Tensor, name) for name in _TELLING))


def is_possible(params: Sequence[Param]) -> bool:
    """Whether native code can bind these parameters."""
    return len(params) <= Launcher.MOST_VALUES and all(p.kind is not ParamKind.VARIADIC for p in params)


def _bits(rule: Rule) -> int:
    return (RuleBits.CONSTEXPR * rule.is_constexpr | RuleBits.BY_VALUE * rule.by_value
            | RuleBits.BY_ALIGNMENT * rule.by_alignment | _fixed_bits(rule.fixed))


def _fixed_bits(fixed: str) -> int:
    """What an annotation's type text says of the arguments; a float16's bits are made by Python."""
    if fixed.startswith("*"):
        return RuleBits.POINTER
    floats = {"": 0, "fp32": RuleBits.FLOAT32, "fp64": RuleBits.FLOAT64}
    if fixed in floats:
        return floats[fixed]
    if fixed[0] in "iu":
        signed = fixed[0] == "i" and fixed != "i1"
        return RuleBits.INTEGER | RuleBits.SIGNED * signed | int(fixed[1:]) << RuleBits.WIDTH
    return RuleBits.SLOW


def _guards(guards: Dependencies) -> Words:
    """What has to be bound to the same objects still; the entry keeps them alive."""
    names, cells = guards.bound_names(), guards.bound_cells()
    flat = [len(names)]
    for namespace, name, value in names:
        flat += [id(namespace), id(name), id(value)]
    flat.append(len(cells))
    for cell, content in cells:
        flat += [id(cell), content]
    return words(flat)


def _written(atoms: Sequence[Any], written: frozenset[int], tags: Sequence[int]) -> int:
    """A bit for each tensor, in order: 1 if its slot is written.  `tags` are the first key words of the values."""
    flags, slot, tensors = 0, 0, 0
    for atom, tag in zip(atoms, tags, strict=False):        # options stand behind the parameters
        is_tensor = bool(tag & Tag.TENSOR)
        if isinstance(atom, str):
            flags |= int(is_tensor and slot in written) << tensors
            slot += 1
        tensors += is_tensor
    return ctypes.c_int64(flags).value


def _fail(compiled: CompiledKernel, frame: int, x: int, y: int, z: int) -> NoReturn:
    """Called by native code when a launch has failed."""
    try:
        raise compiled.failure((x, y, z), frame)
    except BaseException as error:
        cut_own_frames(error)
        raise
