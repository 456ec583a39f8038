"""Spread, size and soft maximum: variance, standard deviation, norms, logsumexp."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

from interp import DTypeError, OpDef, Spec, Tensor, rules
from interp.dtypes import default_dtype
from interp.tensor import call_one

from .arithmetic import divide, multiply, negative, subtract
from .axes import Values, as_handle, normal_axes
from .casting import astype
from .elemwise import row
from .manipulation import moveaxis
from .reduction import Reduce, axis_size, count_nonzero, keep, max, mean, min, sum

__all__ = ["LogSumExp", "exp_difference", "logsumexp", "norm", "safe_sqrt", "std", "var"]


def _reciprocal_or_zero(x: Any) -> Any:
    return np.divide(1, x, out=np.zeros_like(x), where=x != 0)


RECIPROCAL_OR_ZERO = row(
    "RECIPROCAL_OR_ZERO",
    _reciprocal_or_zero,
    [lambda x, out: negative(multiply(out, out))],
    result="float",
)

SAFE_SQRT = row(
    "SAFE_SQRT",
    np.sqrt,
    [lambda x, out: multiply(0.5, call_one(RECIPROCAL_OR_ZERO, out))],
    result="float",
    kinds="biuf",
)


def _exp_difference(x: Any, y: Any) -> Any:
    if not np.isinf(y).any():
        return np.exp(x - y)
    with np.errstate(invalid="ignore"):
        return np.exp(np.where(x == y, np.where(np.isneginf(y), y, np.zeros_like(y)), x - y))


EXP_DIFFERENCE = row(
    "EXP_DIFFERENCE",
    _exp_difference,
    [lambda x, y, out: out, lambda x, y, out: negative(out)],
    result="float",
    kinds="biuf",
)


def safe_sqrt(x: Any, /) -> Tensor:
    """The square root, whose gradient at 0 is 0, as that of a length is by convention.

    >>> safe_sqrt([4.0, 0.0])
    tensor([2., 0.])
    """
    return call_one(SAFE_SQRT, x)


def exp_difference(x1: Any, x2: Any, /) -> Tensor:
    """exp(x1 - x2), broadcasting; where both are infinite and equal: 1 for +inf, 0 for -inf.

    With `logsumexp` for the second this is the softmax.

    >>> exp_difference([1.0, float("-inf")], [1.0, float("-inf")])
    tensor([1., 0.])
    """
    return call_one(EXP_DIFFERENCE, x1, x2)


@attrs.frozen
class LogSumExp(OpDef):
    """log(sum(exp(x))) over the axes `axis` (in ascending order), without overflow."""

    axis: tuple[int, ...]
    keepdims: bool = False


@rules.infer.register(LogSumExp)
def _infer(op: LogSumExp, x: Spec) -> Spec:
    if x.dtype.kind == "c":
        raise DTypeError(f"logsumexp takes real numbers, not {x.dtype}")
    axes = normal_axes(op.axis, x.ndim, "logsumexp")
    dtype = x.dtype if x.dtype.kind == "f" else default_dtype()
    if op.keepdims:
        return Spec(tuple(1 if i in axes else n for i, n in enumerate(x.shape)), dtype)
    return Spec(tuple(n for i, n in enumerate(x.shape) if i not in axes), dtype)


@rules.kernel.register(LogSumExp)
def _kernel(op: LogSumExp, x: Any) -> Any:
    x = x if x.dtype.kind == "f" else x.astype(default_dtype())
    highest = np.max(x, axis=op.axis, keepdims=True, initial=-np.inf)
    highest = np.where(np.isfinite(highest), highest, np.zeros_like(highest))
    with np.errstate(divide="ignore", over="ignore"):
        result = np.log(np.sum(np.exp(x - highest), axis=op.axis, keepdims=True)) + highest
    return result if op.keepdims else np.squeeze(result, op.axis)


@rules.vjp.register(LogSumExp)
def _vjp(op: LogSumExp, inputs: Values, outputs: Values, cotangents: Values) -> Any:
    if inputs[0].dtype.kind != "f":
        return [None]
    weights = exp_difference(inputs[0], keep(op, outputs[0]))
    return [multiply(keep(op, cotangents[0]), weights)]


@rules.jvp.register(LogSumExp)
def _jvp(op: LogSumExp, inputs: Values, outputs: Values, tangents: Values) -> Any:
    if inputs[0].dtype.kind != "f":
        return [None]
    weights = exp_difference(inputs[0], keep(op, outputs[0]))
    return [call_one(Reduce("SUM", op.axis, op.keepdims), multiply(tangents[0], weights))]


@rules.batch.register(LogSumExp)
def _batch(op: LogSumExp, size: int, inputs: Values, axes: Values) -> Any:
    lanes = LogSumExp(tuple(axis + 1 for axis in op.axis), op.keepdims)
    return [call_one(lanes, moveaxis(inputs[0], axes[0], 0))], [0]


# Public functions.


def logsumexp(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """log(sum(exp(x))) over `axis`, without overflow; of nothing it is -inf. Its gradient is the softmax.

    Raises ShapeError for an axis that does not exist, DTypeError for complex numbers.

    >>> logsumexp([0.0, 1000.0])
    tensor(1000.)
    """
    handle = as_handle(x)
    return call_one(LogSumExp(tuple(sorted(normal_axes(axis, handle.ndim, "logsumexp"))), bool(keepdims)), handle)


def _floating(x: Any, function: str) -> Tensor:
    handle = as_handle(x)
    if handle.dtype.kind == "c":
        raise DTypeError(f"{function} takes real numbers, not {handle.dtype}")
    return handle if handle.dtype.kind == "f" else astype(handle, default_dtype())


def var(x: Any, /, axis: Any = None, *, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The variance over `axis`: the mean of squares of differences from the mean.

    `correction` is taken off the number of elements that is divided by (1 for Bessel's). Integers become the
    default dtype. Raises ShapeError for an axis that does not exist, DTypeError for complex numbers.

    >>> var([1.0, 3.0]), var([1.0, 3.0], correction=1)
    (tensor(1.), tensor(2.))
    """
    handle = _floating(x, "var")
    axes = tuple(sorted(normal_axes(axis, handle.ndim, "var")))
    centred = subtract(handle, mean(handle, axes, keepdims=True))
    total = call_one(Reduce("SUM_SQR", axes, bool(keepdims)), centred)
    return divide(total, axis_size(handle, axes, handle.dtype, correction))


def std(x: Any, /, axis: Any = None, *, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The standard deviation over `axis`, the root of `var`; where it is 0 its gradient is 0.

    >>> std([1.0, 3.0])
    tensor(1.)
    """
    return safe_sqrt(var(x, axis, correction=correction, keepdims=keepdims))


def norm(x: Any, /, ord: float = 2, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """The vector norm of order `ord` over `axis`: (sum |x|**ord)**(1/ord), for 0 the number of nonzero elements,
    for inf and -inf the largest and smallest magnitude. Where the norm is 0 its gradient is 0.

    Integers become the default dtype, complex numbers give real norms. Raises ShapeError for an axis that does
    not exist, or without elements where there is no largest.

    >>> norm([3.0, 4.0]), norm([3.0, -4.0], 1), norm([3.0, -4.0], float("inf"))
    (tensor(5.), tensor(7.), tensor(4.))
    """
    handle = as_handle(x)
    axes = tuple(sorted(normal_axes(axis, handle.ndim, "norm")))
    if ord == 2 and handle.dtype.kind != "c":
        return safe_sqrt(call_one(Reduce("SUM_SQR", axes, bool(keepdims)), _floating(handle, "norm")))
    return _norm(_magnitude(handle), float(ord), axes, bool(keepdims))


def _magnitude(x: Tensor) -> Tensor:
    from .comparison import abs

    return abs(x if x.dtype.kind == "c" else _floating(x, "norm"))


def _norm(magnitude: Tensor, ord: float, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    """The norm of what is real and not negative."""
    from .arithmetic import pow

    if ord == 2:
        return safe_sqrt(call_one(Reduce("SUM_SQR", axes, keepdims), magnitude))
    if ord == 0:
        return astype(count_nonzero(magnitude, axes, keepdims=keepdims), magnitude.dtype)
    if ord == 1:
        return sum(magnitude, axes, keepdims=keepdims)
    if ord in (float("inf"), float("-inf")):
        return (max if ord > 0 else min)(magnitude, axes, keepdims=keepdims)
    return _root(sum(pow(magnitude, ord), axes, keepdims=keepdims), ord)


def _root(total: Tensor, ord: float) -> Tensor:
    """total ** (1 / ord), with a gradient of 0 where that is 0."""
    from .arithmetic import pow
    from .comparison import where

    zero = total == 0
    return where(zero, 0.0, pow(where(zero, 1.0, total), 1.0 / ord))
