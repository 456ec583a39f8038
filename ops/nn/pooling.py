"""Pooling: the largest or the mean element of each window sliding over the last axes.

Where several elements of a window are the largest, the gradient is split evenly among them, as everywhere in `ops`.
Which elements are the largest does not change under a small step, so what follows `Pooling` in the gradient
(`MaxPoolingBackward`) and its transpose (`MaxPoolingSelect`) are linear in their last input and constant in the others.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import numpy as np

from interp import DTypeError, OpDef, OperatorError, ShapeError, Spec, Tensor, rules
from interp.dtypes import default_dtype, is_floating
from interp.tensor import call_one

from ..axes import Values, as_handle, reused
from ..broadcasting import broadcast_to, shape_operand, shape_value
from ..manipulation import moveaxis
from .windows import Pads, crop, offsets, pad, pads_per_axis, per_axis, window_counts

__all__ = [
    "AveragePoolingBackward",
    "MaxPoolingBackward",
    "MaxPoolingSelect",
    "Pooling",
    "PoolingMode",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "pooling",
]


class PoolingMode(enum.Enum):
    """What a window becomes: its largest element, its mean, or its mean without the padding. MegEngine's names."""

    MAX = "max"
    AVERAGE = "average"
    AVERAGE_COUNT_EXCLUDE_PADDING = "average_count_exclude_padding"


@attrs.frozen
class Pooling(OpDef):
    """Pool the windows over the last axes of the input."""

    mode: PoolingMode = attrs.field(converter=PoolingMode)
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: Pads


@attrs.frozen
class AveragePoolingBackward(OpDef):
    """The transpose of `Pooling` by means. Inputs: a change of the output, the shape of the input."""

    mode: PoolingMode = attrs.field(converter=PoolingMode)
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: Pads


@attrs.frozen
class MaxPoolingBackward(OpDef):
    """A change of each window's maximum, back at the elements that are it. Inputs: data, maxima, the change."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: Pads


@attrs.frozen
class MaxPoolingSelect(OpDef):
    """The mean over those elements of each window that are its maximum. Inputs: data, maxima, what to select from."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: Pads


make_pooling = reused(Pooling)


# Inference.


def _output_shape(op: Any, shape: Sequence[int]) -> tuple[int, ...]:
    name, n = type(op).__name__, len(op.kernel)
    if len(shape) < n:
        raise ShapeError(f"{name} over {n} axes was given data of shape {tuple(shape)}")
    for k, pads in zip(op.kernel, op.padding, strict=True):
        if max(pads) >= k:
            raise OperatorError(f"{name}: padding {op.padding} must be smaller than the kernel {op.kernel}")
    ones = (1,) * n
    lengths = shape[len(shape) - n :]
    return (*shape[: len(shape) - n], *window_counts(name, lengths, op.kernel, op.stride, op.padding, ones))


@rules.infer.register(Pooling)
def _infer(op: Pooling, x: Spec) -> Spec:
    shape = _output_shape(op, x.shape)
    if op.mode is PoolingMode.MAX:
        if x.dtype.kind == "c":
            raise DTypeError(f"Pooling: {x!r} is complex, and complex numbers have no order")
        return Spec(shape, x.dtype)
    if x.dtype.kind == "b":
        raise DTypeError("Pooling: the mean of booleans; cast them with ops.astype")
    return Spec(shape, x.dtype if is_floating(x.dtype) else default_dtype())


@rules.infer.register(AveragePoolingBackward)
def _infer_average_backward(op: AveragePoolingBackward, change: Spec, shape: Any) -> Spec:
    if change.shape != _output_shape(op, shape):
        raise ShapeError(f"AveragePoolingBackward: {change!r} is no output of pooling data of shape {tuple(shape)}")
    return Spec(shape, change.dtype)


def _check_maxima(op: Any, x: Spec, y: Spec) -> None:
    if y.shape != _output_shape(op, x.shape) or y.dtype != x.dtype:
        raise ShapeError(f"{type(op).__name__}: {y!r} are not the maxima of the windows of {x!r}")


@rules.infer.register(MaxPoolingBackward)
def _infer_max_backward(op: MaxPoolingBackward, x: Spec, y: Spec, change: Spec) -> Spec:
    _check_maxima(op, x, y)
    if change.shape != y.shape:
        raise ShapeError(f"MaxPoolingBackward: the change {change!r} of maxima {y!r}")
    return Spec(x.shape, change.dtype)


@rules.infer.register(MaxPoolingSelect)
def _infer_select(op: MaxPoolingSelect, x: Spec, y: Spec, source: Spec) -> Spec:
    _check_maxima(op, x, y)
    if source.shape != x.shape:
        raise ShapeError(f"MaxPoolingSelect: selecting from {source!r} by the maxima of {x!r}")
    return Spec(y.shape, source.dtype)


# Evaluation. Pooling goes axis by axis, so a window of 3x3 costs six steps, not nine.


def _axis_slices(op: Any, axis: int, ndim: int, count: int) -> Iterator[tuple[slice, ...]]:
    """For each position in the window along one of the pooled axes: what it covers as the window slides."""
    n = len(op.kernel)
    lead = (slice(None),) * (ndim - n + axis)
    for _, slices in offsets((op.kernel[axis],), (op.stride[axis],), (1,), (count,)):
        yield lead + slices


def _sizes(op: Any, lengths: Sequence[int], dtype: Any) -> Any:
    """How many elements the mean of each window is over."""
    if op.mode is PoolingMode.AVERAGE:
        return np.asarray(int(np.prod(op.kernel)), dtype)
    sizes: Any = np.ones((), dtype)
    for length, k, step, (before, after) in zip(lengths, op.kernel, op.stride, op.padding, strict=True):
        starts = np.arange(0, length + before + after - k + 1, step) - before
        inside = np.minimum(starts + k, length) - np.maximum(starts, 0)
        sizes = np.multiply.outer(sizes, inside.astype(dtype))
    return sizes


def _lowest(dtype: Any) -> Any:
    if dtype.kind == "f":
        return -np.inf
    return False if dtype.kind == "b" else np.iinfo(dtype).min


@rules.kernel.register(Pooling)
def _kernel(op: Pooling, x: Any) -> Any:
    n = len(op.kernel)
    counts = _output_shape(op, x.shape)[x.ndim - n :]
    largest = op.mode is PoolingMode.MAX
    if not largest and not is_floating(x.dtype):
        x = x.astype(default_dtype())
    combine = np.maximum if largest else np.add
    y = pad(x, op.padding, x.ndim - n, _lowest(x.dtype) if largest else 0)
    for axis in reversed(range(n)):
        first, *rest = _axis_slices(op, axis, x.ndim, counts[axis])
        total = y[first]
        for slices in rest:
            total = combine(total, y[slices])
        y = total
    return np.array(y) if largest else y / _sizes(op, x.shape[x.ndim - n :], x.dtype)


@rules.kernel.register(AveragePoolingBackward)
def _kernel_average_backward(op: AveragePoolingBackward, change: Any, shape: Any) -> Any:
    n, ndim = len(op.kernel), change.ndim
    lengths = shape[ndim - n :]
    total = change / _sizes(op, lengths, change.dtype)
    for axis in range(n):
        count, wide = change.shape[ndim - n + axis], list(total.shape)
        wide[ndim - n + axis] = lengths[axis] + sum(op.padding[axis])
        spread: Any = np.zeros(wide, change.dtype)
        for slices in _axis_slices(op, axis, ndim, count):
            spread[slices] += total
        total = spread
    return crop(total, op.padding, ndim - n)


def _largest(op: Any, x: Any, y: Any) -> tuple[list[Any], list[Any], Any]:
    """For each position in the window: the slices it covers, where it is the maximum; and how many are."""
    n = len(op.kernel)
    lead = (slice(None),) * (x.ndim - n)
    counts = y.shape[x.ndim - n :]
    padded = pad(x, op.padding, x.ndim - n, np.nan)  # equal to nothing, so padding is never the maximum
    covered = [lead + slices for _, slices in offsets(op.kernel, op.stride, (1,) * n, counts)]
    masks = [padded[slices] == y for slices in covered]
    ties = masks[0].astype(np.int8 if len(masks) < 128 else np.int32)
    for mask in masks[1:]:
        ties += mask
    return covered, masks, ties


def _shared(change: Any, ties: Any) -> Any:
    """The change divided among the maxima of a window; a window of NaN has none."""
    return change / np.maximum(ties, 1).astype(change.dtype) if ties.size and ties.max() > 1 else change


def _chosen(mask: Any, x: Any, finite: bool) -> Any:
    """`x` where `mask` is true, else zero. The product is several times faster, but zero times infinity is NaN."""
    return np.multiply(mask, x) if finite else np.where(mask, x, np.zeros((), x.dtype))


@rules.kernel.register(MaxPoolingBackward)
def _kernel_max_backward(op: MaxPoolingBackward, x: Any, y: Any, change: Any) -> Any:
    n = len(op.kernel)
    covered, masks, ties = _largest(op, x, y)
    share = _shared(change, ties)
    finite = bool(np.isfinite(share).all())
    lengths = [length + sum(p) for length, p in zip(x.shape[x.ndim - n :], op.padding, strict=True)]
    total: Any = np.zeros((*x.shape[: x.ndim - n], *lengths), change.dtype)
    for slices, mask in zip(covered, masks, strict=True):
        total[slices] += _chosen(mask, share, finite)
    return crop(total, op.padding, x.ndim - n)


@rules.kernel.register(MaxPoolingSelect)
def _kernel_select(op: MaxPoolingSelect, x: Any, y: Any, source: Any) -> Any:
    covered, masks, ties = _largest(op, x, y)
    finite = bool(np.isfinite(source).all())
    padded = pad(source, op.padding, x.ndim - len(op.kernel))
    total: Any = np.zeros(y.shape, source.dtype)
    for slices, mask in zip(covered, masks, strict=True):
        total += _chosen(mask, padded[slices], finite)
    return _shared(total, ties)


# Derivatives.


def _like_pooling(kind: Any, op: Any, *mode: Any) -> Any:
    """The operator of another of the four classes over the same windows."""
    return kind(*mode, op.kernel, op.stride, op.padding)


@rules.vjp.register(Pooling)
def _vjp(op: Pooling, inputs: Values, outputs: Values, cotangents: Values) -> Any:
    if not is_floating(inputs[0].dtype):
        return [None]
    if op.mode is PoolingMode.MAX:
        return [call_one(_like_pooling(MaxPoolingBackward, op), inputs[0], outputs[0], cotangents[0])]
    backward = _like_pooling(AveragePoolingBackward, op, op.mode)
    return [call_one(backward, cotangents[0], shape_value(inputs[0]))]


@rules.jvp.register(Pooling)
def _jvp(op: Pooling, inputs: Values, outputs: Values, tangents: Values) -> Any:
    if op.mode is PoolingMode.MAX:
        return [call_one(_like_pooling(MaxPoolingSelect, op), inputs[0], outputs[0], tangents[0])]
    return [call_one(op, tangents[0])]


@rules.vjp.register(AveragePoolingBackward)
def _vjp_average(op: AveragePoolingBackward, inputs: Values, outputs: Values, cotangents: Values) -> Any:
    return [call_one(_like_pooling(Pooling, op, op.mode), cotangents[0]), None]


@rules.jvp.register(AveragePoolingBackward)
def _jvp_average(op: AveragePoolingBackward, inputs: Values, outputs: Values, tangents: Values) -> Any:
    return [call_one(op, tangents[0], inputs[1])]


@rules.vjp.register(MaxPoolingBackward)
def _vjp_max_backward(op: MaxPoolingBackward, inputs: Values, outputs: Values, cotangents: Values) -> Any:
    x, y, _ = inputs
    return [None, None, call_one(_like_pooling(MaxPoolingSelect, op), x, y, cotangents[0])]


@rules.vjp.register(MaxPoolingSelect)
def _vjp_select(op: MaxPoolingSelect, inputs: Values, outputs: Values, cotangents: Values) -> Any:
    x, y, _ = inputs
    return [None, None, call_one(_like_pooling(MaxPoolingBackward, op), x, y, cotangents[0])]


@rules.jvp.register(MaxPoolingBackward, MaxPoolingSelect)
def _jvp_last(op: OpDef, inputs: Values, outputs: Values, tangents: Values) -> Any:
    return [None if tangents[2] is None else call_one(op, inputs[0], inputs[1], tangents[2])]


@rules.batch.register(Pooling)
def _batch(op: Pooling, size: int, inputs: Values, axes: Values) -> Any:
    return [call_one(op, moveaxis(inputs[0], axes[0], 0))], [0]


@rules.batch.register(AveragePoolingBackward)
def _batch_average(op: AveragePoolingBackward, size: int, inputs: Values, axes: Values) -> Any:
    shape = (size, *shape_operand(inputs[1]))
    return [call_one(op, moveaxis(inputs[0], axes[0], 0), shape)], [0]


@rules.batch.register(MaxPoolingBackward, MaxPoolingSelect)
def _batch_max(op: OpDef, size: int, inputs: Values, axes: Values) -> Any:
    moved = []
    for x, axis in zip(map(as_handle, inputs), axes, strict=True):
        moved.append(broadcast_to(x, (size, *x.shape)) if axis is None else moveaxis(x, axis, 0))
    return [call_one(op, *moved)], [0]


# The public functions.


def pooling(x: Any, n: int, kernel: Any, stride: Any = None, padding: Any = 0, mode: Any = "max") -> Tensor:
    """Pool windows of `kernel` over the last `n` axes of `x`, `stride` (by default the kernel) apart.

    `kernel`, `stride`, `padding` are ints or one int an axis; a padding may be a (before, after) pair for each axis.
    `mode` is "max", "average" (padding counts as zeros) or "average_count_exclude_padding". A maximum has the dtype
    of `x`, a mean of integers the default one. Raises ShapeError, DTypeError and OperatorError.

    >>> import interp
    >>> pooling(interp.tensor([1.0, 3.0, 2.0, 5.0]), 1, 2)
    tensor([3., 5.])
    """
    windows = per_axis(kernel, n, "pooling: kernel")
    steps = windows if stride is None else per_axis(stride, n, "pooling: stride")
    try:
        how = PoolingMode(mode)
    except ValueError:
        raise OperatorError(f"pooling: mode is one of {[m.value for m in PoolingMode]}, not {mode!r}") from None
    return call_one(make_pooling(how, windows, steps, pads_per_axis(padding, n, "pooling: padding")), x)


def max_pool1d(x: Any, kernel: Any, stride: Any = None, padding: Any = 0) -> Tensor:
    """The largest element of each window over the last axis; see `pooling`."""
    return pooling(x, 1, kernel, stride, padding)


def max_pool2d(x: Any, kernel: Any, stride: Any = None, padding: Any = 0) -> Tensor:
    """The largest element of each window over the last two axes; see `pooling`.

    >>> import interp, ops
    >>> ops.nn.max_pool2d(interp.tensor([[1.0, 2.0], [3.0, 4.0]]), 2)
    tensor([[4.]])
    """
    return pooling(x, 2, kernel, stride, padding)


def max_pool3d(x: Any, kernel: Any, stride: Any = None, padding: Any = 0) -> Tensor:
    """The largest element of each window over the last three axes; see `pooling`."""
    return pooling(x, 3, kernel, stride, padding)


_EXCLUDE = PoolingMode.AVERAGE_COUNT_EXCLUDE_PADDING


def avg_pool1d(x: Any, kernel: Any, stride: Any = None, padding: Any = 0, mode: Any = _EXCLUDE) -> Tensor:
    """The mean of each window over the last axis, by default without the padding; see `pooling`."""
    return pooling(x, 1, kernel, stride, padding, mode)


def avg_pool2d(x: Any, kernel: Any, stride: Any = None, padding: Any = 0, mode: Any = _EXCLUDE) -> Tensor:
    """The mean of each window over the last two axes, by default without the padding; see `pooling`.

    >>> import interp, ops
    >>> ops.nn.avg_pool2d(interp.tensor([[1.0, 2.0], [3.0, 4.0]]), 2)
    tensor([[2.5]])
    """
    return pooling(x, 2, kernel, stride, padding, mode)


def avg_pool3d(x: Any, kernel: Any, stride: Any = None, padding: Any = 0, mode: Any = _EXCLUDE) -> Tensor:
    """The mean of each window over the last three axes, by default without the padding; see `pooling`."""
    return pooling(x, 3, kernel, stride, padding, mode)
