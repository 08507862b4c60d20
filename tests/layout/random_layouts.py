"""Random distributed layouts: replicated, mixed, in any order of bits."""

from __future__ import annotations

import random

from tilewright.layout.linear import Layout, padded_shape


def random_shape(rng: random.Random, bits: int) -> tuple[int, ...]:
    """A shape of 2**bits elements and up to four dims."""
    sides = [0] * rng.randint(1, 4)
    for _ in range(bits):
        sides[rng.randrange(len(sides))] += 1
    return tuple(1 << s for s in sides)


def random_layout(rng: random.Random, shape: tuple[int, ...], warp_bits: int, mixed: bool) -> Layout:
    """Every tile bit has a place; there are replicas in registers, lanes and warps, and with `mixed` some bases are
    sums of tile bits."""
    bits = Layout(padded_shape(shape), ()).bits
    need = max(bits, 5 + warp_bits + rng.randint(0, 2)) + rng.randint(0, 2)
    images = [1 << i for i in range(bits)] + [0] * (need - bits)
    rng.shuffle(images)
    for _ in range(3 if mixed else 0):
        i, j = rng.randrange(need), rng.randrange(need)
        if i != j:
            images[i] ^= images[j]
    return Layout.of(shape, register=images[5 + warp_bits:], lane=images[:5], warp=images[5:5 + warp_bits])
