"""Sums, products, quotients and powers, element by element."""

from __future__ import annotations

from typing import Any

import numpy as np

from interp import OperatorError, Tensor
from interp.tensor import as_operand, call_one, install_sign, syntax
from interp.value import dtype_of

from .elemwise import row

__all__ = [
    "add", "divide", "floor_divide", "multiply", "negative", "positive", "pow", "reciprocal", "remainder",
    "safe_divide", "safe_multiply", "square", "subtract",
]  # fmt: skip

ADD = row("ADD", np.add, [1, 1])
SUB = row("SUB", np.subtract, [1, -1], kinds="iufc")
MUL = row("MUL", np.multiply, [lambda x, y, out: y, lambda x, y, out: x])
NEGATE = row("NEGATE", np.negative, [-1], kinds="iufc")
SQUARE = row("SQUARE", np.square, [lambda x, out: multiply(2.0, x)], kinds="iufc")

TRUE_DIV = row(
    "TRUE_DIV",
    np.true_divide,
    [lambda x, y, out: reciprocal(y), lambda x, y, out: negative(divide(divide(x, y), y))],
    result="float",
    singular=True,
)


def _reciprocal(x: Any) -> Any:
    return np.true_divide(x.dtype.type(1), x)


RECIPROCAL = row(
    "RECIPROCAL", _reciprocal, [lambda x, out: negative(square(out))], result="float", singular=True
)


def _safe_multiply(change: Any, factor: Any) -> Any:
    with np.errstate(all="ignore"):
        return np.where(change == 0, change, change * factor)


SAFE_MUL = row("SAFE_MUL", _safe_multiply, [lambda g, p, out: p, lambda g, p, out: g], singular=True)


def _safe_divide(x: Any, y: Any) -> Any:
    with np.errstate(all="ignore"):
        return np.where(y == 0, x.dtype.type(0), x / y)


SAFE_DIV = row(
    "SAFE_DIV",
    _safe_divide,
    [lambda x, y, out: safe_divide(1.0, y), lambda x, y, out: negative(safe_divide(safe_divide(x, y), y))],
    result="float",
)


def _power(x: Any, y: Any) -> Any:
    try:
        return np.power(x, y)
    except ValueError:
        if np.result_type(x, y).kind == "i" and np.any(np.less(y, 0)):
            raise OperatorError(
                "pow: an integer to a negative power is not an integer; make one of the two floating"
            ) from None
        raise


def _by_base(x: Any, y: Any, out: Any) -> Any:
    """y x^(y-1): 0 for a zero exponent, also where the power is not finite."""
    from .comparison import where

    return where(y == 0, 0.0, multiply(y, pow(x, subtract(y, 1.0))))


def _by_exponent(x: Any, y: Any, out: Any) -> Any:
    """x^y log(x): 0 for a base of 0, as the limit for positive exponents."""
    from .comparison import where
    from .exponential import log

    return where(x == 0, 0.0, multiply(out, log(where(x == 0, 1.0, x))))


POW = row("POW", _power, [_by_base, _by_exponent], kinds="iufc", singular=True, takes_numbers=True)
FLOOR_DIV = row("FLOOR_DIV", np.floor_divide, [None, None], kinds="iuf")


def _by_divisor(x: Any, y: Any, out: Any) -> Any:
    return negative(floor_divide(x, y))


REMAINDER = row("REMAINDER", np.remainder, [1, _by_divisor], kinds="iuf")


def _by_truncated_divisor(x: Any, y: Any, out: Any) -> Any:
    from .rounding import trunc

    return negative(trunc(divide(x, y)))


def _mod(x: Any, y: Any) -> Any:
    """MegEngine's: floats take the sign of the dividend, integers that of the divisor."""
    return np.fmod(x, y) if x.dtype.kind == "f" else np.remainder(x, y)


MOD = row("MOD", _mod, [1, _by_truncated_divisor], kinds="iuf")


def _rounding_multiply_high(x: Any, y: Any) -> Any:
    bits = x.dtype.itemsize * 8 - 1
    product = x.astype(np.int64) * y.astype(np.int64)
    return ((product + (1 << (bits - 1))) >> bits).astype(x.dtype)


RMULH = row("RMULH", _rounding_multiply_high, [None, None], kinds="i")
FUSE_MUL_ADD3 = row(
    "FUSE_MUL_ADD3", lambda x, y, z: x * y + z, [lambda x, y, z, out: y, lambda x, y, z, out: x, 1]
)
FUSE_MUL_ADD4 = row(
    "FUSE_MUL_ADD4",
    lambda x, y, z, w: x * y + z * w,
    [
        lambda x, y, z, w, out: y,
        lambda x, y, z, w, out: x,
        lambda x, y, z, w, out: w,
        lambda x, y, z, w, out: z,
    ],
)


def add(x1: Any, x2: Any, /) -> Tensor:
    """x1 + x2, broadcasting.

    >>> import interp
    >>> add(interp.tensor([1.0, 2.0]), 1)
    tensor([2., 3.])
    """
    return call_one(ADD, x1, x2)


def subtract(x1: Any, x2: Any, /) -> Tensor:
    """x1 - x2, broadcasting. Booleans are refused with DTypeError.

    >>> subtract(3.0, 1.0)
    tensor(2.)
    """
    return call_one(SUB, x1, x2)


def multiply(x1: Any, x2: Any, /) -> Tensor:
    """x1 * x2, broadcasting.

    >>> multiply(3.0, 2.0)
    tensor(6.)
    """
    return call_one(MUL, x1, x2)


def divide(x1: Any, x2: Any, /) -> Tensor:
    """x1 / x2, broadcasting; integers become the default dtype first.

    >>> import interp
    >>> divide(interp.tensor([1, 2]), 2)
    tensor([0.5, 1. ])
    """
    return call_one(TRUE_DIV, x1, x2)


def floor_divide(x1: Any, x2: Any, /) -> Tensor:
    """x1 // x2, rounded towards minus infinity. Its gradient is zero wherever it has one.

    >>> floor_divide(-3.0, 2.0)
    tensor(-2.)
    """
    return call_one(FLOOR_DIV, x1, x2)


def remainder(x1: Any, x2: Any, /) -> Tensor:
    """x1 % x2, with the sign of the divisor.

    >>> remainder(-3.0, 2.0)
    tensor(1.)
    """
    return call_one(REMAINDER, x1, x2)


def negative(x: Any, /) -> Tensor:
    """-x. Booleans are refused with DTypeError.

    >>> negative(2.0)
    tensor(-2.)
    """
    return call_one(NEGATE, x)


def positive(x: Any, /) -> Tensor:
    """+x: the same values in another Tensor.

    >>> positive(2.0)
    tensor(2.)
    """
    return call_one(MUL, x, 1) if _is_number(x) else Tensor(x)


def _is_number(x: Any) -> bool:
    return dtype_of(as_operand(x)).kind in "iufc"


def square(x: Any, /) -> Tensor:
    """x * x.

    >>> square(3.0)
    tensor(9.)
    """
    return call_one(SQUARE, x)


def reciprocal(x: Any, /) -> Tensor:
    """1 / x.

    >>> reciprocal(4.0)
    tensor(0.25)
    """
    return call_one(RECIPROCAL, x)


def pow(x1: Any, x2: Any, /) -> Tensor:
    """x1 ** x2. The gradient by the exponent is 0 where the base is 0, that by the base 0 where the exponent is 0.

    Raises OperatorError for an integer to a negative integer power, DTypeError for booleans alone.

    >>> pow(2.0, 3.0)
    tensor(8.)
    """
    if type(x2) in (int, float) and x2 == 2:
        x1 = as_operand(x1)
        if dtype_of(x1).kind in "fc" or type(x2) is int:
            return square(x1)
    return call_one(POW, x1, x2)


def safe_multiply(change: Any, factor: Any, /) -> Tensor:
    """change * factor, where a change of zero gives zero even when the factor is infinite or NaN.

    The product by which gradients and tangents meet partial derivatives that are not finite everywhere.

    >>> safe_multiply(0.0, float("inf"))
    tensor(0.)
    """
    return call_one(SAFE_MUL, change, factor)


def safe_divide(x1: Any, x2: Any, /) -> Tensor:
    """x1 / x2, and 0 where the divisor is 0.

    >>> safe_divide(1.0, 0.0)
    tensor(0.)
    """
    return call_one(SAFE_DIV, x1, x2)


for _sign, _op in {"+": ADD, "-": SUB, "*": MUL, "/": TRUE_DIV, "//": FLOOR_DIV, "%": REMAINDER}.items():
    install_sign(_sign, _op)
syntax.call.update({"__neg__": negative, "__pos__": positive, "pow": pow})
