"""Stretching to a shape, and its transpose: summing back to a shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import attrs
import numpy as np

from interp import OpDef, ShapeError, Spec, Tensor, read, rules
from interp.tensor import call_one
from interp.value import Wrapper, shape_of, spec_of

__all__ = ["BroadcastTo", "SumTo", "broadcast_to", "like", "shape_operand", "shape_value", "spread", "sum_to"]


@attrs.frozen
class BroadcastTo(OpDef):
    """Stretch the first input to the shape that is the second."""

    checks_first: ClassVar[bool] = False


@attrs.frozen
class SumTo(OpDef):
    """Sum the first input over the axes along which the shape that is the second would have been stretched."""

    checks_first: ClassVar[bool] = False


def shape_value(x: Any) -> Any:
    """The shape of `x` as an operand: a tuple, or a recorded stand-in when a rule is being recorded."""
    value = read(x) if isinstance(x, Tensor) else x
    return value.symbolic_shape() if isinstance(value, Wrapper) else shape_of(value)


def _same_shape(x: Any, y: Any) -> bool:
    return spec_of(getattr(x, "_value", x)).shape is spec_of(getattr(y, "_value", y)).shape


def shape_operand(shape: Any) -> Any:
    """What an operator takes for a shape argument: a tuple of ints, or the recorded stand-in for one."""
    if isinstance(shape, Tensor):
        return read(shape)
    if isinstance(shape, Wrapper):
        return shape
    return (int(shape),) if isinstance(shape, (int, np.integer)) else tuple(int(n) for n in shape)


def broadcast_to(x: Any, /, shape: Any) -> Tensor:
    """`x` stretched to `shape` by numpy's rules. Raises ShapeError where that is impossible.

    >>> import interp
    >>> broadcast_to(interp.tensor([1.0, 2.0]), (2, 2))
    tensor([[1., 2.],
            [1., 2.]])
    """
    return call_one(BroadcastTo(), x, shape_operand(shape))


def sum_to(x: Any, /, shape: Any) -> Tensor:
    """`x` summed to `shape`: the transpose of `broadcast_to`. Raises ShapeError where shapes do not fit.

    >>> import interp
    >>> sum_to(interp.tensor([[1.0, 2.0], [3.0, 4.0]]), (2,))
    tensor([4., 6.])
    """
    return call_one(SumTo(), x, shape_operand(shape))


def like(change: Any, x: Any) -> Any:
    """A change with the shape and dtype of `x`: summed where `x` was stretched, cast where it was promoted."""
    from .casting import astype
    from .complex import real

    if change.dtype.kind == "c" and x.dtype.kind != "c":
        change = real(change)
    if change.dtype != x.dtype:
        change = astype(change, x.dtype)
    return change if _same_shape(change, x) else sum_to(change, shape_value(x))


def spread(change: Any, out: Any) -> Any:
    """A change with the shape and dtype of `out`: stretched where an input was, cast where it was promoted."""
    from .casting import astype

    if change.dtype != out.dtype:
        change = astype(change, out.dtype)
    return change if _same_shape(change, out) else broadcast_to(change, shape_value(out))


@rules.infer.register(BroadcastTo)
def _infer_broadcast(op: BroadcastTo, x: Spec, shape: Any) -> Spec:
    try:
        fits = np.broadcast_shapes(x.shape, shape) == tuple(shape)
    except ValueError:
        fits = False
    if not fits:
        raise ShapeError(f"broadcast_to: {x!r} cannot be stretched to {tuple(shape)}")
    return Spec(shape, x.dtype)


@rules.kernel.register(BroadcastTo)
def _kernel_broadcast(op: BroadcastTo, x: Any, shape: Any) -> Any:
    return np.broadcast_to(x, shape)


@rules.vjp.register(BroadcastTo)
def _vjp_broadcast(op: BroadcastTo, inputs: Sequence[Any], outputs: Sequence[Any], cotangents: Sequence[Any]) -> Any:
    return [like(cotangents[0], inputs[0]), None]


@rules.jvp.register(BroadcastTo)
def _jvp_broadcast(op: BroadcastTo, inputs: Sequence[Any], outputs: Sequence[Any], tangents: Sequence[Any]) -> Any:
    return [broadcast_to(tangents[0], inputs[1])]


@rules.infer.register(SumTo)
def _infer_sum(op: SumTo, x: Spec, shape: Any) -> Spec:
    try:
        fits = np.broadcast_shapes(x.shape, shape) == x.shape
    except ValueError:
        fits = False
    if not fits:
        raise ShapeError(f"sum_to: {x!r} is not what {tuple(shape)} stretches to")
    return Spec(shape, x.dtype)


@rules.kernel.register(SumTo)
def _kernel_sum(op: SumTo, x: Any, shape: Any) -> Any:
    if x.shape == shape:
        return x
    extra = x.ndim - len(shape)
    axes = tuple(range(extra)) + tuple(
        extra + i for i, length in enumerate(shape) if length == 1 and x.shape[extra + i] != 1
    )
    return np.sum(x, axis=axes, dtype=x.dtype).reshape(shape)


@rules.vjp.register(SumTo)
def _vjp_sum(op: SumTo, inputs: Sequence[Any], outputs: Sequence[Any], cotangents: Sequence[Any]) -> Any:
    return [broadcast_to(cotangents[0], shape_value(inputs[0])), None]


@rules.jvp.register(SumTo)
def _jvp_sum(op: SumTo, inputs: Sequence[Any], outputs: Sequence[Any], tangents: Sequence[Any]) -> Any:
    return [sum_to(tangents[0], inputs[1])]


def batch_to_front(x: Any, axis: int | None, ndim: int) -> Any:
    """A batched operand with its batch axis first and, behind it, axes of length 1 up to `ndim` of the example's."""
    from .manipulation import expand_dims, moveaxis

    if axis is None:
        return x
    if axis:
        x = moveaxis(x, axis, 0)
    missing = ndim - (x.ndim - 1)
    return expand_dims(x, axis=tuple(range(1, 1 + missing))) if missing > 0 else x


@rules.batch.register(BroadcastTo)
def _batch_broadcast(op: BroadcastTo, size: int, inputs: Sequence[Any], axes: Sequence[Any]) -> Any:
    shape = inputs[1]
    return [broadcast_to(batch_to_front(inputs[0], axes[0], len(shape)), (size, *shape))], [0]


@rules.batch.register(SumTo)
def _batch_sum(op: SumTo, size: int, inputs: Sequence[Any], axes: Sequence[Any]) -> Any:
    from .reduction import sum as sum_over

    x = batch_to_front(inputs[0], axes[0], 0)
    extra = x.ndim - 1 - len(inputs[1])
    if extra:
        x = sum_over(x, axis=tuple(range(1, 1 + extra)))
    return [sum_to(x, (size, *inputs[1]))], [0]
