"""What tuning has found, on disk: the times of each config for a key, in the cache of compiled kernels.

A record is known by everything that the times depend on and that can be told in a text: the kernel's source and what it
reads, compiler, target, cores, knobs, options of the launch, the tuner's key and its configs.  What cannot be told (an
object of an unknown class that the kernel reads; a config with a `pre_hook`) makes a tuning one of this process only.
Semantics of triton 3.6's `TRITON_CACHE_AUTOTUNING`.  Tests: tests/runtime/test_tunings.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.frontend.dependencies import dependencies
from tilewright.language.options import Options, Signature
from tilewright.runtime import knobs
from tilewright.runtime.cache import Store
from tilewright.runtime.config import Config
from tilewright.runtime.devices import DEVICES
from tilewright.runtime.driver import usable_cores
from tilewright.runtime.key import Describer, Part, UncacheableError, kernel_parts, key_text

_FIELD = "times"

Times = dict[Config, list[float]]


class Tuning:
    """The record of one tuning: `read` and `write` its times, in milliseconds."""

    def __init__(self, kernel: str, store: Store, key: str, configs: Sequence[Config]) -> None:
        self._kernel, self._store, self._key, self._configs = kernel, store, key, list(configs)

    def read(self) -> Times | None:
        """The times of all configs, if they are there."""
        fields = self._store.get(self._kernel, self._key)
        if fields is None or _FIELD not in fields:
            return None
        try:
            rows = [[float.fromhex(word) for word in line.split()] for line in fields[_FIELD].decode().splitlines()]
        except ValueError:
            return None
        return dict(zip(self._configs, rows, strict=True)) if len(rows) == len(self._configs) and all(rows) else None

    def write(self, times: Mapping[Config, Sequence[float]]) -> None:
        """Keep the times of all configs."""
        lines = (" ".join(float(t).hex() for t in times[config]) for config in self._configs)
        self._store.put(self._kernel, self._key, {_FIELD: "\n".join(lines).encode()})


def tuning_of(fn: Any, device: str, options: Mapping[str, Any], key: Sequence[Any],
              configs: Sequence[Config]) -> Tuning | None:
    """The record of tuning the @jit function `fn`, or None if there can be none.

    `options` are those of the launch, `key` is the tuner's.
    """
    if any(config.pre_hook is not None for config in configs):
        return None
    settings = fn.settings()
    store = DEVICES.store(settings)
    target = DEVICES.target(device, settings)
    guards = dependencies(fn, [None] * len(fn.params))
    describe = Describer(guards.functions, guards.python)
    affecting = {name: settings[name] for name, knob in knobs.TABLE.items() if knob.affects_code}
    try:
        parts = [Part("tuning", describe.value("the key", tuple(key))), *kernel_parts(guards, Signature({}), Options()),
                 *(Part(f"option {name}", describe.value(name, value)) for name, value in sorted(options.items())),
                 *(Part("config", describe.value("a config", config.all_kwargs())) for config in configs),
                 Part("knobs", repr(affecting)), Part("cores", f"{usable_cores()} {settings['num_threads']}"),
                 Part("compiler", DEVICES.compiler_key(settings, target.name)), Part("target", target.key())]
    except UncacheableError:
        return None
    return Tuning(fn.__name__, store, key_text(parts), configs)
