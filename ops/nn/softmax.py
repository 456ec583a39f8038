"""Softmax and its logarithm, computed from differences to the largest element so that nothing overflows."""

from __future__ import annotations

from typing import Any, ClassVar

import attrs
import numpy as np

from interp import DTypeError, OpDef, Spec, Tensor, rules
from interp.dtypes import default_dtype, is_floating
from interp.evaluate import as_array
from interp.tensor import call_one

from ..arithmetic import multiply, subtract
from ..axes import Values, as_handle, normal_axes, normal_axis, reused
from ..exponential import exp
from ..manipulation import moveaxis
from ..reduction import sum as sum_over

__all__ = ["LogSoftmax", "Softmax", "log_softmax", "logsoftmax", "softmax"]


@attrs.frozen
class Softmax(OpDef):
    """exp(x) / sum(exp(x)) along an axis, counted from the front."""

    checks_first: ClassVar[bool] = False
    axis: int


@attrs.frozen
class LogSoftmax(OpDef):
    """The logarithm of `Softmax`: x - log(sum(exp(x)))."""

    checks_first: ClassVar[bool] = False
    axis: int


make_softmax = reused(Softmax)
make_log_softmax = reused(LogSoftmax)


@rules.infer.register(Softmax, LogSoftmax)
def _infer(op: Any, x: Spec) -> Spec:
    normal_axes(op.axis, x.ndim, type(op).__name__)
    if x.dtype.kind == "c":
        raise DTypeError(f"{type(op).__name__}: {x!r} is complex, and complex numbers have no order")
    return Spec(x.shape, x.dtype if is_floating(x.dtype) else default_dtype())


def _shifted(op: Any, x: Any) -> Any:
    """`x` less its largest element along the axis."""
    x = as_array(x)
    if not is_floating(x.dtype):
        x = x.astype(default_dtype())
    if x.dtype.kind == "c" or not x.size:
        _infer(op, Spec(x.shape, x.dtype))  # raises what numpy would not
        return x
    return x - np.maximum.reduce(x, axis=op.axis, keepdims=True)


@rules.kernel.register(Softmax)
def _kernel(op: Softmax, x: Any) -> Any:
    with np.errstate(invalid="ignore", under="ignore"):
        y = np.exp(_shifted(op, x))
        return y / np.add.reduce(y, axis=op.axis, keepdims=True)


@rules.kernel.register(LogSoftmax)
def _kernel_log(op: LogSoftmax, x: Any) -> Any:
    with np.errstate(invalid="ignore", under="ignore", divide="ignore"):
        shifted = _shifted(op, x)
        return shifted - np.log(np.add.reduce(np.exp(shifted), axis=op.axis, keepdims=True))


# With y = softmax(x): dy = y (dx - sum(y dx)), which is its own transpose; d log y = dx - sum(y dx).


def _spread(op: Any, y: Any, change: Any) -> Tensor:
    weighed = multiply(y, change)
    return subtract(weighed, multiply(y, sum_over(weighed, axis=op.axis, keepdims=True)))


@rules.vjp.register(Softmax)
def _vjp(op: Softmax, inputs: Values, outputs: Values, cotangents: Values) -> Any:
    return [_spread(op, outputs[0], cotangents[0]) if is_floating(inputs[0].dtype) else None]


@rules.jvp.register(Softmax)
def _jvp(op: Softmax, inputs: Values, outputs: Values, tangents: Values) -> Any:
    return [_spread(op, outputs[0], tangents[0])]


@rules.vjp.register(LogSoftmax)
def _vjp_log(op: LogSoftmax, inputs: Values, outputs: Values, cotangents: Values) -> Any:
    if not is_floating(inputs[0].dtype):
        return [None]
    change = cotangents[0]
    return [subtract(change, multiply(exp(outputs[0]), sum_over(change, axis=op.axis, keepdims=True)))]


@rules.jvp.register(LogSoftmax)
def _jvp_log(op: LogSoftmax, inputs: Values, outputs: Values, tangents: Values) -> Any:
    change = tangents[0]
    return [subtract(change, sum_over(multiply(exp(outputs[0]), change), axis=op.axis, keepdims=True))]


@rules.batch.register(Softmax, LogSoftmax)
def _batch(op: Any, size: int, inputs: Values, axes: Values) -> Any:
    return [call_one(type(op)(op.axis + 1), moveaxis(inputs[0], axes[0], 0))], [0]


def softmax(x: Any, /, axis: int = -1) -> Tensor:
    """exp(x) / sum(exp(x)) along `axis`: positive numbers that add up to one, in the shape and dtype of `x`.

    Integers give the default dtype. Raises ShapeError for an axis that is not there, DTypeError for complex numbers.

    >>> import interp
    >>> softmax(interp.tensor([1000.0, 1000.0]))
    tensor([0.5, 0.5])
    """
    x = as_handle(x)
    return call_one(make_softmax(normal_axis(axis, x.ndim, "softmax")), x)


def log_softmax(x: Any, /, axis: int = -1) -> Tensor:
    """log(softmax(x)) along `axis`, accurate where the softmax itself would vanish. See `softmax`.

    >>> import interp
    >>> log_softmax(interp.tensor([0.0, -200.0]))
    tensor([   0., -200.])
    """
    x = as_handle(x)
    return call_one(make_log_softmax(normal_axis(axis, x.ndim, "log_softmax")), x)


logsoftmax = log_softmax
