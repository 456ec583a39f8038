"""Samples of Fourier transforms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from interp import OpDef
from ops.fft.operators import NORMS, Fourier, FromHalfSpectrum, HalfSpectrum


def samples() -> Iterator[tuple[OpDef, tuple[Any, ...]]]:
    rng = np.random.default_rng(0)

    def x(*shape: int) -> Any:
        return rng.uniform(-1, 1, shape)

    for norm in NORMS:
        for inverse in (False, True):
            yield Fourier((0,), inverse, norm), (x(3),)
            yield Fourier((2, 0), inverse, norm), (x(2, 3, 4),)
        for n in (1, 4, 5):
            yield HalfSpectrum((1,), norm), (x(2, n, 2),)
            yield HalfSpectrum((0, 1), norm), (x(3, n),)
            yield FromHalfSpectrum((1,), n, norm), (x(2, n // 2 + 1, 2),)
            yield FromHalfSpectrum((1, 0), n, norm), (x(n // 2 + 1, 3),)
    yield Fourier(()), (x(2, 2),)
    yield Fourier((1,)), (x(0, 3),)
    yield HalfSpectrum((1,)), (x(0, 3),)
    yield FromHalfSpectrum((1,), 4), (x(0, 3),)
