"""Sums, products, quotients and powers, element by element."""

from __future__ import annotations

from typing import Any

import numpy as np

from interp import Tensor
from interp.tensor import call_one, install_sign, syntax

from .elemwise import row

__all__ = ["add", "divide", "multiply", "negative", "safe_multiply", "subtract"]

ADD = row("ADD", np.add, [1, 1])
SUB = row("SUB", np.subtract, [1, -1], kinds="iufc")
MUL = row("MUL", np.multiply, [lambda x, y, out: y, lambda x, y, out: x])
NEGATE = row("NEGATE", np.negative, [-1], kinds="iufc")


TRUE_DIV = row(
    "TRUE_DIV",
    np.true_divide,
    [lambda x, y, out: divide(1.0, y), lambda x, y, out: negative(divide(divide(x, y), y))],
    result="float",
    singular=True,
)


def _safe_multiply(change: Any, factor: Any) -> Any:
    with np.errstate(all="ignore"):
        return np.where(change == 0, change, change * factor)


SAFE_MUL = row(
    "SAFE_MUL",
    _safe_multiply,
    [lambda g, p, out: p, lambda g, p, out: g],
    singular=True,
)


def add(x1: Any, x2: Any, /) -> Tensor:
    """x1 + x2, broadcasting.

    >>> import interp
    >>> add(interp.tensor([1.0, 2.0]), 1)
    tensor([2., 3.])
    """
    return call_one(ADD, x1, x2)


def subtract(x1: Any, x2: Any, /) -> Tensor:
    """x1 - x2, broadcasting. Booleans are refused with DTypeError."""
    return call_one(SUB, x1, x2)


def multiply(x1: Any, x2: Any, /) -> Tensor:
    """x1 * x2, broadcasting."""
    return call_one(MUL, x1, x2)


def divide(x1: Any, x2: Any, /) -> Tensor:
    """x1 / x2, broadcasting; integers become the default dtype first."""
    return call_one(TRUE_DIV, x1, x2)


def negative(x: Any, /) -> Tensor:
    """-x. Booleans are refused with DTypeError."""
    return call_one(NEGATE, x)


def safe_multiply(change: Any, factor: Any, /) -> Tensor:
    """change * factor, where a change of zero gives zero even when the factor is infinite or NaN.

    The product by which gradients and tangents meet partial derivatives that are not finite everywhere.

    >>> safe_multiply(0.0, float("inf"))
    tensor(0.)
    """
    return call_one(SAFE_MUL, change, factor)


for _sign, _op in {"+": ADD, "-": SUB, "*": MUL, "/": TRUE_DIV}.items():
    install_sign(_sign, _op)
syntax.call["__neg__"] = negative
