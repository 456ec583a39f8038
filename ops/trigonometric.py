"""Trigonometric and hyperbolic functions and their inverses. Angles are in radians."""

from __future__ import annotations

from typing import Any

import numpy as np

from interp import Tensor
from interp.tensor import call_one

from .arithmetic import divide, multiply, negative, reciprocal, safe_divide, square, subtract
from .elemwise import row
from .exponential import hypot, rsqrt, sqrt

__all__ = [
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cos", "cosh", "sin", "sinh", "tan", "tanh",
]  # fmt: skip


def _over_square(side: Any, y: Any, x: Any) -> Any:
    """side / (x^2 + y^2), without overflow; 0 at the origin."""
    length = hypot(x, y)
    return safe_divide(safe_divide(side, length), length)


SIN = row("SIN", np.sin, [lambda x, out: cos(x)], result="float")
COS = row("COS", np.cos, [lambda x, out: negative(sin(x))], result="float")
TAN = row("TAN", np.tan, [lambda x, out: square(out) + 1.0], result="float")
ASIN = row("ASIN", np.arcsin, [lambda x, out: rsqrt(subtract(1.0, square(x)))], result="float", singular=True)
ACOS = row(
    "ACOS", np.arccos, [lambda x, out: negative(rsqrt(subtract(1.0, square(x))))], result="float", singular=True
)
ATAN = row("ATAN", np.arctan, [lambda x, out: reciprocal(square(x) + 1.0)], result="float", singular=True)
SINH = row("SINH", np.sinh, [lambda x, out: cosh(x)], result="float")
COSH = row("COSH", np.cosh, [lambda x, out: sinh(x)], result="float")
TANH = row("TANH", np.tanh, [lambda x, out: subtract(1.0, square(out))], result="float")
ASINH = row("ASINH", np.arcsinh, [lambda x, out: rsqrt(square(x) + 1.0)], result="float")
ACOSH = row(
    "ACOSH",
    np.arccosh,
    [lambda x, out: multiply(rsqrt(subtract(x, 1.0)), rsqrt(x + 1.0))],
    result="float",
    singular=True,
)
ATANH = row("ATANH", np.arctanh, [lambda x, out: reciprocal(subtract(1.0, square(x)))], result="float", singular=True)
ATAN2 = row(
    "ATAN2",
    np.arctan2,
    [lambda y, x, out: _over_square(x, y, x), lambda y, x, out: negative(_over_square(y, y, x))],
    result="float",
    kinds="biuf",
)


def _fast_tanh(x: Any) -> Any:
    return x * (x * x + 27) / (x * x * 9 + 27)


def _fast_tanh_grad(x: Any, dy: Any) -> Any:
    squared = x * x
    lower = squared * 9 + 27
    return dy * ((squared * 3 + 27) * lower - x * (squared + 27) * x * 18) / (lower * lower)


def _slope_of_fast_tanh(x: Any) -> Any:
    squared = square(x)
    lower = squared * 9.0 + 27.0
    return divide((squared * 3.0 + 27.0) * lower - (squared + 27.0) * squared * 18.0, square(lower))


def _curve_of_fast_tanh(x: Any) -> Any:
    """The derivative of the slope, by the quotient rule: n = 9 (s - 9)^2 and d = (9 s + 27)^2 for s = x^2."""
    squared = square(x)
    lower = squared * 9.0 + 27.0
    top = square(squared - 9.0) * 9.0
    return divide((squared - 9.0) * 36.0 * x, square(lower)) - divide(top * 36.0 * x, lower * square(lower))


# MegEngine's own modes: a rational tanh, and gradients as operators of (input or output, gradient).
FAST_TANH = row("FAST_TANH", _fast_tanh, [lambda x, out: _slope_of_fast_tanh(x)], result="float", kinds="biuf")
FAST_TANH_GRAD = row(
    "FAST_TANH_GRAD",
    _fast_tanh_grad,
    [lambda x, dy, out: dy * _curve_of_fast_tanh(x), lambda x, dy, out: _slope_of_fast_tanh(x)],
    result="float",
    kinds="biuf",
)
TANH_GRAD = row(
    "TANH_GRAD",
    lambda y, dy: (1 - y * y) * dy,
    [lambda y, dy, out: multiply(multiply(y, -2.0), dy), lambda y, dy, out: subtract(1.0, square(y))],
    result="float",
)
ASINH_GRAD = row(
    "ASINH_GRAD",
    lambda x, dy: dy / np.sqrt(x * x + 1),
    [
        lambda x, dy, out: negative(divide(x * dy, (square(x) + 1.0) * sqrt(square(x) + 1.0))),
        lambda x, dy, out: rsqrt(square(x) + 1.0),
    ],
    result="float",
)
ACOSH_GRAD = row(
    "ACOSH_GRAD",
    lambda x, dy: dy / np.sqrt(x * x - 1),
    [
        lambda x, dy, out: negative(divide(x * dy, (square(x) - 1.0) * sqrt(square(x) - 1.0))),
        lambda x, dy, out: rsqrt(square(x) - 1.0),
    ],
    result="float",
    singular=True,
)
ATANH_GRAD = row(
    "ATANH_GRAD",
    lambda x, dy: dy / (1 - x * x),
    [
        lambda x, dy, out: divide(x * dy * 2.0, square(subtract(1.0, square(x)))),
        lambda x, dy, out: reciprocal(subtract(1.0, square(x))),
    ],
    result="float",
    singular=True,
)


def sin(x: Any, /) -> Tensor:
    """The sine.

    >>> sin(0.0)
    tensor(0.)
    """
    return call_one(SIN, x)


def cos(x: Any, /) -> Tensor:
    """The cosine.

    >>> cos(0.0)
    tensor(1.)
    """
    return call_one(COS, x)


def tan(x: Any, /) -> Tensor:
    """The tangent.

    >>> tan(0.0)
    tensor(0.)
    """
    return call_one(TAN, x)


def asin(x: Any, /) -> Tensor:
    """The inverse sine, on [-1, 1]; its gradient at the ends is infinite.

    >>> asin(0.0)
    tensor(0.)
    """
    return call_one(ASIN, x)


def acos(x: Any, /) -> Tensor:
    """The inverse cosine, on [-1, 1]; its gradient at the ends is infinite.

    >>> acos(1.0)
    tensor(0.)
    """
    return call_one(ACOS, x)


def atan(x: Any, /) -> Tensor:
    """The inverse tangent.

    >>> atan(0.0)
    tensor(0.)
    """
    return call_one(ATAN, x)


def sinh(x: Any, /) -> Tensor:
    """The hyperbolic sine.

    >>> sinh(0.0)
    tensor(0.)
    """
    return call_one(SINH, x)


def cosh(x: Any, /) -> Tensor:
    """The hyperbolic cosine.

    >>> cosh(0.0)
    tensor(1.)
    """
    return call_one(COSH, x)


def tanh(x: Any, /) -> Tensor:
    """The hyperbolic tangent.

    >>> tanh(0.0)
    tensor(0.)
    """
    return call_one(TANH, x)


def asinh(x: Any, /) -> Tensor:
    """The inverse hyperbolic sine.

    >>> asinh(0.0)
    tensor(0.)
    """
    return call_one(ASINH, x)


def acosh(x: Any, /) -> Tensor:
    """The inverse hyperbolic cosine, from 1 up; its gradient at 1 is infinite.

    >>> acosh(1.0)
    tensor(0.)
    """
    return call_one(ACOSH, x)


def atanh(x: Any, /) -> Tensor:
    """The inverse hyperbolic tangent, on (-1, 1).

    >>> atanh(0.0)
    tensor(0.)
    """
    return call_one(ATANH, x)


def atan2(x1: Any, x2: Any, /) -> Tensor:
    """The angle of the point (x2, x1); its gradient at the origin is 0.

    >>> atan2(0.0, 1.0)
    tensor(0.)
    """
    return call_one(ATAN2, x1, x2)
