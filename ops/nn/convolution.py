"""Convolution over any number of axes, and its two transposes.

Convolution is linear in the data and in the filter. `ConvolutionBackwardData` and `ConvolutionBackwardFilter` are
its transposes in the one and the other, and the gradient of each of the three is written with the other two, so
that derivatives of every order exist. Data is (batch, channels, *axes), a filter (channels out, channels in per
group, *axes).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from interp import DTypeError, OpDef, OperatorError, ShapeError, Spec, Tensor, rules
from interp.dtypes import promote
from interp.tensor import call_one

from ..arithmetic import add
from ..axes import Values, as_handle, reused
from ..broadcasting import broadcast_to, like, shape_operand, shape_value
from ..casting import astype
from ..manipulation import moveaxis, reshape
from .windows import Pads, add_windows, crop, pad, pads_per_axis, per_axis, read_windows, window_counts

__all__ = [
    "Convolution",
    "ConvolutionBackwardData",
    "ConvolutionBackwardFilter",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "convolution",
]


@attrs.frozen
class Convolution(OpDef):
    """Convolve data with a filter. Inputs: the data, the filter."""

    stride: tuple[int, ...]
    padding: Pads
    dilation: tuple[int, ...]
    groups: int = 1


@attrs.frozen
class ConvolutionBackwardData(OpDef):
    """The transpose of `Convolution` in the data. Inputs: the filter, a change of the output, the data's shape."""

    stride: tuple[int, ...]
    padding: Pads
    dilation: tuple[int, ...]
    groups: int = 1


@attrs.frozen
class ConvolutionBackwardFilter(OpDef):
    """The transpose of `Convolution` in the filter. Inputs: the data, a change of the output, the filter's shape."""

    stride: tuple[int, ...]
    padding: Pads
    dilation: tuple[int, ...]
    groups: int = 1


make_convolution = reused(Convolution)


def _as(kind: Any, op: Any) -> Any:
    """The operator of another of the three classes with the same parameters."""
    return kind(op.stride, op.padding, op.dilation, op.groups)


# Inference.


def _output_shape(op: Any, x: Sequence[int], w: Sequence[int]) -> tuple[int, ...]:
    """The shape of a convolution's output. Raises ShapeError, OperatorError."""
    name, n = type(op).__name__, len(op.stride)
    if len(x) != n + 2 or len(w) != n + 2:
        raise ShapeError(
            f"{name} over {n} axes takes data (batch, channels, {n} axes) and a filter (channels out, channels in "
            f"per group, {n} axes); data {tuple(x)}, filter {tuple(w)}"
        )
    if op.groups < 1 or x[1] != w[1] * op.groups or w[0] % op.groups:
        raise ShapeError(
            f"{name} with groups={op.groups}: data {tuple(x)} has {x[1]} channels; filter {tuple(w)} takes "
            f"{w[1]} a group and gives {w[0]} channels, which must divide by the groups"
        )
    return (x[0], w[0], *window_counts(name, x[2:], w[2:], op.stride, op.padding, op.dilation))


def _dtype(op: Any, a: Spec, b: Spec) -> Any:
    if a.dtype.kind == "b" or b.dtype.kind == "b":
        raise DTypeError(f"{type(op).__name__} takes numbers; it was given {a.dtype} and {b.dtype}")
    return promote([(a.dtype, a.weak), (b.dtype, b.weak)])[0]


@rules.infer.register(Convolution)
def _infer(op: Convolution, x: Spec, w: Spec) -> Spec:
    return Spec(_output_shape(op, x.shape, w.shape), _dtype(op, x, w))


def _check_change(op: Any, change: Spec, x: Sequence[int], w: Sequence[int]) -> None:
    wanted = _output_shape(op, x, w)
    if change.shape != wanted:
        raise ShapeError(
            f"{type(op).__name__}: data {tuple(x)} and filter {tuple(w)} give an output of {wanted}, but its change "
            f"is {change!r}"
        )


@rules.infer.register(ConvolutionBackwardData)
def _infer_data(op: ConvolutionBackwardData, w: Spec, change: Spec, shape: Any) -> Spec:
    _check_change(op, change, shape, w.shape)
    return Spec(shape, _dtype(op, w, change))


@rules.infer.register(ConvolutionBackwardFilter)
def _infer_filter(op: ConvolutionBackwardFilter, x: Spec, change: Spec, shape: Any) -> Spec:
    _check_change(op, change, x.shape, shape)
    return Spec(shape, _dtype(op, x, change))


# Evaluation: windows as columns of a matrix, one matrix product a group.
#
# Arrays are laid out channels first, then the axes and the batch. With the batch innermost the runs that are copied
# are long however small the images are; with large images it is better to leave the batch outside.


def _batch_last(batch: int, counts: Sequence[int]) -> bool:
    return batch > 1 and batch * 2 >= (counts[-1] if counts else 1)


def _channels_first(x: Any, batch_last: bool) -> Any:
    """(batch, channels, *axes) as (channels, *axes, batch) or (channels, batch, *axes)."""
    if not batch_last:
        return x.swapaxes(0, 1)
    n = x.shape[0]
    size = x.size // n
    return np.ascontiguousarray(x.reshape(n, size).T).reshape(*x.shape[1:], n)


def _batch_first(x: Any, batch_last: bool) -> Any:
    """The way back from `_channels_first`."""
    if not batch_last:
        return np.ascontiguousarray(x.swapaxes(0, 1))
    n = x.shape[-1]
    return np.ascontiguousarray(x.reshape(x.size // n, n).T).reshape(n, *x.shape[:-1])


def _rows(x: Any, groups: int, rows: int) -> Any:
    """One matrix a group, with this many rows."""
    return x.reshape(groups, rows, x.size // max(groups * rows, 1))


def _columns(op: Any, x: Any, kernel: Sequence[int], counts: Sequence[int], batch_last: bool) -> Any:
    """One matrix a group: a row for each channel and position in the window, a column for each window."""
    first = 1 if batch_last else 2
    laid = pad(_channels_first(x, batch_last), op.padding, first)
    windows = read_windows(laid, first, kernel, op.stride, op.dilation, counts)
    return _rows(windows, op.groups, x.shape[1] // op.groups * int(np.prod(kernel)))


def _empty(*arrays: Any) -> bool:
    return any(x.size == 0 for x in arrays)


@rules.kernel.register(Convolution)
def _kernel(op: Convolution, x: Any, w: Any) -> Any:
    shape = _output_shape(op, x.shape, w.shape)
    if _empty(x, w):
        return np.zeros(shape, np.result_type(x, w))
    counts = shape[2:]
    batch_last = _batch_last(shape[0], counts)
    columns = _columns(op, x, w.shape[2:], counts, batch_last)
    y = np.matmul(w.reshape(op.groups, w.shape[0] // op.groups, columns.shape[1]), columns)
    laid = (shape[1], *counts, shape[0]) if batch_last else (shape[1], shape[0], *counts)
    return _batch_first(y.reshape(laid), batch_last)


@rules.kernel.register(ConvolutionBackwardData)
def _kernel_data(op: ConvolutionBackwardData, w: Any, change: Any, shape: Any) -> Any:
    if _empty(w, change):
        return np.zeros(shape, np.result_type(w, change))
    n, counts, kernel = len(op.stride), change.shape[2:], w.shape[2:]
    batch_last = _batch_last(shape[0], counts)
    out = w.shape[0] // op.groups
    rows = _rows(_channels_first(change, batch_last), op.groups, out)
    columns = np.matmul(w.reshape(op.groups, out, w.size // w.shape[0]).swapaxes(1, 2), rows)
    padded = [length + sum(pads) for length, pads in zip(shape[2:], op.padding, strict=True)]
    inner = (*counts, shape[0]) if batch_last else (shape[0], *counts)
    outer = (shape[1], *padded, shape[0]) if batch_last else (shape[1], shape[0], *padded)
    first = 1 if batch_last else 2
    windows = columns.reshape(shape[1], *kernel, *inner)
    total = crop(add_windows(windows, outer, first, op.stride, op.dilation, n), op.padding, first)
    return _batch_first(total, batch_last)


@rules.kernel.register(ConvolutionBackwardFilter)
def _kernel_filter(op: ConvolutionBackwardFilter, x: Any, change: Any, shape: Any) -> Any:
    if _empty(x, change):
        return np.zeros(shape, np.result_type(x, change))
    counts = change.shape[2:]
    batch_last = _batch_last(x.shape[0], counts)
    columns = _columns(op, x, shape[2:], counts, batch_last)
    rows = _rows(_channels_first(change, batch_last), op.groups, shape[0] // op.groups)
    return np.matmul(rows, columns.swapaxes(1, 2)).reshape(shape)


# Derivatives: each of the three by the other two.


def _convolve(op: Any, x: Any, w: Any) -> Tensor:
    return call_one(_as(Convolution, op), x, w)


def _to_data(op: Any, w: Any, change: Any, shape: Any) -> Tensor:
    return call_one(_as(ConvolutionBackwardData, op), w, change, shape)


def _to_filter(op: Any, x: Any, change: Any, shape: Any) -> Tensor:
    return call_one(_as(ConvolutionBackwardFilter, op), x, change, shape)


@rules.vjp.register(Convolution)
def _vjp(op: Any, inputs: Values, outputs: Values, cotangents: Values) -> Any:
    x, w = inputs
    (change,) = cotangents
    return [
        like(_to_data(op, w, change, shape_value(x)), x),
        like(_to_filter(op, x, change, shape_value(w)), w),
    ]


@rules.vjp.register(ConvolutionBackwardData)
def _vjp_data(op: Any, inputs: Values, outputs: Values, cotangents: Values) -> Any:
    w, change, _ = inputs
    (x,) = cotangents
    return [like(_to_filter(op, x, change, shape_value(w)), w), _cast(_convolve(op, x, w), change), None]


@rules.vjp.register(ConvolutionBackwardFilter)
def _vjp_filter(op: Any, inputs: Values, outputs: Values, cotangents: Values) -> Any:
    x, change, _ = inputs
    (w,) = cotangents
    return [like(_to_data(op, w, change, shape_value(x)), x), _cast(_convolve(op, x, w), change), None]


def _cast(x: Any, wanted: Any) -> Any:
    """`x` in the dtype of `wanted`, whose shape it has already."""
    return x if x.dtype == wanted.dtype else astype(x, wanted.dtype)


def _sum(terms: Sequence[Any]) -> Any:
    """The sum of the terms that are not None."""
    given = [term for term in terms if term is not None]
    return None if not given else given[0] if len(given) == 1 else add(*given)


@rules.jvp.register(Convolution)
def _jvp(op: Any, inputs: Values, outputs: Values, tangents: Values) -> Any:
    (x, w), (dx, dw) = inputs, tangents
    terms = [None if dx is None else _convolve(op, dx, w), None if dw is None else _convolve(op, x, dw)]
    return [_sum([None if term is None else _cast(term, outputs[0]) for term in terms])]


@rules.jvp.register(ConvolutionBackwardData)
def _jvp_data(op: Any, inputs: Values, outputs: Values, tangents: Values) -> Any:
    return [_jvp_transposed(op, inputs, outputs, tangents, _to_data)]


@rules.jvp.register(ConvolutionBackwardFilter)
def _jvp_filter(op: Any, inputs: Values, outputs: Values, tangents: Values) -> Any:
    return [_jvp_transposed(op, inputs, outputs, tangents, _to_filter)]


def _jvp_transposed(op: Any, inputs: Any, outputs: Any, tangents: Any, transposed: Any) -> Any:
    (a, b, shape), (da, db, _) = inputs, tangents
    terms = [None if da is None else transposed(op, da, b, shape),
             None if db is None else transposed(op, a, db, shape)]  # fmt: skip
    return _sum([None if term is None else _cast(term, outputs[0]) for term in terms])


# Batching. Lanes of the data alone are more data. Lanes of the filter are more groups, each reading its own channels;
# where there are no groups and all lanes read the same data, they are just more channels out.


def _fold(x: Any, axis: Any, into: int, size: int) -> Tensor:
    """The lanes of `x` as part of its axis `into`, outermost; repeated where `x` has no lanes."""
    x = as_handle(x)
    if axis is None:
        x, axis = broadcast_to(x, (size, *x.shape)), 0
    x = moveaxis(x, axis, into)
    shape = x.shape
    return reshape(x, (*shape[:into], size * shape[into + 1], *shape[into + 2 :]))


def _unfold(x: Tensor, into: int, size: int) -> Tensor:
    shape = x.shape
    return reshape(x, (*shape[:into], size, shape[into] // size, *shape[into + 1 :]))


def _wider(shape: Any, axis: int, size: int) -> tuple[int, ...]:
    """A shape operand with the lanes in one of its axes."""
    shape = tuple(shape_operand(shape))
    return (*shape[:axis], size * shape[axis], *shape[axis + 1 :])


def _grouped(op: Any, size: int) -> Any:
    return attrs.evolve(op, groups=op.groups * size)


@rules.batch.register(Convolution)
def _batch(op: Any, size: int, inputs: Values, axes: Values) -> Any:
    (x, w), (ax, aw) = inputs, axes
    if aw is None:
        return [_unfold(_convolve(op, _fold(x, ax, 0, size), w), 0, size)], [0]
    if ax is None and op.groups == 1:
        return [_unfold(_convolve(op, x, _fold(w, aw, 0, size)), 1, size)], [1]
    y = _convolve(_grouped(op, size), _fold(x, ax, 1, size), _fold(w, aw, 0, size))
    return [_unfold(y, 1, size)], [1]


@rules.batch.register(ConvolutionBackwardData)
def _batch_data(op: Any, size: int, inputs: Values, axes: Values) -> Any:
    (w, change, shape), (aw, ac, _) = inputs, axes
    if aw is None:
        x = _to_data(op, w, _fold(change, ac, 0, size), _wider(shape, 0, size))
        return [_unfold(x, 0, size)], [0]
    folded = _fold(w, aw, 0, size), _fold(change, ac, 1, size)
    return [_unfold(_to_data(_grouped(op, size), *folded, _wider(shape, 1, size)), 1, size)], [1]


@rules.batch.register(ConvolutionBackwardFilter)
def _batch_filter(op: Any, size: int, inputs: Values, axes: Values) -> Any:
    (x, change, shape), (ax, ac, _) = inputs, axes
    wide = _wider(shape, 0, size)
    if ax is None and op.groups == 1:
        return [_unfold(_to_filter(op, x, _fold(change, ac, 1, size), wide), 0, size)], [0]
    w = _to_filter(_grouped(op, size), _fold(x, ax, 1, size), _fold(change, ac, 1, size), wide)
    return [_unfold(w, 0, size)], [0]


# The public functions.


def convolution(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """Slide `weight` (channels out, channels / groups, *kernel) over `x` (batch, channels, *axes); any number of axes.

    Output: (batch, channels out, *(axis + padding - dilation * (kernel - 1) - 1) // stride + 1), in the dtype that
    `x` and `weight` promote to. `stride`, `padding`, `dilation` are ints or one int an axis; a padding may also be a
    (before, after) pair for each axis, "valid" (none) or "same" (the output as long as the input, for stride 1).
    A `weight` with the groups as an axis of their own in front is taken as well. `bias` has one element a channel out.
    Raises ShapeError, DTypeError and OperatorError.

    >>> import interp
    >>> x = interp.tensor([[[1.0, 2.0, 3.0, 4.0]]])
    >>> convolution(x, interp.tensor([[[1.0, -1.0]]]))
    tensor([[[-1., -1., -1.]]])
    """
    x, weight = as_handle(x), as_handle(weight)
    n = x.ndim - 2
    if n < 0:
        raise ShapeError(f"convolution: data must be (batch, channels, *axes), but has {x.ndim} axes")
    weight = _joined_groups(weight, n)
    strides = per_axis(stride, n, "convolution: stride")
    spread = per_axis(dilation, n, "convolution: dilation")
    pads = _padding(padding, n, weight, strides, spread)
    return _with_bias(call_one(make_convolution(strides, pads, spread, int(groups)), x, weight), bias)


def _joined_groups(weight: Tensor, n: int) -> Tensor:
    """A filter whose groups are an axis of their own, as (channels out, channels in a group, *axes)."""
    if weight.ndim != n + 3:
        return weight
    shape = weight.shape
    return reshape(weight, (shape[0] * shape[1], *shape[2:]))


def _padding(padding: Any, n: int, weight: Tensor, stride: Sequence[int], dilation: Sequence[int]) -> Pads:
    if not isinstance(padding, str):
        return pads_per_axis(padding, n, "convolution: padding")
    if padding.lower() == "valid":
        return ((0, 0),) * n
    if padding.lower() != "same" or any(step != 1 for step in stride):
        raise OperatorError(f'convolution: padding is ints, "valid", or "same" with stride 1; not {padding!r}')
    totals = [spread * (k - 1) for k, spread in zip(weight.shape[2:], dilation, strict=True)]
    return tuple((total // 2, total - total // 2) for total in totals)


def _with_bias(y: Tensor, bias: Any) -> Tensor:
    if bias is None:
        return y
    bias = as_handle(bias)
    return add(y, reshape(bias, (-1,) + (1,) * (y.ndim - 2)) if bias.ndim == 1 else bias)


def _over(n: int, name: str, x: Any) -> Tensor:
    data = as_handle(x)
    if data.ndim != n + 2:
        raise ShapeError(f"{name}: data must be (batch, channels, {n} axes), but has {data.ndim} axes")
    return data


def conv1d(
    x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Tensor:
    """`convolution` over one axis: `x` (batch, channels, length). Raises what that raises."""
    return convolution(_over(1, "conv1d", x), weight, bias, stride, padding, dilation, groups)


def conv2d(
    x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Tensor:
    """`convolution` over two axes: `x` (batch, channels, height, width). Raises what that raises.

    >>> import interp, ops
    >>> ops.nn.conv2d(interp.tensor([[[[1.0, 2.0], [3.0, 4.0]]]]), interp.tensor([[[[2.0]]]]), padding=(0, 1))
    tensor([[[[0., 2., 4., 0.],
              [0., 6., 8., 0.]]]])
    """
    return convolution(_over(2, "conv2d", x), weight, bias, stride, padding, dilation, groups)


def conv3d(
    x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Tensor:
    """`convolution` over three axes: `x` (batch, channels, depth, height, width). Raises what that raises."""
    return convolution(_over(3, "conv3d", x), weight, bias, stride, padding, dilation, groups)


def _transposed(
    n: int, name: str, x: Any, weight: Any, bias: Any, stride: Any, padding: Any, output_padding: Any,
    groups: int, dilation: Any,
) -> Tensor:  # fmt: skip
    x, weight = _over(n, name, x), _joined_groups(as_handle(weight), n)
    steps, spread = per_axis(stride, n, f"{name}: stride"), per_axis(dilation, n, f"{name}: dilation")
    pads = pads_per_axis(padding, n, f"{name}: padding")
    extra = per_axis(output_padding, n, f"{name}: output_padding", 0)
    if weight.ndim != n + 2:
        raise ShapeError(f"{name}: a filter of shape {weight.shape} for data of shape {x.shape}")
    lengths = [
        (length - 1) * step - before - after + d * (k - 1) + 1 + more
        for length, step, (before, after), d, k, more in zip(
            x.shape[2:], steps, pads, spread, weight.shape[2:], extra, strict=True
        )
    ]
    shape = (x.shape[0], weight.shape[1] * groups, *lengths)
    return _with_bias(call_one(ConvolutionBackwardData(steps, pads, spread, int(groups)), weight, x, shape), bias)


def conv_transpose1d(
    x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
    groups: int = 1, dilation: Any = 1,
) -> Tensor:  # fmt: skip
    """As `conv_transpose2d`, over one axis."""
    return _transposed(1, "conv_transpose1d", x, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose2d(
    x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
    groups: int = 1, dilation: Any = 1,
) -> Tensor:  # fmt: skip
    """The transpose of `conv2d` in its data: `x` (batch, channels, height, width), `weight` (channels, channels out /
    groups, *kernel), output axes (axis - 1) * stride - padding + dilation * (kernel - 1) + 1 + output_padding.

    Raises ShapeError, DTypeError and OperatorError.

    >>> import interp, ops
    >>> ops.nn.conv_transpose2d(interp.tensor([[[[1.0, 2.0]]]]), interp.tensor([[[[1.0, 1.0]]]]), stride=(1, 2))
    tensor([[[[1., 1., 2., 2.]]]])
    """
    return _transposed(2, "conv_transpose2d", x, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose3d(
    x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
    groups: int = 1, dilation: Any = 1,
) -> Tensor:  # fmt: skip
    """As `conv_transpose2d`, over three axes."""
    return _transposed(3, "conv_transpose3d", x, weight, bias, stride, padding, output_padding, groups, dilation)
