"""Samples for every operator: `all_samples()` finds each module here that has a `samples()` function.

A sample is `(operator, inputs)`: float64 arrays at points where the operator is smooth, tuples for shapes.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any

from interp import OpDef


def all_samples() -> Iterator[tuple[OpDef, tuple[Any, ...]]]:
    for module in pkgutil.iter_modules(__path__):
        yield from importlib.import_module(f"{__name__}.{module.name}").samples()
