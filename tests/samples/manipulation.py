"""Samples of reshaping, permuting, adding, removing axes, joining and splitting."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from interp import OpDef
from ops.joining import Concat, Split
from ops.manipulation import AddAxis, Dimshuffle, RemoveAxis, Reshape


def samples() -> Iterator[tuple[OpDef, tuple[Any, ...]]]:
    x = np.linspace(-1, 1, 24).reshape(2, 3, 4)
    for shape in [(4, 6), (-1, 2), (24,), (2, 3, 4), (2, 1, 12)]:
        yield Reshape(), (x, shape)
    yield Reshape(), (np.array(2.0), (1, 1))
    yield Reshape(), (np.array([2.0]), ())
    yield Reshape(), (np.ones((2, 0)), (0, 5))
    yield Reshape(), (np.arange(4), (2, 2))
    for pattern in [(2, 0, 1), (0, 1, 2), (1, 0, 2)]:
        yield Dimshuffle(pattern), (x,)
    yield Dimshuffle(()), (np.array(2.0),)
    for axis in [(0,), (1, 3), (3, 4)]:
        yield AddAxis(axis), (x,)
    yield AddAxis((0, 1)), (np.array(2.0),)
    y = x.reshape(2, 1, 12, 1)
    for axis in [(1,), (3,), (1, 3)]:
        yield RemoveAxis(axis), (y,)
    yield RemoveAxis((0,)), (np.array([2.0]),)
    for axis in (0, 1, 2):
        yield Concat(axis), (x, x + 1.0, x[:, :, :].copy())
        yield Split(axis, 1), (x,)
    yield Concat(1), (x, x[:, :1], np.ones((2, 0, 4)))
    yield Concat(0), (np.array([1.0]),)
    yield Concat(0), (np.array([1, 2]), np.array([1.5]))
    yield Split(2, 2), (x,)
    yield Split(1, (1, 1)), (x,)
    yield Split(0, (5,)), (x,)
    yield Split(2), (x, (2, 3, 1), (2, 3, 3))
    yield Split(0, 2), (np.array([True, False]),)
