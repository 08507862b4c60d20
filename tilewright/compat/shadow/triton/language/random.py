"""`triton.language.random`."""

from tilewright.language.random import (
    N_ROUNDS_DEFAULT,
    pair_uniform_to_normal,
    philox,
    philox_impl,
    rand,
    rand4x,
    randint,
    randint4x,
    randn,
    randn4x,
    uint_to_uniform_float,
)
