"""Other resolutions: interpolation, adaptive pooling; and windows as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from interp import DTypeError, OpDef, OperatorError, ShapeError, Spec, Tensor, rules
from interp.dtypes import default_dtype, is_floating
from interp.tensor import call_one

from ..arithmetic import add, multiply, subtract
from ..axes import Values, as_handle
from ..broadcasting import shape_operand, shape_value
from ..casting import astype
from ..indexing import getitem
from ..manipulation import moveaxis
from ..reduction import max as max_over
from ..reduction import mean
from .pooling import pooling
from .windows import Pads, add_windows, crop, pad, pads_per_axis, per_axis, window_counts

__all__ = [
    "SlidingWindow",
    "SlidingWindowTranspose",
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "interpolate",
    "sliding_window",
    "sliding_window_transpose",
]


@attrs.frozen
class SlidingWindow(OpDef):
    """The windows over the last axes, their elements as as many axes more at the end."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: Pads
    dilation: tuple[int, ...]


@attrs.frozen
class SlidingWindowTranspose(OpDef):
    """The transpose of `SlidingWindow`: windows added up where they overlap. Inputs: the windows, the shape."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: Pads
    dilation: tuple[int, ...]


def _output_shape(op: Any, shape: Sequence[int]) -> tuple[int, ...]:
    name, n = type(op).__name__, len(op.kernel)
    if len(shape) < n:
        raise ShapeError(f"{name} over {n} axes was given data of shape {tuple(shape)}")
    lead, lengths = shape[: len(shape) - n], shape[len(shape) - n :]
    return (*lead, *window_counts(name, lengths, op.kernel, op.stride, op.padding, op.dilation), *op.kernel)


@rules.infer.register(SlidingWindow)
def _infer(op: SlidingWindow, x: Spec) -> Spec:
    return Spec(_output_shape(op, x.shape), x.dtype)


@rules.infer.register(SlidingWindowTranspose)
def _infer_transpose(op: SlidingWindowTranspose, windows: Spec, shape: Any) -> Spec:
    if windows.shape != _output_shape(op, shape):
        raise ShapeError(f"SlidingWindowTranspose: {windows!r} are not the windows over data of shape {tuple(shape)}")
    return Spec(shape, windows.dtype)


@rules.kernel.register(SlidingWindow)
def _kernel(op: SlidingWindow, x: Any) -> Any:
    n, first = len(op.kernel), x.ndim - len(op.kernel)
    padded = pad(x, op.padding, first)
    reach = tuple(d * (k - 1) + 1 for k, d in zip(op.kernel, op.dilation, strict=True))
    windows = sliding_window_view(padded, reach, axis=tuple(range(first, x.ndim))) if n else padded
    steps = [slice(None, None, step) for step in (*op.stride, *op.dilation)]
    return windows[(slice(None),) * first + tuple(steps)]


@rules.kernel.register(SlidingWindowTranspose)
def _kernel_transpose(op: SlidingWindowTranspose, windows: Any, shape: Any) -> Any:
    n = len(op.kernel)
    first = len(shape) - n
    padded = [length + sum(p) for length, p in zip(shape[first:], op.padding, strict=True)]
    inner = windows.reshape(1, *windows.shape)  # positions in the window in front, as `add_windows` takes them
    inner = np.moveaxis(inner, range(inner.ndim - n, inner.ndim), range(1, n + 1))
    total = add_windows(inner, (1, *shape[:first], *padded), first + 1, op.stride, op.dilation, n)
    return crop(total[0], op.padding, first)


def _over_the_same(kind: Any, op: Any) -> Any:
    return kind(op.kernel, op.stride, op.padding, op.dilation)


@rules.vjp.register(SlidingWindow)
def _vjp(op: SlidingWindow, inputs: Values, outputs: Values, cotangents: Values) -> Any:
    transpose = _over_the_same(SlidingWindowTranspose, op)
    return [call_one(transpose, cotangents[0], shape_value(inputs[0])) if is_floating(inputs[0].dtype) else None]


@rules.jvp.register(SlidingWindow)
def _jvp(op: SlidingWindow, inputs: Values, outputs: Values, tangents: Values) -> Any:
    return [call_one(op, tangents[0])]


@rules.vjp.register(SlidingWindowTranspose)
def _vjp_transpose(op: SlidingWindowTranspose, inputs: Values, outputs: Values, cotangents: Values) -> Any:
    return [call_one(_over_the_same(SlidingWindow, op), cotangents[0]) if is_floating(inputs[0].dtype) else None, None]


@rules.jvp.register(SlidingWindowTranspose)
def _jvp_transpose(op: SlidingWindowTranspose, inputs: Values, outputs: Values, tangents: Values) -> Any:
    return [call_one(op, tangents[0], inputs[1])]


@rules.batch.register(SlidingWindow)
def _batch(op: SlidingWindow, size: int, inputs: Values, axes: Values) -> Any:
    return [call_one(op, moveaxis(inputs[0], axes[0], 0))], [0]


@rules.batch.register(SlidingWindowTranspose)
def _batch_transpose(op: SlidingWindowTranspose, size: int, inputs: Values, axes: Values) -> Any:
    return [call_one(op, moveaxis(inputs[0], axes[0], 0), (size, *shape_operand(inputs[1])))], [0]


def _windows(name: str, kernel: Any, padding: Any, stride: Any, dilation: Any) -> tuple[Any, ...]:
    lengths = (kernel,) * 2 if isinstance(kernel, (int, np.integer)) else tuple(kernel)
    n = len(lengths)
    return (
        per_axis(lengths, n, f"{name}: kernel_size"),
        per_axis(stride, n, f"{name}: stride"),
        pads_per_axis(padding, n, f"{name}: padding"),
        per_axis(dilation, n, f"{name}: dilation"),
    )


def sliding_window(x: Any, kernel_size: Any, padding: Any = 0, stride: Any = 1, dilation: Any = 1) -> Tensor:
    """The windows of `kernel_size` (ints for that many last axes; one int: for two) over the last axes of `x`, padded
    with zeros: (*rest, *windows along each axis, *kernel_size). Raises ShapeError, OperatorError.

    >>> import interp
    >>> sliding_window(interp.tensor([1.0, 2.0, 3.0]), (2,))
    tensor([[1., 2.],
            [2., 3.]])
    """
    return call_one(SlidingWindow(*_windows("sliding_window", kernel_size, padding, stride, dilation)), x)


def sliding_window_transpose(
    x: Any, output_size: Any, kernel_size: Any, padding: Any = 0, stride: Any = 1, dilation: Any = 1
) -> Tensor:
    """Add windows, as `sliding_window` gives them, back to where they came from, in last axes of `output_size`.

    Raises ShapeError, OperatorError.

    >>> import interp
    >>> sliding_window_transpose(interp.tensor([[1.0, 2.0], [2.0, 3.0]]), (3,), (2,))
    tensor([1., 4., 3.])
    """
    x = as_handle(x)
    parameters = _windows("sliding_window_transpose", kernel_size, padding, stride, dilation)
    n = len(parameters[0])
    lead = x.shape[: max(x.ndim - 2 * n, 0)]
    shape = (*lead, *per_axis(output_size, n, "sliding_window_transpose: output_size"))
    return call_one(SlidingWindowTranspose(*parameters), x, shape)


# Interpolation, an axis at a time: each axis is read at two places and mixed, or read at one.


def _at(x: Tensor, places: Any, axis: int) -> Tensor:
    return getitem(x, (slice(None),) * axis + (places,))


def _nearest(x: Tensor, axis: int, length: int, align_corners: bool) -> Tensor:
    given = x.shape[axis]
    return _at(x, np.arange(length) * given // length, axis)


def _linear(x: Tensor, axis: int, length: int, align_corners: bool) -> Tensor:
    given = x.shape[axis]
    if align_corners:
        places = np.arange(length) * ((given - 1) / (length - 1) if length > 1 else 0.0)
    else:
        places = np.clip((np.arange(length) + 0.5) * (given / length) - 0.5, 0.0, given - 1)
    below = np.minimum(np.floor(places).astype(np.int64), given - 1)
    weight = (places - below).astype(x.dtype).reshape((-1,) + (1,) * (x.ndim - 1 - axis))
    low, high = _at(x, below, axis), _at(x, np.minimum(below + 1, given - 1), axis)
    return add(low, multiply(subtract(high, low), weight))


_MODES = {
    # mode: the function of one axis, how many axes (None: any number)
    "nearest": (_nearest, None),
    "linear": (_linear, 1),
    "bilinear": (_linear, 2),
    "trilinear": (_linear, 3),
}


def interpolate(
    x: Any, size: Any = None, scale_factor: Any = None, mode: str = "bilinear", align_corners: bool | None = None
) -> Tensor:
    """`x` (batch, channels, *axes) with the axes resampled to `size`, or to `scale_factor` times their lengths.

    `mode` is "nearest", "linear", "bilinear" or "trilinear" (for one, two, three axes). Pixels are squares, so that the
    centres of the outer ones move, or with `align_corners` points, of which the outer ones stay. `size` and
    `scale_factor` are numbers or one number an axis. Dtype kept; linear modes give integers the default dtype.
    Raises ShapeError, OperatorError.

    >>> import interp
    >>> interpolate(interp.tensor([[[1.0, 3.0]]]), 3, mode="linear", align_corners=True)
    tensor([[[1., 2., 3.]]])
    """
    data = as_handle(x)
    if mode not in _MODES:
        raise OperatorError(f"interpolate: mode is one of {', '.join(_MODES)}, not {mode!r}")
    resample, wanted = _MODES[mode]
    n = data.ndim - 2
    if n < 1 or (wanted is not None and n != wanted):
        raise ShapeError(f'interpolate: mode "{mode}" of data (batch, channels, *axes) of shape {data.shape}')
    if mode == "nearest" and align_corners is not None:
        raise OperatorError('interpolate: align_corners is for linear modes, not for "nearest"')
    if mode != "nearest" and not is_floating(data.dtype):
        data = astype(data, default_dtype())
    for axis, length in enumerate(_sizes(data, n, size, scale_factor), 2):
        if not data.shape[axis]:
            raise ShapeError(f"interpolate: axis {axis} of data of shape {data.shape} is empty")
        data = resample(data, axis, length, bool(align_corners))
    return data


def _sizes(x: Tensor, n: int, size: Any, scale_factor: Any) -> tuple[int, ...]:
    if (size is None) == (scale_factor is None):
        raise OperatorError("interpolate takes one of size and scale_factor")
    if size is not None:
        return per_axis(size, n, "interpolate: size")
    factors = tuple(scale_factor) if isinstance(scale_factor, (tuple, list)) else (scale_factor,) * n
    if len(factors) != n or any(factor <= 0 for factor in factors):
        raise OperatorError(f"interpolate: scale_factor is positive, one for each of {n} axes, not {scale_factor!r}")
    return per_axis([int(m * f) for m, f in zip(x.shape[2:], factors, strict=True)], n, "interpolate: scale_factor")


# Adaptive pooling: window i of m over an axis of length n reaches from floor(i n / m) to ceil((i + 1) n / m).


def _adaptive(x: Any, n: int, output_size: Any, largest: bool, name: str) -> Tensor:
    data = as_handle(x)
    sizes = per_axis(output_size, n, f"{name}: output_size")
    if data.ndim < n or not all(data.shape[data.ndim - n :]):
        raise ShapeError(f"{name}: data of shape {data.shape} has no {n} axes to pool")
    lengths = data.shape[data.ndim - n :]
    if all(length % size == 0 for length, size in zip(lengths, sizes, strict=True)):
        kernel = [length // size for length, size in zip(lengths, sizes, strict=True)]
        return pooling(data, n, kernel, mode="max" if largest else "average")
    if data.dtype.kind == "c" and largest:
        raise DTypeError(f"{name}: complex numbers have no order")
    for axis, size in enumerate(sizes, data.ndim - n):
        data = _adaptive_axis(data, axis, size, largest)
    return data


def _adaptive_axis(x: Tensor, axis: int, size: int, largest: bool) -> Tensor:
    """The windows along one axis, those of each length together, read as a new axis that is reduced."""
    length = x.shape[axis]
    starts = np.arange(size) * length // size
    ends = -(-(np.arange(size) + 1) * length // size)
    reach = int(np.max(ends - starts))
    places = np.minimum(starts[:, None] + np.arange(reach), ends[:, None] - 1)  # repeats the last where too short
    windows = _at(x, places, axis)
    if largest:
        return max_over(windows, axis=axis + 1)
    inside = starts[:, None] + np.arange(reach) < ends[:, None]
    share = inside / (ends - starts)[:, None] * reach
    dtype = x.dtype if is_floating(x.dtype) else default_dtype()
    weights = share.astype(dtype).reshape((size, reach) + (1,) * (x.ndim - 1 - axis))
    return mean(multiply(windows, weights), axis=axis + 1)


def adaptive_max_pool1d(x: Any, output_size: Any) -> Tensor:
    """As `adaptive_max_pool2d`, over the last axis."""
    return _adaptive(x, 1, output_size, True, "adaptive_max_pool1d")


def adaptive_max_pool2d(x: Any, output_size: Any) -> Tensor:
    """The maxima of `output_size` windows (an int, or one an axis) that cover the last two axes evenly.

    Window i of m over a length n reaches from floor(i n / m) to ceil((i + 1) n / m). Raises ShapeError, DTypeError.

    >>> import interp
    >>> adaptive_max_pool2d(interp.tensor([[1.0, 2.0, 3.0]]), (1, 2))
    tensor([[2., 3.]])
    """
    return _adaptive(x, 2, output_size, True, "adaptive_max_pool2d")


def adaptive_max_pool3d(x: Any, output_size: Any) -> Tensor:
    """As `adaptive_max_pool2d`, over the last three axes."""
    return _adaptive(x, 3, output_size, True, "adaptive_max_pool3d")


def adaptive_avg_pool1d(x: Any, output_size: Any) -> Tensor:
    """As `adaptive_avg_pool2d`, over the last axis."""
    return _adaptive(x, 1, output_size, False, "adaptive_avg_pool1d")


def adaptive_avg_pool2d(x: Any, output_size: Any) -> Tensor:
    """The means of the windows of `adaptive_max_pool2d`; those of integers have the default dtype.

    >>> import interp
    >>> adaptive_avg_pool2d(interp.tensor([[1.0, 2.0, 3.0]]), (1, 2))
    tensor([[1.5, 2.5]])
    """
    return _adaptive(x, 2, output_size, False, "adaptive_avg_pool2d")


def adaptive_avg_pool3d(x: Any, output_size: Any) -> Tensor:
    """As `adaptive_avg_pool2d`, over the last three axes."""
    return _adaptive(x, 3, output_size, False, "adaptive_avg_pool3d")
