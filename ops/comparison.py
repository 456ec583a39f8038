"""Comparing, choosing by a condition, logic, and what is the larger or smaller."""

from __future__ import annotations

from typing import Any

import numpy as np

from interp import Tensor
from interp.dtypes import is_floating
from interp.tensor import as_operand, call_one, install_sign, syntax
from interp.value import dtype_of

from .casting import astype
from .elemwise import row

__all__ = [
    "abs", "clip", "copysign", "equal", "greater", "greater_equal", "isfinite", "isinf", "isnan", "less", "less_equal",
    "logical_and", "logical_not", "logical_or", "logical_xor", "maximum", "minimum", "nextafter", "not_equal", "sign",
    "signbit", "where",
]  # fmt: skip

EQ = row("EQ", np.equal, [None, None], result="bool")
NEQ = row("NEQ", np.not_equal, [None, None], result="bool")
LT = row("LT", np.less, [None, None], result="bool", kinds="biuf")
LEQ = row("LEQ", np.less_equal, [None, None], result="bool", kinds="biuf")
GT = row("GT", np.greater, [None, None], result="bool", kinds="biuf")
GEQ = row("GEQ", np.greater_equal, [None, None], result="bool", kinds="biuf")
ISNAN = row("ISNAN", np.isnan, [None], result="bool")
ISINF = row("ISINF", np.isinf, [None], result="bool")
ISFINITE = row("ISFINITE", np.isfinite, [None], result="bool")
SIGNBIT = row("SIGNBIT", np.signbit, [None], result="bool", kinds="iuf")
LOGICAL_AND = row("LOGICAL_AND", np.logical_and, [None, None], result="bool")
LOGICAL_OR = row("LOGICAL_OR", np.logical_or, [None, None], result="bool")
LOGICAL_XOR = row("LOGICAL_XOR", np.logical_xor, [None, None], result="bool")
LOGICAL_NOT = row("LOGICAL_NOT", np.logical_not, [None], result="bool")


def _number(condition: Any, like: Any) -> Any:
    """1 where the condition holds, else 0, in the dtype of `like`."""
    return astype(condition, like.dtype)


def _zero(x: Any) -> Any:
    return x.dtype.type(0)


def _where_vjp(condition: Any, x: Any, y: Any, out: Any, g: Any) -> list[Any]:
    return [
        None,
        where(condition, g, 0.0) if is_floating(x.dtype) else None,
        where(condition, 0.0, g) if is_floating(y.dtype) else None,
    ]


def _where_jvp(condition: Any, x: Any, y: Any, out: Any, tc: Any, tx: Any, ty: Any) -> Any:
    moved = where(condition, 0.0 if tx is None else tx, 0.0 if ty is None else ty)
    return astype(moved, out.dtype)


WHERE = row(
    "WHERE", np.where, [None, lambda c, x, y, out: _number(c, out), lambda c, x, y, out: 1.0 - _number(c, out)],
    conditions=1, vjp=_where_vjp, jvp=_where_jvp,
)  # fmt: skip


def _share(x: Any, y: Any, larger: Any) -> Any:
    """1 where x is chosen, 0 where y is, one half where they are equal."""
    return where(larger, 1.0, where(x == y, 0.5, 0.0)) * _number(x == x, x)


MAX = row(
    "MAX", np.maximum, [lambda x, y, out: _share(x, y, x > y), lambda x, y, out: _share(y, x, y > x)], kinds="biuf"
)
MIN = row(
    "MIN", np.minimum, [lambda x, y, out: _share(x, y, x < y), lambda x, y, out: _share(y, x, y < x)], kinds="biuf"
)


def _clip(x: Any, lower: Any, upper: Any) -> Any:
    if np.any(lower > upper):  # bounds that cross: the lower one first
        return np.where(x < lower, lower, np.where(x > upper, upper, x))
    return np.minimum(np.maximum(x, lower), upper)


def _within(x: Any, lower: Any, upper: Any, out: Any) -> Any:
    """1 between the bounds; where x is equal to one (or both), an even share."""
    from .arithmetic import divide

    inside = _number(logical_and(x >= lower, x <= upper), out)
    return divide(inside, _number(x == lower, out) + _number(x == upper, out) + 1.0)


def _to_lower(x: Any, lower: Any, upper: Any, out: Any) -> Any:
    return _number(x < lower, out) + _number(x == lower, out) * _within(x, lower, upper, out)


def _to_upper(x: Any, lower: Any, upper: Any, out: Any) -> Any:
    above = logical_and(x >= lower, x > upper)
    return _number(above, out) + _number(x == upper, out) * _within(x, lower, upper, out)


CLIP = row(
    "CLIP",
    _clip,
    [_within, _to_lower, _to_upper],
    kinds="biuf",
)


def _abs_vjp(x: Any, out: Any, g: Any) -> list[Any]:
    if x.dtype.kind == "c":
        from .arithmetic import safe_divide
        from .complex import conj

        return [g * safe_divide(conj(x), out)]
    return [g * sign(x)]


def _abs_jvp(x: Any, out: Any, t: Any) -> Any:
    if x.dtype.kind == "c":
        from .arithmetic import safe_divide
        from .complex import conj, real

        return real(t * safe_divide(conj(x), out))
    return t * sign(x)


ABS = row("ABS", np.absolute, [lambda x, out: sign(x)], result="real", vjp=_abs_vjp, jvp=_abs_jvp)
SIGN = row("SIGN", np.sign, [None], kinds="iufc")


def _copied_sign(x: Any, out: Any) -> Any:
    return sign(x) * sign(out)


COPYSIGN = row(
    "COPYSIGN", np.copysign, [lambda x, y, out: _copied_sign(x, out), None], result="float", kinds="biuf"
)
NEXTAFTER = row("NEXTAFTER", np.nextafter, [1, None], result="float", kinds="biuf")

# MegEngine's conditional moves: the last input where the comparison holds, else 0.
COND_LEQ_MOV = row(
    "COND_LEQ_MOV",
    lambda x, y, z: np.where(x <= y, z, _zero(z)),
    [None, None, lambda x, y, z, out: _number(x <= y, out)],
    kinds="biuf",
)
COND_LT_MOV = row(
    "COND_LT_MOV",
    lambda x, y, z: np.where(x < y, z, _zero(z)),
    [None, None, lambda x, y, z, out: _number(x < y, out)],
    kinds="biuf",
)


def _switch(x: Any, y: Any) -> Any:
    """A product with the condition, which is many times faster than `np.where`, unless it meets infinity or NaN."""
    chosen = x > 0
    with np.errstate(invalid="ignore", over="ignore"):
        result = y * chosen
        squares = np.vdot(result, result) if y.dtype.kind == "f" else 0  # NaN if any element is
    return result if squares == squares else np.where(chosen, y, _zero(y))


SWITCH_GT0 = row(
    "SWITCH_GT0",
    _switch,
    [None, lambda x, y, out: _number(x > 0, out)],
    kinds="biuf",
)
ABS_GRAD = row(
    "ABS_GRAD", lambda x, dy: np.sign(x) * dy, [None, lambda x, dy, out: sign(x)], kinds="iuf"
)


def equal(x1: Any, x2: Any, /) -> Tensor:
    """x1 == x2, broadcasting.

    >>> equal(1.0, 1.0)
    tensor(True)
    """
    return call_one(EQ, x1, x2)


def not_equal(x1: Any, x2: Any, /) -> Tensor:
    """x1 != x2, broadcasting.

    >>> not_equal(1.0, 1.0)
    tensor(False)
    """
    return call_one(NEQ, x1, x2)


def less(x1: Any, x2: Any, /) -> Tensor:
    """x1 < x2, broadcasting. Complex numbers are refused with DTypeError.

    >>> less(1.0, 2.0)
    tensor(True)
    """
    return call_one(LT, x1, x2)


def less_equal(x1: Any, x2: Any, /) -> Tensor:
    """x1 <= x2, broadcasting.

    >>> less_equal(1.0, 1.0)
    tensor(True)
    """
    return call_one(LEQ, x1, x2)


def greater(x1: Any, x2: Any, /) -> Tensor:
    """x1 > x2, broadcasting.

    >>> greater(1.0, 2.0)
    tensor(False)
    """
    return call_one(GT, x1, x2)


def greater_equal(x1: Any, x2: Any, /) -> Tensor:
    """x1 >= x2, broadcasting.

    >>> greater_equal(1.0, 1.0)
    tensor(True)
    """
    return call_one(GEQ, x1, x2)


def isnan(x: Any, /) -> Tensor:
    """Whether an element is not a number.

    >>> isnan(float("nan"))
    tensor(True)
    """
    return call_one(ISNAN, x)


def isinf(x: Any, /) -> Tensor:
    """Whether an element is infinite.

    >>> isinf(float("-inf"))
    tensor(True)
    """
    return call_one(ISINF, x)


def isfinite(x: Any, /) -> Tensor:
    """Whether an element is neither infinite nor NaN.

    >>> isfinite(1.0)
    tensor(True)
    """
    return call_one(ISFINITE, x)


def signbit(x: Any, /) -> Tensor:
    """Whether the sign is negative; tells -0.0 from 0.0.

    >>> signbit(-0.0)
    tensor(True)
    """
    return call_one(SIGNBIT, x)


def logical_and(x1: Any, x2: Any, /) -> Tensor:
    """Whether both are true.

    >>> logical_and(True, False)
    tensor(False)
    """
    return call_one(LOGICAL_AND, x1, x2)


def logical_or(x1: Any, x2: Any, /) -> Tensor:
    """Whether at least one is true.

    >>> logical_or(True, False)
    tensor(True)
    """
    return call_one(LOGICAL_OR, x1, x2)


def logical_xor(x1: Any, x2: Any, /) -> Tensor:
    """Whether exactly one is true.

    >>> logical_xor(True, True)
    tensor(False)
    """
    return call_one(LOGICAL_XOR, x1, x2)


def logical_not(x: Any, /) -> Tensor:
    """Whether it is false.

    >>> logical_not(True)
    tensor(False)
    """
    return call_one(LOGICAL_NOT, x)


def where(condition: Any, x1: Any, x2: Any, /) -> Tensor:
    """x1 where the condition holds, else x2, broadcasting. What is not chosen has a zero gradient, whatever it is.

    Raises DTypeError for a condition that is not boolean.

    >>> import interp
    >>> where(interp.tensor([True, False]), 1.0, 2.0)
    tensor([1., 2.])
    """
    return call_one(WHERE, condition, x1, x2)


def maximum(x1: Any, x2: Any, /) -> Tensor:
    """The larger of two; the gradient is shared evenly where they are equal.

    >>> maximum(1.0, 2.0)
    tensor(2.)
    """
    return call_one(MAX, x1, x2)


def minimum(x1: Any, x2: Any, /) -> Tensor:
    """The smaller of two; the gradient is shared evenly where they are equal.

    >>> minimum(1.0, 2.0)
    tensor(1.)
    """
    return call_one(MIN, x1, x2)


def clip(x: Any, /, min: Any = None, max: Any = None) -> Tensor:
    """`x` kept between `min` and `max`, each of them optional; the result has the dtype of `x`.

    Where `x` is equal to a bound the gradient is shared evenly between them.

    >>> import interp
    >>> clip(interp.tensor([-2.0, 0.5, 2.0]), -1.0, 1.0)
    tensor([-1. ,  0.5,  1. ])
    """
    x = as_operand(x)
    if min is None and max is None:
        return Tensor(x)
    dtype = dtype_of(x)
    if min is None:
        result = call_one(MIN, x, max)
    elif max is None:
        result = call_one(MAX, x, min)
    else:
        result = call_one(CLIP, x, min, max)
    return result if result.dtype == dtype or not hasattr(x, "dtype") else astype(result, dtype)


def abs(x: Any, /) -> Tensor:
    """The magnitude; its gradient at 0 is 0.

    >>> abs(-2.0)
    tensor(2.)
    """
    return call_one(ABS, x)


def sign(x: Any, /) -> Tensor:
    """-1, 0 or 1; for complex numbers x / abs(x).

    >>> sign(-2.0)
    tensor(-1.)
    """
    return call_one(SIGN, x)


def copysign(x1: Any, x2: Any, /) -> Tensor:
    """The magnitude of x1 with the sign of x2.

    >>> copysign(1.0, -0.0)
    tensor(-1.)
    """
    return call_one(COPYSIGN, x1, x2)


def nextafter(x1: Any, x2: Any, /) -> Tensor:
    """The next number after x1 towards x2.

    >>> import interp
    >>> nextafter(interp.tensor(1.0), 2.0).item() > 1
    True
    """
    return call_one(NEXTAFTER, x1, x2)


for _sign, _op in {"==": EQ, "!=": NEQ, "<": LT, "<=": LEQ, ">": GT, ">=": GEQ}.items():
    install_sign(_sign, _op)
syntax.call["__abs__"] = abs
