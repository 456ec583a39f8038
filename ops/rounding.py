"""Rounding, element by element. None of these has a gradient but zero, so none is recorded."""

from __future__ import annotations

from typing import Any

import numpy as np

from interp import Tensor
from interp.tensor import call_one

from .elemwise import row

__all__ = ["ceil", "floor", "round", "trunc"]


def _on_floats(function: Any) -> Any:
    """Integers are whole already, and keep their dtype."""

    def evaluate(x: Any) -> Any:
        return x if x.dtype.kind in "biu" else function(x)

    return evaluate


def _round(x: Any) -> Any:
    if x.dtype.kind == "c":
        return np.round(x)
    return np.rint(x)


CEIL = row("CEIL", _on_floats(np.ceil), [None], kinds="biuf")
FLOOR = row("FLOOR", _on_floats(np.floor), [None], kinds="biuf")
TRUNC = row("TRUNC", _on_floats(np.trunc), [None], kinds="biuf")
ROUND = row("ROUND", _on_floats(_round), [None])


def ceil(x: Any, /) -> Tensor:
    """The smallest whole number that is not less.

    >>> ceil(1.2)
    tensor(2.)
    """
    return call_one(CEIL, x)


def floor(x: Any, /) -> Tensor:
    """The largest whole number that is not greater.

    >>> floor(1.8)
    tensor(1.)
    """
    return call_one(FLOOR, x)


def trunc(x: Any, /) -> Tensor:
    """The whole number nearest on the side of zero.

    >>> trunc(-1.8)
    tensor(-1.)
    """
    return call_one(TRUNC, x)


def round(x: Any, /) -> Tensor:
    """The nearest whole number; halves go to the even one.

    >>> round(2.5)
    tensor(2.)
    """
    return call_one(ROUND, x)
