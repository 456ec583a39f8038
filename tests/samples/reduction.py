"""Samples of reductions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from interp import OpDef
from ops.cumulative import Cumprod, Cumsum
from ops.elemwise import Elemwise
from ops.products import ProductOfOthers
from ops.reduction import MODES, AxisSize, Reduce
from ops.statistics import LogSumExp


def samples() -> Iterator[tuple[OpDef, tuple[Any, ...]]]:
    x = np.array([0.5, -1.0, 2.0, 0.25, 3.0, -0.75, 1.5, -2.0, 0.1, 0.7, -0.3, 1.1]).reshape(2, 3, 2)
    for mode in MODES:
        for axis in [(0,), (1,), (0, 2), (0, 1, 2), ()]:
            yield Reduce(mode, axis), (x,)
        yield Reduce(mode, (1,), True), (x,)
        yield Reduce(mode, ()), (np.array(2.0),)
        yield Reduce(mode, (0,)), (np.array([2.0]),)
        yield Reduce(mode, (1,)), (np.ones((0, 2)),)
        for dtype in ("int8", "uint8", "int32", "bool"):
            yield Reduce(mode, (0,)), (np.array([1, 0, 3]).astype(dtype),)
        if mode not in ("MAX", "MIN", "MEAN"):
            yield Reduce(mode, (0,)), (np.ones((0, 2)),)
    zeros = np.array([[0.0, 0.0, 2.0], [0.0, 3.0, 2.0], [1.0, 3.0, 2.0]])
    for axis in [(0,), (1,), (0, 1), ()]:
        yield Reduce("PRODUCT", axis), (zeros,)
        yield ProductOfOthers(axis), (zeros,)
        yield ProductOfOthers(axis[::-1]), (zeros,)
    yield ProductOfOthers((0,)), (np.ones((0, 2)),)
    yield ProductOfOthers((0,)), (np.array([2.0]),)
    yield AxisSize((0, 1), "float64"), ((2, 3, 4),)
    yield AxisSize((), "int64", 0.0), ((),)
    yield AxisSize((0,), "float32", 1.0), ((0,),)
    for axis in [(0,), (1,), (0, 2), ()]:
        yield LogSumExp(axis), (x,)
    yield LogSumExp((0, 1), True), (x,)
    yield LogSumExp((0,)), (np.array([1, 2]),)
    yield LogSumExp((0,)), (np.ones((3, 0)),)
    yield Elemwise("EXP_DIFFERENCE"), (x, x[:, :1] * 0.5)
    yield Elemwise("SAFE_SQRT"), (np.array([0.5, 4.0]),)
    yield Elemwise("SAFE_SQRT"), (np.array([1, 4]),)
    yield Elemwise("RECIPROCAL_OR_ZERO"), (np.array([0.5, -4.0]),)
    for axis in (0, 1, 2):
        for exclusive in (False, True):
            for reverse in (False, True):
                yield Cumsum(axis, exclusive, reverse), (x,)
        yield Cumprod(axis), (x,)
    yield Cumprod(1), (zeros,)
    yield Cumprod(0), (np.array([0.5, 0.0, 2.0, 0.0, 3.0, -1.0, 0.25]),)
    for cumulative in (Cumsum, Cumprod):
        yield cumulative(0), (np.ones((0, 2)),)
        yield cumulative(0), (np.array([2.0]),)
        yield cumulative(0), (np.array([2, 3], "int8"),)
        yield cumulative(0), (np.array([True, True]),)
