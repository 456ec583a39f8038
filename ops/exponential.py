"""Exponentials, logarithms, roots and the error function."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.special

from interp import Tensor
from interp.tensor import call_one

from .arithmetic import divide, multiply, negative, reciprocal, square, subtract
from .elemwise import row

__all__ = [
    "cbrt",
    "erf",
    "erfc",
    "erfcinv",
    "erfinv",
    "exp",
    "exp2",
    "expm1",
    "hypot",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logaddexp2",
    "rsqrt",
    "sqrt",
]  # fmt: skip

TWO_OVER_ROOT_PI = float(2 / np.sqrt(np.pi))
LOG_2 = float(np.log(2))
LOG_10 = float(np.log(10))


def _quiet_sum_exp(x: Any, y: Any) -> Any:
    with np.errstate(invalid="ignore"):
        return np.logaddexp(x, y)


def _shares(x: Any, y: Any, out: Any) -> Any:
    """The softmax weight of x beside y, right where both are minus infinity (half) or one is infinite."""
    from .activation import sigmoid
    from .comparison import where

    return where(x == y, 0.5, sigmoid(subtract(x, y)))


EXP = row("EXP", np.exp, [lambda x, out: out], result="float")
EXPM1 = row("EXPM1", np.expm1, [lambda x, out: exp(x)], result="float")
EXP2 = row("EXP2", np.exp2, [lambda x, out: multiply(out, LOG_2)], result="float", kinds="biuf")
LOG = row("LOG", np.log, [lambda x, out: reciprocal(x)], result="float", singular=True)
LOG1P = row("LOG1P", np.log1p, [lambda x, out: reciprocal(x + 1.0)], result="float", singular=True)
LOG2 = row("LOG2", np.log2, [lambda x, out: reciprocal(multiply(x, LOG_2))], result="float", singular=True)
LOG10 = row("LOG10", np.log10, [lambda x, out: reciprocal(multiply(x, LOG_10))], result="float", singular=True)
LOG_SUM_EXP = row(
    "LOG_SUM_EXP",
    _quiet_sum_exp,
    [lambda x, y, out: _shares(x, y, out), lambda x, y, out: _shares(y, x, out)],
    result="float",
    kinds="biuf",
)
LOG_SUM_EXP2 = row(
    "LOG_SUM_EXP2",
    np.logaddexp2,
    [lambda x, y, out: _shares(x * LOG_2, y * LOG_2, out), lambda x, y, out: _shares(y * LOG_2, x * LOG_2, out)],
    result="float",
    kinds="biuf",
)
SQRT = row("SQRT", np.sqrt, [lambda x, out: divide(0.5, out)], result="float", singular=True)


def _rsqrt(x: Any) -> Any:
    return np.true_divide(x.dtype.type(1), np.sqrt(x))


RSQRT = row("RSQRT", _rsqrt, [lambda x, out: divide(multiply(out, -0.5), x)], result="float", singular=True)
CBRT = row(
    "CBRT", np.cbrt, [lambda x, out: divide(1.0 / 3.0, square(out))], result="float", kinds="biuf", singular=True
)
HYPOT = row(
    "HYPOT",
    np.hypot,
    [lambda x, y, out: _ratio(x, out), lambda x, y, out: _ratio(y, out)],
    result="float",
    kinds="biuf",
)
ERF = row("ERF", scipy.special.erf, [lambda x, out: _bell(x, TWO_OVER_ROOT_PI)], result="float", kinds="biuf")
ERFC = row("ERFC", scipy.special.erfc, [lambda x, out: _bell(x, -TWO_OVER_ROOT_PI)], result="float", kinds="biuf")
ERFINV = row(
    "ERFINV", scipy.special.erfinv, [lambda x, out: _inverse_bell(out, 1.0)], result="float", kinds="biuf",
    singular=True,
)  # fmt: skip
ERFCINV = row(
    "ERFCINV", scipy.special.erfcinv, [lambda x, out: _inverse_bell(out, -1.0)], result="float", kinds="biuf",
    singular=True,
)  # fmt: skip


def _ratio(x: Any, out: Any) -> Any:
    """x / hypot; 0 at the origin, as a gradient that is odd must be."""
    from .arithmetic import safe_divide

    return safe_divide(x, out)


def _bell(x: Any, height: float) -> Any:
    return multiply(exp(negative(square(x))), height)


def _inverse_bell(out: Any, sign: float) -> Any:
    return multiply(exp(square(out)), sign / TWO_OVER_ROOT_PI)


def exp(x: Any, /) -> Tensor:
    """e to the power x.

    >>> exp(0.0)
    tensor(1.)
    """
    return call_one(EXP, x)


def expm1(x: Any, /) -> Tensor:
    """exp(x) - 1, exact for small x.

    >>> expm1(0.0)
    tensor(0.)
    """
    return call_one(EXPM1, x)


def exp2(x: Any, /) -> Tensor:
    """2 to the power x.

    >>> exp2(3.0)
    tensor(8.)
    """
    return call_one(EXP2, x)


def log(x: Any, /) -> Tensor:
    """The natural logarithm.

    >>> log(1.0)
    tensor(0.)
    """
    return call_one(LOG, x)


def log1p(x: Any, /) -> Tensor:
    """log(1 + x), exact for small x.

    >>> log1p(0.0)
    tensor(0.)
    """
    return call_one(LOG1P, x)


def log2(x: Any, /) -> Tensor:
    """The logarithm to base 2.

    >>> log2(8.0)
    tensor(3.)
    """
    return call_one(LOG2, x)


def log10(x: Any, /) -> Tensor:
    """The logarithm to base 10.

    >>> log10(100.0)
    tensor(2.)
    """
    return call_one(LOG10, x)


def logaddexp(x1: Any, x2: Any, /) -> Tensor:
    """log(exp(x1) + exp(x2)) without overflow; the gradient is shared evenly where both are minus infinity.

    >>> logaddexp(float("-inf"), 0.0)
    tensor(0.)
    """
    return call_one(LOG_SUM_EXP, x1, x2)


def logaddexp2(x1: Any, x2: Any, /) -> Tensor:
    """log2(2^x1 + 2^x2) without overflow.

    >>> logaddexp2(0.0, 0.0)
    tensor(1.)
    """
    return call_one(LOG_SUM_EXP2, x1, x2)


def sqrt(x: Any, /) -> Tensor:
    """The square root. Its gradient at 0 is infinite, and a zero cotangent gives zero there.

    >>> sqrt(9.0)
    tensor(3.)
    """
    return call_one(SQRT, x)


def rsqrt(x: Any, /) -> Tensor:
    """1 / sqrt(x).

    >>> rsqrt(4.0)
    tensor(0.5)
    """
    return call_one(RSQRT, x)


def cbrt(x: Any, /) -> Tensor:
    """The real cube root.

    >>> cbrt(-8.0)
    tensor(-2.)
    """
    return call_one(CBRT, x)


def hypot(x1: Any, x2: Any, /) -> Tensor:
    """sqrt(x1^2 + x2^2) without overflow; its gradient at the origin is 0.

    >>> hypot(3.0, 4.0)
    tensor(5.)
    """
    return call_one(HYPOT, x1, x2)


def erf(x: Any, /) -> Tensor:
    """The error function.

    >>> erf(0.0)
    tensor(0.)
    """
    return call_one(ERF, x)


def erfc(x: Any, /) -> Tensor:
    """1 - erf(x), exact for large x.

    >>> erfc(0.0)
    tensor(1.)
    """
    return call_one(ERFC, x)


def erfinv(x: Any, /) -> Tensor:
    """The inverse of erf, on (-1, 1).

    >>> erfinv(0.0)
    tensor(0.)
    """
    return call_one(ERFINV, x)


def erfcinv(x: Any, /) -> Tensor:
    """The inverse of erfc, on (0, 2).

    >>> erfcinv(2.0)
    tensor(-inf)
    """
    return call_one(ERFCINV, x)
