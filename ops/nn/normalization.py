"""Normalisation: to mean zero and variance one over some axes, then scaled and shifted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import attrs
import numpy as np

from interp import DTypeError, OpDef, OperatorError, ShapeError, Spec, Tensor, read, rules
from interp.dtypes import default_dtype, is_floating
from interp.tensor import call, call_one

from ..arithmetic import add, divide, multiply, negative, pow, subtract
from ..axes import Values, as_handle, normal_axes, reused
from ..broadcasting import broadcast_to
from ..casting import astype
from ..exponential import rsqrt
from ..manipulation import moveaxis, reshape
from ..reduction import axis_size, mean
from .pooling import Pooling, PoolingMode

__all__ = [
    "Standardize",
    "UpdateStatistic",
    "batch_norm",
    "group_norm",
    "instance_norm",
    "layer_norm",
    "local_response_norm",
]


@attrs.frozen
class Standardize(OpDef):
    """The input less its mean over `axis`, divided by the root of its variance plus `eps`.

    Outputs: that; the mean; one over the root. The latter two keep the axes, with length 1.
    """

    axis: tuple[int, ...]
    eps: float = 1e-5


@attrs.frozen
class UpdateStatistic(OpDef):
    """`momentum` times a running statistic plus `1 - momentum` times the current one, which has as many elements.

    Nothing learns through a running statistic: there is no gradient.
    """

    cuts_gradient: ClassVar[bool] = True

    momentum: float


make_standardize = reused(Standardize)


@rules.infer.register(Standardize)
def _infer(op: Standardize, x: Spec) -> tuple[Spec, Spec, Spec]:
    axes = normal_axes(op.axis, x.ndim, "Standardize")
    if x.dtype.kind != "f":
        raise DTypeError(f"Standardize takes real floats; it was given {x!r}")
    kept = Spec(tuple(1 if axis in axes else n for axis, n in enumerate(x.shape)), x.dtype)
    return Spec(x.shape, x.dtype), kept, kept


@rules.kernel.register(Standardize)
def _kernel(op: Standardize, x: Any) -> Any:
    dtype = np.float32 if x.dtype == np.float16 else x.dtype  # half precision would overflow in the squares
    size = max(math.prod(x.shape[axis] for axis in op.axis), 1)
    middle = np.add.reduce(x, axis=op.axis, dtype=dtype, keepdims=True) / size
    centred = x - middle
    variance = np.add.reduce(np.square(centred), axis=op.axis, keepdims=True) / size
    scale = np.reciprocal(np.sqrt(variance + op.eps))
    return centred * scale, middle, scale


# With y, m, r for the outputs and t a change of x:
# dm = mean(t), dr = -r^2 mean(y t), dy = r (t - mean(t) - y mean(y t)).


def _mean(op: Standardize, x: Any) -> Tensor:
    return mean(x, axis=op.axis, keepdims=True)


@rules.jvp.register(Standardize)
def _jvp(op: Standardize, inputs: Values, outputs: Values, tangents: Values) -> Any:
    (y, _, r), (t,) = outputs, tangents
    dm, along = _mean(op, t), _mean(op, multiply(y, t))
    dy = multiply(r, subtract(subtract(t, dm), multiply(y, along)))
    return [dy, dm, negative(multiply(multiply(r, r), along))]


@rules.vjp.register(Standardize)
def _vjp(op: Standardize, inputs: Values, outputs: Values, cotangents: Values) -> Any:
    (y, _, r), (gy, gm, gr) = outputs, cotangents
    size = axis_size(inputs[0], op.axis, y.dtype)
    along = add(_mean(op, multiply(gy, y)), multiply(gr, divide(r, size)))
    through_y = multiply(r, subtract(subtract(gy, _mean(op, gy)), multiply(y, along)))
    return [add(through_y, divide(gm, size))]


@rules.batch.register(Standardize)
def _batch(op: Standardize, size: int, inputs: Values, axes: Values) -> Any:
    shifted = attrs.evolve(op, axis=tuple(axis + 1 for axis in op.axis))
    return list(call(shifted, moveaxis(inputs[0], axes[0], 0))), [0, 0, 0]


@rules.infer.register(UpdateStatistic)
def _infer_update(op: UpdateStatistic, running: Spec, current: Spec) -> Spec:
    if running.dtype.kind != "f" or current.dtype.kind != "f":
        raise DTypeError(f"UpdateStatistic takes real floats; it was given {running!r}, {current!r}")
    if running.size != current.size:
        raise ShapeError(f"UpdateStatistic: the running statistic {running!r} and the current one {current!r}")
    return Spec(running.shape, running.dtype)


@rules.kernel.register(UpdateStatistic)
def _kernel_update(op: UpdateStatistic, running: Any, current: Any) -> Any:
    return op.momentum * running + (1.0 - op.momentum) * current.reshape(running.shape)


@rules.vjp.register(UpdateStatistic)
def _vjp_update(op: UpdateStatistic, inputs: Values, outputs: Values, cotangents: Values) -> Any:
    return [None, None]


@rules.jvp.register(UpdateStatistic)
def _jvp_update(op: UpdateStatistic, inputs: Values, outputs: Values, tangents: Values) -> Any:
    return [None]


@rules.batch.register(UpdateStatistic)
def _batch_update(op: UpdateStatistic, size: int, inputs: Values, axes: Values) -> Any:
    running, current = (
        broadcast_to(x, (size, *x.shape)) if axis is None else moveaxis(x, axis, 0)
        for x, axis in zip(map(as_handle, inputs), axes, strict=True)
    )
    return [call_one(op, running, current)], [0]


def _floating(x: Any, name: str) -> Tensor:
    x = as_handle(x)
    if x.dtype.kind == "c":
        raise DTypeError(f"{name} takes real numbers, not {x.dtype}")
    return x if is_floating(x.dtype) else astype(x, default_dtype())


def _affine(y: Tensor, weight: Any, bias: Any, shape: Sequence[int]) -> Tensor:
    """`y` scaled and shifted by parameters that stand for `shape` of it."""
    if weight is not None:
        y = multiply(y, reshape(weight, shape))
    return y if bias is None else add(y, reshape(bias, shape))


def _channels(x: Tensor, name: str) -> tuple[int, ...]:
    """The shape of one parameter a channel, as it meets data (batch, channels, *axes)."""
    if x.ndim < 2:
        raise ShapeError(f"{name}: data must be (batch, channels, *axes), but has shape {x.shape}")
    return (x.shape[1],) + (1,) * (x.ndim - 2)


def layer_norm(x: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Tensor:
    """Normalise over the last axes, whose lengths are `normalized_shape`; then scale by `weight` and add `bias`,
    both of that shape. Shape and dtype of `x` are kept; integers give the default dtype.

    Raises ShapeError where the last axes have other lengths. Source: Ba et al., "Layer normalization", 2016.

    >>> import interp
    >>> layer_norm(interp.tensor([[1.0, 3.0]]), 2, eps=0.0)
    tensor([[-1.,  1.]])
    """
    x = _floating(x, "layer_norm")
    shape = (normalized_shape,) if isinstance(normalized_shape, (int, np.integer)) else tuple(normalized_shape)
    if not shape or x.shape[-len(shape) :] != shape:
        raise ShapeError(f"layer_norm: the last axes of data of shape {x.shape} are not {shape}")
    y = call(make_standardize(tuple(range(x.ndim - len(shape), x.ndim)), float(eps)), x)[0]
    return _affine(y, weight, bias, shape)


def group_norm(x: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Tensor:
    """Normalise `x` (batch, channels, *axes) over `num_groups` groups of channels and all axes; `weight` and `bias`
    have one element a channel. Shape and dtype of `x` are kept.

    Raises ShapeError where the channels do not divide by the groups. Source: Wu and He, "Group normalization", 2018.

    >>> import interp
    >>> group_norm(interp.tensor([[1.0, 3.0, 0.0, 8.0]]), 2, eps=0.0)
    tensor([[-1.,  1., -1.,  1.]])
    """
    x = _floating(x, "group_norm")
    per_channel = _channels(x, "group_norm")
    batch, channels, *lengths = x.shape
    if num_groups < 1 or channels % num_groups:
        raise ShapeError(f"group_norm: {channels} channels do not make {num_groups} groups")
    grouped = reshape(x, (batch, num_groups, channels // num_groups * math.prod(lengths)))
    y = call(make_standardize((2,), float(eps)), grouped)[0]
    return _affine(reshape(y, x.shape), weight, bias, per_channel)


def instance_norm(x: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Tensor:
    """Normalise each channel of each element of `x` (batch, channels, *axes) over the axes.

    As `group_norm` with a group for each channel. Source: Ulyanov et al., "Instance normalization", 2016.

    >>> import interp
    >>> instance_norm(interp.tensor([[[1.0, 3.0], [0.0, 8.0]]]), eps=0.0)
    tensor([[[-1.,  1.],
             [-1.,  1.]]])
    """
    x = _floating(x, "instance_norm")
    per_channel = _channels(x, "instance_norm")
    y = call(make_standardize(tuple(range(2, x.ndim)), float(eps)), x)[0]
    return _affine(y, weight, bias, per_channel)


def batch_norm(
    x: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    *,
    training: bool = False,
    momentum: float = 0.9,
    eps: float = 1e-5,
    inplace: bool = True,
) -> Any:
    """Normalise each channel of `x` (batch, channels, *axes) over the batch and the axes.

    When training, by the statistics of `x`; else by the running ones, which have one element a channel, as `weight`
    and `bias` have. When training with running statistics given, they become `momentum` times themselves plus
    `1 - momentum` times those of `x` (the variance with correction 1), without a gradient: with `inplace`, their
    handles are rebound; otherwise they stay, and the result is `(y, running_mean, running_var)`.

    Raises OperatorError when not training without running statistics, or where a handle is needed and is not one.
    Source: Ioffe and Szegedy, "Batch normalization", 2015.

    >>> import interp
    >>> mean, var = interp.tensor([0.0]), interp.tensor([1.0])
    >>> batch_norm(interp.tensor([[1.0], [3.0]]), mean, var, training=True, eps=0.0)
    tensor([[-1.],
            [ 1.]])
    >>> mean, var
    (tensor([0.2]), tensor([1.1]))
    """
    x = _floating(x, "batch_norm")
    per_channel = _channels(x, "batch_norm")
    if not training:
        if running_mean is None or running_var is None:
            raise OperatorError("batch_norm needs running_mean and running_var when it is not training")
        scale = rsqrt(add(reshape(running_var, per_channel), float(eps)))
        y = multiply(subtract(x, reshape(running_mean, per_channel)), scale)
        return _affine(y, weight, bias, per_channel)
    axes = (0, *range(2, x.ndim))
    y, middle, scale = call(make_standardize(axes, float(eps)), x)
    y = _affine(y, weight, bias, per_channel)
    if running_mean is None or running_var is None:
        return y
    size = math.prod(x.shape[axis] for axis in axes)
    variance = subtract(divide(1.0, multiply(scale, scale)), float(eps))
    unbiased = multiply(variance, size / max(size - 1, 1))
    update = UpdateStatistic(float(momentum))
    new_mean, new_var = call_one(update, running_mean, middle), call_one(update, running_var, unbiased)
    if not inplace:
        return y, new_mean, new_var
    for handle, moved in ((running_mean, new_mean), (running_var, new_var)):
        if not isinstance(handle, Tensor):
            raise OperatorError("batch_norm(inplace=True) rebinds the handles of running statistics: pass Tensors")
        handle._rebind(read(moved))
    return y


def local_response_norm(
    x: Any, kernel_size: int = 5, k: float = 2.0, alpha: float = 1e-4, beta: float = 0.75
) -> Tensor:
    """`x / (k + alpha * s) ** beta`, where `s` sums the squares of the `kernel_size` channels around each; `x` is
    (batch, channels, *axes), `kernel_size` odd.

    Raises OperatorError for an even size, ShapeError for data without channels.
    Source: Krizhevsky et al., "ImageNet classification with deep convolutional neural networks", 2012.

    >>> import interp
    >>> local_response_norm(interp.tensor([[3.0, 4.0]]), 3, k=0.0, alpha=1.0, beta=0.5)
    tensor([[0.6, 0.8]])
    """
    x = _floating(x, "local_response_norm")
    _channels(x, "local_response_norm")
    if kernel_size < 1 or kernel_size % 2 == 0:
        raise OperatorError(f"local_response_norm: kernel_size must be odd, not {kernel_size}")
    around = kernel_size // 2
    squares = moveaxis(multiply(x, x), 1, -1)
    means = call_one(Pooling(PoolingMode.AVERAGE, (kernel_size,), (1,), ((around, around),)), squares)
    total = multiply(moveaxis(means, -1, 1), float(alpha * kernel_size))
    return divide(x, pow(add(total, float(k)), float(beta)))
