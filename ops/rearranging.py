"""Mirroring, rotating and repeating along axes; diagonals and triangles of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from interp import DTypeError, OpDef, OperatorError, ShapeError, Spec, Tensor, rules
from interp.tensor import call_one

from .axes import Values, as_handle, normal_axes, normal_axis
from .broadcasting import broadcast_to, shape_operand, shape_value
from .manipulation import expand_dims, flatten, moveaxis, reshape

__all__ = [
    "Diagonal",
    "Flip",
    "FromDiagonal",
    "Roll",
    "Triangle",
    "diag",
    "flip",
    "repeat",
    "roll",
    "tile",
    "tril",
    "triu",
]


@attrs.frozen
class Flip(OpDef):
    """The input with the order of elements along the axes `axis` reversed."""

    axis: tuple[int, ...]


@attrs.frozen
class Roll(OpDef):
    """The input moved on by `shift[i]` along `axis[i]`; what leaves at the end comes back at the start."""

    shift: tuple[int, ...]
    axis: tuple[int, ...]


@attrs.frozen
class Triangle(OpDef):
    """A stack of matrices with zeros below (`upper`) or above the `k`-th diagonal."""

    upper: bool
    k: int = 0


@attrs.frozen
class Diagonal(OpDef):
    """The `offset`-th diagonals of a stack of matrices (..., M, N)."""

    offset: int = 0


@attrs.frozen
class FromDiagonal(OpDef):
    """Matrices of the shape that is the second input, with the first as their `offset`-th diagonal, else zero."""

    offset: int = 0


# Operators that keep the shape: mirrored by themselves, rolled back, masked again.


@rules.infer.register(Flip)
def _infer_flip(op: Flip, x: Spec) -> Spec:
    normal_axes(op.axis, x.ndim, "flip")
    return Spec(x.shape, x.dtype)


@rules.kernel.register(Flip)
def _kernel_flip(op: Flip, x: Any) -> Any:
    return np.flip(x, op.axis)


@rules.infer.register(Roll)
def _infer_roll(op: Roll, x: Spec) -> Spec:
    for axis in op.axis:
        normal_axis(axis, x.ndim, "roll")
    return Spec(x.shape, x.dtype)


@rules.kernel.register(Roll)
def _kernel_roll(op: Roll, x: Any) -> Any:
    return np.roll(x, op.shift, op.axis)


@rules.infer.register(Triangle)
def _infer_triangle(op: Triangle, x: Spec) -> Spec:
    if x.ndim < 2:
        raise ShapeError(f"{'triu' if op.upper else 'tril'} needs at least two axes; it was given {x!r}")
    return Spec(x.shape, x.dtype)


@rules.kernel.register(Triangle)
def _kernel_triangle(op: Triangle, x: Any) -> Any:
    return np.triu(x, op.k) if op.upper else np.tril(x, op.k)


def _transpose(op: OpDef) -> OpDef:
    return Roll(tuple(-shift for shift in op.shift), op.axis) if isinstance(op, Roll) else op


@rules.vjp.register(Flip, Roll, Triangle)
def _vjp_same(op: OpDef, inputs: Values, outputs: Values, cotangents: Values) -> Any:
    return [call_one(_transpose(op), cotangents[0])]


@rules.jvp.register(Flip, Roll, Triangle, Diagonal)
def _jvp_same(op: OpDef, inputs: Values, outputs: Values, tangents: Values) -> Any:
    return [call_one(op, tangents[0])]


@rules.batch.register(Flip, Roll)
def _batch_axis(op: Any, size: int, inputs: Values, axes: Values) -> Any:
    lanes = attrs.evolve(op, axis=tuple(axis + 1 for axis in op.axis))
    return [call_one(lanes, moveaxis(inputs[0], axes[0], 0))], [0]


@rules.batch.register(Triangle, Diagonal)
def _batch_matrices(op: OpDef, size: int, inputs: Values, axes: Values) -> Any:
    return [call_one(op, moveaxis(inputs[0], axes[0], 0))], [0]


# Diagonals.


def _diagonal_length(shape: Sequence[int], offset: int) -> int:
    rows, columns = shape[-2:]
    return max(0, min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns))


@rules.infer.register(Diagonal)
def _infer_diagonal(op: Diagonal, x: Spec) -> Spec:
    if x.ndim < 2:
        raise ShapeError(f"diagonal needs at least two axes; it was given {x!r}")
    return Spec((*x.shape[:-2], _diagonal_length(x.shape, op.offset)), x.dtype)


@rules.kernel.register(Diagonal)
def _kernel_diagonal(op: Diagonal, x: Any) -> Any:
    return np.diagonal(x, op.offset, -2, -1)


@rules.vjp.register(Diagonal)
def _vjp_diagonal(op: Diagonal, inputs: Values, outputs: Values, cotangents: Values) -> Any:
    return [call_one(FromDiagonal(op.offset), cotangents[0], shape_value(inputs[0]))]


@rules.infer.register(FromDiagonal)
def _infer_from_diagonal(op: FromDiagonal, x: Spec, shape: Any) -> Spec:
    if len(shape) < 2 or (*shape[:-2], _diagonal_length(shape, op.offset)) != x.shape:
        raise ShapeError(f"{x!r} is not the diagonal {op.offset} of an array of shape {tuple(shape)}")
    return Spec(shape, x.dtype)


@rules.kernel.register(FromDiagonal)
def _kernel_from_diagonal(op: FromDiagonal, x: Any, shape: Any) -> Any:
    result = np.zeros(shape, x.dtype)
    steps = np.arange(x.shape[-1])
    result[..., steps + max(-op.offset, 0), steps + max(op.offset, 0)] = x
    return result


@rules.vjp.register(FromDiagonal)
def _vjp_from_diagonal(op: FromDiagonal, inputs: Values, outputs: Values, cotangents: Values) -> Any:
    return [call_one(Diagonal(op.offset), cotangents[0]), None]


@rules.jvp.register(FromDiagonal)
def _jvp_from_diagonal(op: FromDiagonal, inputs: Values, outputs: Values, tangents: Values) -> Any:
    return [call_one(op, tangents[0], shape_value(outputs[0]))]


@rules.batch.register(FromDiagonal)
def _batch_from_diagonal(op: FromDiagonal, size: int, inputs: Values, axes: Values) -> Any:
    shape = (size, *shape_operand(inputs[1]))
    return [call_one(op, moveaxis(inputs[0], axes[0], 0), shape)], [0]


# Public functions.


def flip(x: Any, /, *, axis: Any = None) -> Tensor:
    """`x` with the order of elements along `axis` (an int, a tuple, or None for all axes) reversed.

    Raises ShapeError for an axis that does not exist.

    >>> flip([1.0, 2.0, 3.0])
    tensor([3., 2., 1.])
    """
    handle = as_handle(x)
    return call_one(Flip(normal_axes(axis, handle.ndim, "flip")), handle)


def roll(x: Any, /, shift: Any, *, axis: Any = None) -> Tensor:
    """`x` moved on by `shift` along `axis`, round and round; without an axis, as if it were flat.

    Several shifts go with as many axes. Raises ShapeError for an axis that does not exist, or where counts differ.

    >>> roll([1.0, 2.0, 3.0], 1)
    tensor([3., 1., 2.])
    """
    handle = as_handle(x)
    if axis is None:
        return reshape(roll(flatten(handle), shift, axis=0), shape_value(handle))
    given = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    axes = tuple(normal_axis(a, handle.ndim, "roll") for a in given)
    shifts = tuple(shift) if isinstance(shift, (tuple, list)) else (shift,) * len(axes)
    if len(shifts) != len(axes):
        raise ShapeError(f"roll: {len(shifts)} shifts do not go with {len(axes)} axes")
    return call_one(Roll(tuple(int(s) for s in shifts), axes), handle)


def tile(x: Any, repetitions: Any, /) -> Tensor:
    """`x` laid beside itself, `repetitions[i]` times along axis `i`; the shorter of both is padded with ones in front.

    Raises OperatorError for a negative number.

    >>> tile([1.0, 2.0], (2, 2))
    tensor([[1., 2., 1., 2.],
            [1., 2., 1., 2.]])
    """
    handle = as_handle(x)
    times = shape_operand(repetitions)
    if min(times, default=0) < 0:
        raise OperatorError(f"tile: repetitions {times} must not be negative")
    shape = handle.shape
    ndim = max(len(times), len(shape))
    times = (1,) * (ndim - len(times)) + times
    shape = (1,) * (ndim - len(shape)) + shape
    apart = reshape(handle, tuple(n for length in shape for n in (1, length)))
    stretched = broadcast_to(apart, tuple(n for pair in zip(times, shape) for n in pair))
    return reshape(stretched, tuple(t * n for t, n in zip(times, shape)))


def repeat(x: Any, repeats: Any, /, *, axis: int | None = None) -> Tensor:
    """Each element of `x` along `axis` repeated: `repeats` times, or as many times as a sequence of ints tells.

    Without an axis `x` is flattened. Raises ShapeError for an axis that does not exist, OperatorError for a
    negative number.

    >>> repeat([1.0, 2.0], 2), repeat([1.0, 2.0], [1, 2])
    (tensor([1., 1., 2., 2.]), tensor([1., 2., 2.]))
    """
    handle = as_handle(x)
    if axis is None:
        return repeat(flatten(handle), repeats, axis=0)
    place = normal_axis(axis, handle.ndim, "repeat")
    counts = np.asarray(repeats)
    if counts.dtype.kind not in "iu":
        raise DTypeError(f"repeat: repeats must be integers, not {counts.dtype}")
    if (counts < 0).any():
        raise OperatorError("repeat: repeats must not be negative")
    shape = handle.shape
    if counts.ndim:
        from .gathering import take

        if counts.shape not in ((1,), (shape[place],)):
            raise ShapeError(f"repeat: repeats of shape {counts.shape} do not go with axis {place} of {shape}")
        if counts.shape != (1,):
            return take(handle, np.repeat(np.arange(shape[place]), counts), axis=place)
    times = int(counts.reshape(()))
    stretched = broadcast_to(
        expand_dims(handle, axis=place + 1), (*shape[: place + 1], times, *shape[place + 1 :])
    )
    return reshape(stretched, (*shape[:place], shape[place] * times, *shape[place + 1 :]))


def diag(x: Any, /, k: int = 0) -> Tensor:
    """The `k`-th diagonal of a matrix; of a vector, the square matrix with it as `k`-th diagonal.

    Raises ShapeError for other ranks.

    >>> diag([[1.0, 2.0], [3.0, 4.0]]), diag([1.0], 1)
    (tensor([1., 4.]), tensor([[0., 1.],
                               [0., 0.]]))
    """
    handle = as_handle(x)
    if handle.ndim == 2:
        return call_one(Diagonal(int(k)), handle)
    if handle.ndim != 1:
        raise ShapeError(f"diag takes a vector or a matrix; it was given {handle.ndim} axes")
    side = handle.shape[0] + abs(int(k))
    return call_one(FromDiagonal(int(k)), handle, (side, side))


def tril(x: Any, /, *, k: int = 0) -> Tensor:
    """A stack of matrices (..., M, N) with zeros above the `k`-th diagonal. Raises ShapeError below two axes."""
    return call_one(Triangle(False, int(k)), x)


def triu(x: Any, /, *, k: int = 0) -> Tensor:
    """A stack of matrices (..., M, N) with zeros below the `k`-th diagonal. Raises ShapeError below two axes.

    >>> triu([[1.0, 2.0], [3.0, 4.0]])
    tensor([[1., 2.],
            [0., 4.]])
    """
    return call_one(Triangle(True, int(k)), x)
