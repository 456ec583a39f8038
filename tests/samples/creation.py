"""Samples of making arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from interp import OpDef
from ops.creation import Arange, Eye, Fill, Linspace


def samples() -> Iterator[tuple[OpDef, tuple[Any, ...]]]:
    for shape in [(2, 3), (), (0, 2)]:
        yield Fill(0, "float64"), (shape,)
        yield Fill(2.5, "float32"), (shape,)
    yield Fill(True, "bool"), ((3,),)
    for stop in (-1, 0, 5):
        yield Arange(0, stop, 1, "int32"), ()
        yield Arange(0, stop, -1, "int64"), ()
    yield Arange(0.5, 2.0, 0.4, "float32"), ()
    yield Linspace(0.0, 1.0, 5, True, "float64"), ()
    yield Linspace(1.0, -1.0, 4, False, "float32"), ()
    yield Linspace(0.0, 1.0, 0, True, "float64"), ()
    yield Linspace(0.0, 1.0j, 3, True, "complex64"), ()
    for k in (-1, 0, 2):
        yield Eye(2, 3, k, "float64"), ()
    yield Eye(0, 2, 0, "bool"), ()
