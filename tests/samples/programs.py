"""A program called as one operator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import interp
import ops


def samples() -> Iterator[tuple[interp.OpDef, tuple[Any, ...]]]:
    x = np.array([0.3, -0.8, 1.2])
    program = interp.record(lambda x, y: (ops.sin(x) * y, ops.exp(x)), interp.Spec((3,), "float64"), x)
    yield ops.Call(program, "sample"), (x, x + 1.0)
