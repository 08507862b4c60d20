"""Host arrays as the machine's global memory, parameters and module variables.

Host bytes are copied in, so that bounds are exact and nothing of the host's can be hurt, and copied back after the
launch.  Addresses keep the host's alignment up to 256 bytes, so facts that a launcher derives from pointers hold.
Tests: tests/targets/nvidia/ptx/test_launch.py.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.targets.nvidia.ptx.binding import DTYPE
from tilewright.targets.nvidia.ptx.declarations import TYPE_BYTES
from tilewright.targets.nvidia.ptx.memory import GlobalMemory
from tilewright.targets.nvidia.ptx.operands import Immediate, Operand, Symbol, Variable
from tilewright.targets.nvidia.ptx.program import Parameter, Program
from tilewright.targets.nvidia.ptx.regions import Region
from tilewright.targets.nvidia.ptx.tensor_maps import TensorMap

Array = np.ndarray[Any, Any]
_ALIGN = 256


@dataclass(frozen=True, eq=False)
class Pointer:
    """A pointer `offset` bytes behind (or before) the first element of `array`."""

    array: Array
    offset: int = 0


@dataclass(frozen=True, eq=False)
class Uninitialised:
    """An array that the kernel must write before it reads; its bytes are made NaN."""

    array: Array


@dataclass(eq=False)
class _Host:
    """Host bytes that arrays share, and their region."""

    low: int
    high: int
    names: list[str]
    writable: bool = True
    region: Region | None = None


class Buffers:
    """Global memory filled from host arrays."""

    def __init__(self, memory: GlobalMemory) -> None:
        self.memory = memory
        self.hosts: list[_Host] = []

    # ---- arrays
    def place_parameters(self, program: Program, args: Sequence[object], addresses: dict[str, int]) -> Array:
        """Regions for all arrays and the kernel's parameter space, whose bytes are returned."""
        parameters = list(program.parameters.values())
        if len(args) != len(parameters):
            raise ValueError(f"{program.function.name} has {len(parameters)} parameters, got {len(args)} arguments")
        arrays = [(a.array if isinstance(a, Pointer | Uninitialised | TensorMap) else a, p.variable.name)
                  for a, p in zip(args, parameters)]
        self._merge([(a, name) for a, name in arrays if isinstance(a, np.ndarray)])
        raw = np.zeros(-(-max(program.parameter_bytes, 1) // _ALIGN) * _ALIGN, np.uint8)
        region = self.memory.add("the kernel's parameters", raw, 0, max(program.parameter_bytes, 1), writable=False)
        for argument, parameter in zip(args, parameters):
            addresses[parameter.variable.name] = region.base + parameter.offset
            value = self._bytes_of(argument, parameter)
            raw[parameter.offset:parameter.offset + len(value)] = np.frombuffer(value, np.uint8)
        return raw

    def _merge(self, arrays: list[tuple[Array, str]]) -> None:
        """One region for arrays whose bytes overlap."""
        spans: list[_Host] = []
        for array, name in arrays:
            low, high = byte_bounds(array)
            spans.append(_Host(low, high, [name], array.flags.writeable))
        for host in sorted(spans, key=lambda h: (h.low, h.high)):
            last = self.hosts[-1] if self.hosts else None
            if (last is not None and host.low < last.high) or (last is not None and (host.low, host.high) == (last.low,
                                                                                                          last.high)):
                last.high = max(last.high, host.high)
                last.names += host.names
                last.writable = last.writable or host.writable
            else:
                self.hosts.append(host)
        for host in self.hosts:
            self._copy_in(host)

    def _copy_in(self, host: _Host) -> None:
        size, front = host.high - host.low, host.low % _ALIGN
        data = np.zeros(-(-(front + max(size, 1)) // _ALIGN) * _ALIGN, np.uint8)
        if size:
            data[front:front + size] = _host_bytes(host.low, size)
        names = " and ".join(dict.fromkeys(host.names))
        host.region = self.memory.add(f"the array of {names}", data, front, front + size, host.writable)

    def address_of(self, array: Array) -> int:
        """The machine's address of an array's first element."""
        at = array.ctypes.data
        for host in self.hosts:
            if host.low <= at < host.high or at == host.low:
                assert host.region is not None
                return host.region.low + at - host.low
        raise ValueError("an array that is no argument of the launch")

    def _bytes_of(self, argument: object, parameter: Parameter) -> bytes:
        variable = parameter.variable
        if isinstance(argument, np.ndarray):
            return self.address_of(argument).to_bytes(8, "little")
        if isinstance(argument, Pointer):
            return (self.address_of(argument.array) + argument.offset).to_bytes(8, "little")
        if isinstance(argument, Uninitialised):
            self._poison(argument.array)
            return self.address_of(argument.array).to_bytes(8, "little")
        if argument is None:
            return bytes(variable.size)
        if isinstance(argument, bytes | bytearray | memoryview):
            return _sized(bytes(argument), variable)
        if isinstance(argument, TensorMap):
            return _sized(argument.packed(self.address_of(argument.array)), variable)
        if isinstance(argument, np.generic):
            return _number(argument, variable)
        if isinstance(argument, bool | int | float):
            return _number(argument, variable)
        raise TypeError(f"argument for {variable.name}: {type(argument).__name__} is no array, number or bytes")

    def _poison(self, array: Array) -> None:
        for host in self.hosts:
            region = host.region
            if region is not None and host.low <= array.ctypes.data < host.high:
                if region.unwritten is None:
                    region.unwritten = np.zeros(len(region.data), bool)
                first = self.address_of(array) - region.base
                offsets = np.zeros((), np.int64)
                for size, stride in zip(array.shape, array.strides):
                    offsets = offsets[..., None] + np.arange(size) * stride
                touched = (first + offsets[..., None] + np.arange(array.itemsize)).reshape(-1)
                region.unwritten[touched] = True
                region.data[touched] = 0xFF
                region.changed = True

    def copy_back(self) -> None:
        """What the kernel wrote, to the host."""
        for host in self.hosts:
            region, size = host.region, host.high - host.low
            if region is not None and region.changed and size:
                front = host.low % _ALIGN
                _host_bytes(host.low, size)[:] = region.data[front:front + size]

    # ---- variables of the module
    def place_variables(self, program: Program, addresses: dict[str, int]) -> None:
        """.global and .const variables, with their initial values."""
        variables = [v for v in (*program.module.variables.values(), *program.function.variables.values())
                     if v.space in ("global", "const")]
        regions = {}
        for variable in variables:
            data = np.zeros(-(-max(variable.size, 1) // _ALIGN) * _ALIGN, np.uint8)
            region = self.memory.add(f"variable {variable.name}", data, 0, variable.size, variable.space == "global")
            addresses[variable.name] = region.base
            regions[variable.name] = data
        for variable in variables:
            item = TYPE_BYTES[variable.type]
            for i, value in enumerate(variable.initial):
                raw = _initial(value, variable.type, addresses)
                regions[variable.name][i * item:(i + 1) * item] = np.frombuffer(raw, np.uint8)


def _host_bytes(address: int, size: int) -> Array:
    """Bytes of an array that the caller holds."""
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))


def _initial(value: Operand, type: str, addresses: dict[str, int]) -> bytes:
    size = TYPE_BYTES[type]
    if isinstance(value, Symbol):
        return (addresses[value.name] + value.offset).to_bytes(size, "little")
    assert isinstance(value, Immediate)
    if value.kind == "int":
        return (value.value & ((1 << 8 * size) - 1)).to_bytes(size, "little")
    bits = np.array(value.value, np.uint32 if value.kind == "f32" else np.uint64)
    return bits.view(np.float32 if value.kind == "f32" else np.float64).astype(DTYPE[type]).tobytes()


def _sized(raw: bytes, variable: Variable) -> bytes:
    if len(raw) != variable.size:
        raise ValueError(f"parameter {variable.name} has {variable.size} bytes, got {len(raw)}")
    return raw


def _number(value: Any, variable: Variable) -> bytes:
    """A number as the parameter stores it.  The type of a parameter is often just bits, so a Python float goes by
    width.
    """
    if isinstance(value, np.generic) and value.dtype.itemsize == variable.size:
        return value.tobytes()
    if isinstance(value, float | np.floating):
        return np.array(value, f"f{variable.size}").tobytes()
    return (int(value) & ((1 << 8 * variable.size) - 1)).to_bytes(variable.size, "little")


def byte_bounds(array: Array) -> tuple[int, int]:
    """The addresses of an array's first byte and behind its last; the same one if it has none."""
    if array.size == 0:
        return array.ctypes.data, array.ctypes.data
    find = np.lib.array_utils.byte_bounds if hasattr(np.lib, "array_utils") else np.byte_bounds  # type: ignore[attr-defined]
    low, high = find(array)
    return int(low), int(high)
