"""Samples of searching and sorting."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from interp import OpDef
from ops.searching import ArgReduce, Argsort, Nonzero, SearchSorted, Sort, TopK


def samples() -> Iterator[tuple[OpDef, tuple[Any, ...]]]:
    x = np.array([0.5, -1.0, 2.0, 0.25, 3.0, -0.75, 1.5, -2.0, 0.1, 0.7, -0.3, 1.1]).reshape(2, 3, 2)
    for axis in (0, 1, 2):
        for mode in ("MAX", "MIN"):
            yield ArgReduce(mode, axis), (x,)
            yield ArgReduce(mode, axis, True), (x,)
        for flag in (False, True):
            yield Sort(axis, flag), (x,)
            yield Argsort(axis, flag), (x,)
            yield TopK(2, axis, flag), (x,)
    for flag in (False, True):
        yield Sort(0, flag), (np.array([3, 1, 2, 1]),)
        yield Argsort(0, flag), (np.array([True, False, True]),)
        yield Sort(0, flag), (np.ones((0, 2)),)
        yield TopK(0, 0, flag), (np.array([2.0]),)
    yield Nonzero(), (np.array([[True, False], [True, True]]),)
    for side in ("left", "right"):
        yield SearchSorted(side), (np.array([0.0, 1.0, 1.0]), np.array([[1.0, 2.0]]))
        yield SearchSorted(side), (np.array([1, 2]), np.array(2.5))
