"""Samples of mirroring, rotating, diagonals, triangles and padding."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from interp import OpDef
from ops.padding import MODES, Padding, Unpad
from ops.rearranging import Diagonal, Flip, FromDiagonal, Roll, Triangle


def samples() -> Iterator[tuple[OpDef, tuple[Any, ...]]]:
    x = np.linspace(-1, 1, 24).reshape(2, 3, 4)
    yield Flip((0, 2)), (x,)
    yield Flip(()), (np.array(2.0),)
    yield Roll((1, -3), (0, 2)), (x,)
    yield Roll((2,), (0,)), (np.ones(0),)
    for k in (-1, 0, 2):
        yield Triangle(True, k), (x,)
        yield Triangle(False, k), (x,)
        yield Diagonal(k), (x,)
    yield Diagonal(-7), (x,)
    yield FromDiagonal(0), (x, (2, 3, 4, 5))
    yield FromDiagonal(-1), (np.array([1.0, 2.0]), (3, 2))
    yield FromDiagonal(1), (np.array([1, 2]), (3, 3))
    for mode in MODES:
        for widths in [((0, 0), (1, 0), (2, 3)), ((1, 1), (2, 2), (0, 0)), ((3, 0), (0, 5), (1, 9))]:
            yield Padding(widths, mode, 0.5), (x,)
            grown = np.linspace(-1, 1, 6 * 8 * 14).reshape(6, 8, 14)
            yield Unpad(widths, mode), (grown,)
        yield Padding((), mode), (np.array(2.0),)
        yield Padding(((2, 1),), mode), (np.array([2.0]),)
        yield Padding(((1, 1),), mode, 1), (np.array([2, 3, 4]),)
    yield Padding(((1, 1), (0, 0)), "constant"), (np.ones((0, 3)),)
