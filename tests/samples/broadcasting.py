"""Samples of stretching, summing back and casting."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from interp import OpDef
from ops.broadcasting import BroadcastTo, SumTo
from ops.casting import TypeCvt


def samples() -> Iterator[tuple[OpDef, tuple[Any, ...]]]:
    x = np.array([0.5, -1.0])
    yield BroadcastTo(), (x, (3, 2))
    yield BroadcastTo(), (np.array(2.0), ())
    yield BroadcastTo(), (np.array([[1.0], [2.0]]), (2, 0))
    y = np.linspace(-1, 1, 12).reshape(2, 3, 2)
    for shape in [(2,), (3, 1), (1, 1, 1), (), (2, 3, 2)]:
        yield SumTo(), (y, shape)
    yield TypeCvt("float64"), (x,)
    yield TypeCvt("int32"), (x,)
    yield TypeCvt("float64"), (np.array([1, 2]),)
