"""Reductions: sums, products, extrema and statistics over axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import attrs
import numpy as np

from interp import DTypeError, OpDef, OperatorError, ShapeError, Spec, Tensor, rules
from interp.dtypes import DType, default_dtype
from interp.evaluate import as_array
from interp.tensor import call_one

from .arithmetic import divide, multiply
from .axes import Values, as_handle, normal_axes, reused
from .broadcasting import broadcast_to, shape_value
from .casting import astype
from .manipulation import AddAxis, moveaxis

__all__ = ["AxisSize", "Reduce", "all", "any", "axis_size", "count_nonzero", "max", "mean", "min", "prod", "sum"]

_BOOL = np.dtype(np.bool_)
_INT64 = np.dtype(np.int64)
_UINT64 = np.dtype(np.uint64)
_FLOAT32 = np.dtype(np.float32)


@attrs.frozen
class Reduce(OpDef):
    """Reduce the input over the axes `axis` (in ascending order), which stay with length 1 under `keepdims`.

    Modes: SUM, SUM_SQR (of squares), MEAN, PRODUCT, MAX, MIN, ANY, ALL. The first two and PRODUCT of integers give
    64 bits, MEAN of integers the default dtype.
    """

    checks_first: ClassVar[bool] = False
    mode: str
    axis: tuple[int, ...]
    keepdims: bool = False


make_reduce = reused(Reduce)


@attrs.frozen
class AxisSize(OpDef):
    """From a shape, the product of its lengths along `axis`, less `correction` but not below 0, in `dtype`."""

    checks_first: ClassVar[bool] = False
    axis: tuple[int, ...]
    dtype: DType = attrs.field(converter=np.dtype)
    correction: float = 0.0


MODES = ("SUM", "SUM_SQR", "MEAN", "PRODUCT", "MAX", "MIN", "ANY", "ALL")


def _result_dtype(op: Reduce, dtype: DType) -> DType:
    """The dtype of the result. Raises OperatorError for a mode that does not exist, DTypeError for complex order."""
    mode = op.mode
    if mode not in MODES:
        raise OperatorError(f"Reduce has no mode {mode!r}; there are {', '.join(MODES)}")
    if mode in ("ANY", "ALL"):
        return _BOOL
    if dtype.kind == "c" and mode in ("MAX", "MIN", "SUM_SQR"):
        raise DTypeError(f"{mode.lower()} of {dtype}: complex numbers have no order, and no square that adds up")
    if mode in ("MAX", "MIN") or dtype.kind in "fc":
        return dtype
    if mode == "MEAN":
        return default_dtype()
    return _UINT64 if dtype.kind == "u" else _INT64


@rules.infer.register(Reduce)
def _infer(op: Reduce, x: Spec) -> Spec:
    dtype = _result_dtype(op, x.dtype)
    name = op.mode.lower()
    axes = normal_axes(op.axis, x.ndim, name)
    lengths = [x.shape[axis] for axis in axes]
    if op.mode in ("MAX", "MIN") and 0 in lengths:
        raise ShapeError(f"{name}: {x!r} has no elements along axis {op.axis}, so there is no {name}")
    if op.keepdims:
        return Spec(tuple(1 if axis in axes else n for axis, n in enumerate(x.shape)), dtype)
    return Spec(tuple(n for axis, n in enumerate(x.shape) if axis not in axes), dtype)


@rules.kernel.register(Reduce, per_operator=True)
def _kernel(op: Reduce) -> Callable[[Any], Any]:
    axis, keepdims, mode = op.axis, op.keepdims, op.mode
    if mode == "MEAN":
        return lambda x: _mean(op, as_array(x))
    _result_dtype(op, _BOOL)
    reduce = _REDUCTIONS[mode].reduce

    def evaluate(x: Any) -> Any:
        x = as_array(x)
        dtype = _result_dtype(op, x.dtype)
        if mode in ("MAX", "MIN"):
            return reduce(x, axis=axis, keepdims=keepdims)
        if mode == "SUM_SQR":
            x = np.square(x, dtype=dtype)
        return reduce(x, axis=axis, dtype=dtype, keepdims=keepdims)

    return evaluate


_REDUCTIONS: dict[str, Any] = {
    "SUM": np.add,
    "SUM_SQR": np.add,
    "PRODUCT": np.multiply,
    "MAX": np.maximum,
    "MIN": np.minimum,
    "ANY": np.logical_or,
    "ALL": np.logical_and,
}


def _mean(op: Reduce, x: Any) -> Any:
    dtype = _result_dtype(op, x.dtype)
    wide = _FLOAT32 if dtype == np.float16 else dtype  # half precision cannot even count beyond 2048
    total = _REDUCTIONS["SUM"].reduce(x, axis=op.axis, dtype=wide, keepdims=op.keepdims)
    count = 1
    for axis in op.axis:
        count *= x.shape[axis]
    if not count:
        return np.full_like(total, np.nan, dtype)
    return np.true_divide(total, count, dtype=wide).astype(dtype, copy=False)


@rules.infer.register(AxisSize)
def _infer_size(op: AxisSize, shape: Any) -> Spec:
    normal_axes(op.axis, len(shape), "axis_size")
    return Spec((), op.dtype)


@rules.kernel.register(AxisSize)
def _kernel_size(op: AxisSize, shape: Any) -> Any:
    size = 1
    for axis in op.axis:
        size *= shape[axis]
    return np.asarray(size - op.correction if size > op.correction else 0, op.dtype)


@rules.vjp.register(AxisSize)
def _vjp_size(op: AxisSize, inputs: Values, outputs: Values, cotangents: Values) -> Any:
    return [None]


@rules.jvp.register(AxisSize)
def _jvp_size(op: AxisSize, inputs: Values, outputs: Values, tangents: Values) -> Any:
    return [None]


def axis_size(x: Any, axis: tuple[int, ...], dtype: Any, correction: float = 0.0) -> Tensor:
    """How many elements a reduction of `x` over `axis` meets, less `correction`, as a number of this dtype.

    In a rule, where the concrete shape should not be read.
    """
    return call_one(AxisSize(axis, dtype, float(correction)), shape_value(x))


# Derivatives.


def keep(op: Any, y: Any) -> Any:
    """A result, or its cotangent, with the axes that the reduction over `op.axis` took away put back."""
    return y if op.keepdims or not op.axis else call_one(AddAxis(op.axis), y)


@rules.vjp.register(Reduce)
def _vjp(op: Reduce, inputs: Values, outputs: Values, cotangents: Values) -> Any:
    (x,), (g,) = inputs, cotangents
    if x.dtype.kind not in "fc" or op.mode in ("ANY", "ALL"):
        return [None]
    if op.mode == "SUM":
        return [broadcast_to(keep(op, g), shape_value(x))]
    if op.mode == "MEAN":
        share = divide(g, axis_size(x, op.axis, x.dtype))
        return [broadcast_to(keep(op, share), shape_value(x))]
    if op.mode == "SUM_SQR":
        return [multiply(x, keep(op, multiply(g, 2.0)))]
    if op.mode == "PRODUCT":
        from .products import product_of_others

        return [multiply(product_of_others(x, op.axis), keep(op, g))]
    reached, count = _ties(op, x, outputs[0])
    return [multiply(divide(keep(op, g), count), reached)]


@rules.jvp.register(Reduce)
def _jvp(op: Reduce, inputs: Values, outputs: Values, tangents: Values) -> Any:
    (x,), (t,) = inputs, tangents
    if x.dtype.kind not in "fc" or op.mode in ("ANY", "ALL"):
        return [None]
    if op.mode in ("SUM", "MEAN"):
        return [call_one(op, t)]
    added = Reduce("SUM", op.axis, op.keepdims)
    if op.mode == "SUM_SQR":
        return [multiply(call_one(added, multiply(x, t)), 2.0)]
    if op.mode == "PRODUCT":
        from .products import product_of_others

        return [call_one(added, multiply(t, product_of_others(x, op.axis)))]
    reached, count = _ties(op, x, outputs[0])
    return [call_one(added, divide(multiply(t, reached), count))]


def _ties(op: Reduce, x: Any, extremum: Any) -> tuple[Tensor, Tensor]:
    """Where the extremum is reached, and at how many places: ties share a gradient evenly."""
    from .comparison import equal

    reached = equal(x, keep(op, extremum))
    return reached, call_one(Reduce("SUM", op.axis, True), reached)


@rules.batch.register(Reduce)
def _batch(op: Reduce, size: int, inputs: Values, axes: Values) -> Any:
    lanes = Reduce(op.mode, tuple(axis + 1 for axis in op.axis), op.keepdims)
    return [call_one(lanes, moveaxis(inputs[0], axes[0], 0))], [0]


# Public functions.


def _reduce(mode: str, x: Any, axis: Any, keepdims: bool, name: str) -> Tensor:
    handle = as_handle(x)
    axes = tuple(sorted(normal_axes(axis, handle.ndim, name)))
    return call_one(make_reduce(mode, axes, bool(keepdims)), handle)


def _in_dtype(mode: str, x: Any, axis: Any, dtype: Any, keepdims: bool, name: str) -> Tensor:
    if dtype is None:
        return _reduce(mode, x, axis, keepdims, name)
    result = _reduce(mode, astype(x, dtype), axis, keepdims, name)
    return result if result.dtype == np.dtype(dtype) else astype(result, dtype)


def sum(x: Any, /, axis: Any = None, *, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The sum over `axis` (an int, a tuple, or None for all axes).

    Floating dtypes stay; integers and booleans give int64 or uint64; `dtype` is what is summed in. The sum of
    nothing is 0. Raises ShapeError for an axis that does not exist.

    >>> import interp
    >>> sum(interp.tensor([[1.0, 2.0], [3.0, 4.0]]), axis=0)
    tensor([4., 6.])
    """
    return _in_dtype("SUM", x, axis, dtype, keepdims, "sum")


def prod(x: Any, /, axis: Any = None, *, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The product over `axis`; dtypes as for `sum`. The product of nothing is 1.

    Its gradient is right where elements are zero. Raises ShapeError for an axis that does not exist.

    >>> import interp
    >>> prod(interp.tensor([2.0, 3.0]))
    tensor(6.)
    """
    return _in_dtype("PRODUCT", x, axis, dtype, keepdims, "prod")


def mean(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """The mean over `axis`, in the dtype of `x` or, for integers, the default dtype. Of nothing it is NaN.

    Raises ShapeError for an axis that does not exist.

    >>> import interp
    >>> mean(interp.tensor([1, 2]))
    tensor(1.5)
    """
    return _reduce("MEAN", x, axis, keepdims, "mean")


def max(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """The largest element over `axis`; NaN where there is one. Equal largest elements share the gradient evenly.

    Raises ShapeError for an axis without elements, DTypeError for complex numbers.

    >>> import interp
    >>> max(interp.tensor([[1.0, 2.0], [3.0, 0.0]]), axis=1)
    tensor([2., 3.])
    """
    return _reduce("MAX", x, axis, keepdims, "max")


def min(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """The smallest element over `axis`; otherwise as `max`."""
    return _reduce("MIN", x, axis, keepdims, "min")


def any(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """Whether some element over `axis` is not zero (NaN is not). Of nothing: False.

    >>> import interp
    >>> any(interp.tensor([[0, 2], [0, 0]]), axis=1)
    tensor([ True, False])
    """
    return _reduce("ANY", x, axis, keepdims, "any")


def all(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """Whether no element over `axis` is zero. Of nothing: True."""
    return _reduce("ALL", x, axis, keepdims, "all")


def count_nonzero(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """How many elements over `axis` are not zero, as int64.

    >>> import interp
    >>> count_nonzero(interp.tensor([1.0, 0.0, 2.0]))
    tensor(2, dtype=int64)
    """
    return _reduce("SUM", astype(x, _BOOL), axis, keepdims, "count_nonzero")
