"""Samples of every element-wise mode: where its domain is not the whole line, a table says what it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from interp import OpDef
from ops.elemwise import ROWS, Elemwise

# Domains of the inputs, where (-2, 2) without 0 would not do.
DOMAINS: dict[str, list[tuple[float, float]]] = {
    "ACOS": [(-0.9, 0.9)],
    "ACOSH": [(1.2, 3)],
    "ACOSH_GRAD": [(1.2, 3), (-2, 2)],
    "ASIN": [(-0.9, 0.9)],
    "ATANH": [(-0.9, 0.9)],
    "ATANH_GRAD": [(-0.9, 0.9), (-2, 2)],
    "ERFCINV": [(0.2, 1.8)],
    "ERFINV": [(-0.8, 0.8)],
    "LOG": [(0.3, 3)],
    "LOG10": [(0.3, 3)],
    "LOG1P": [(-0.6, 2)],
    "LOG2": [(0.3, 3)],
    "POW": [(0.3, 2), (-2, 2)],
    "RSQRT": [(0.3, 3)],
    "SQRT": [(0.3, 3)],
    "TRUNC": [(0.15, 0.85)],
    "FLOOR": [(0.15, 0.85)],
    "CEIL": [(0.15, 0.85)],
    "ROUND": [(0.6, 0.9)],
    "CLIP": [(-2, 2), (-0.9, -0.5), (0.5, 0.9)],
    "MOD": [(0.1, 0.6), (0.7, 0.9)],
    "REMAINDER": [(0.1, 0.6), (0.7, 0.9)],
    "FUSE_ADD_H_SWISH": [(-1, 1), (-1, 1)],
    "SAFE_SQRT": [(0.3, 3)],
    "NEXTAFTER": [(-2, 2), (3, 4)],
}
INTEGERS = {"AND", "OR", "XOR", "NOT", "SHL", "SHR", "RMULH"}


def _inputs(mode: str, shapes: list[tuple[int, ...]], seed: int) -> tuple[Any, ...]:
    """Distinct numbers in the domains, none near 0 nor near each other, so that no kink is close."""
    random = np.random.default_rng(seed)
    row = ROWS[mode]
    arrays: list[Any] = []
    for i, shape in enumerate(shapes):
        if i < row.conditions:
            arrays.append(np.asarray(random.uniform(size=shape) < 0.5))
        elif mode in INTEGERS:
            arrays.append(np.asarray(random.integers(1, 5, shape), np.int32))
        else:
            low, high = DOMAINS.get(mode, [(-2.0, 2.0)] * row.arity)[i]
            x = np.asarray(random.uniform(low, high, shape))
            arrays.append(np.where(np.abs(x) < 0.15, x + 0.3, x) if low < 0 < high else x)
    return tuple(arrays)


def samples() -> Iterator[tuple[OpDef, tuple[Any, ...]]]:
    for seed, (mode, row) in enumerate(ROWS.items()):
        shapes: list[list[tuple[int, ...]]] = [[(2, 3)] * row.arity, [()] * row.arity]
        if row.arity > 1:
            shapes.append([(3,), *[(2, 1)] * (row.arity - 1)])
            shapes.append([(2, 1), *[(1, 3)] * (row.arity - 1)])
            shapes.append([(), *[(2,)] * (row.arity - 1)])
        else:
            shapes.append([(0, 2)])
        for k, each in enumerate(shapes):
            yield Elemwise(mode), _inputs(mode, each, 100 * seed + k)
