"""Joining arrays along an axis and cutting them apart: each the transpose of the other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, ClassVar, Union

import attrs
import numpy as np

from interp import DTypeError, OpDef, OperatorError, ShapeError, Spec, Tensor, rules
from interp.dtypes import promote
from interp.evaluate import as_array
from interp.tensor import call, call_one, syntax
from interp.value import is_weak

from .axes import Values, as_handle, normal_axis, reused
from .broadcasting import broadcast_to, like, shape_operand, shape_value
from .casting import astype
from .manipulation import RemoveAxis, expand_dims, flatten, moveaxis

__all__ = ["Concat", "Split", "concat", "split", "stack", "unstack"]


@attrs.frozen
class Concat(OpDef):
    """The inputs one after another along `axis`."""

    checks_first: ClassVar[bool] = False
    axis: int


@attrs.frozen
class Split(OpDef):
    """The input cut along `axis` into consecutive parts, one output each.

    `parts` is how many parts of equal length, or the tuple of places to cut at; or None, and the shapes of
    the parts are further inputs.
    """

    checks_first: ClassVar[bool] = False
    axis: int
    parts: Union[int, tuple[int, ...], None] = None


make_concat = reused(Concat)
make_split = reused(Split)


@rules.infer.register(Concat)
def _infer_concat(op: Concat, *xs: Spec) -> Spec:
    if not xs:
        raise OperatorError("concat needs at least one array")
    first, axis = xs[0], op.axis
    for x in xs:
        if not 0 <= axis < x.ndim:
            raise ShapeError(f"concat: {x!r} has no axis {axis}")
        if x.ndim != first.ndim or _without(x.shape, axis) != _without(first.shape, axis):
            listed = ", ".join(map(repr, xs))
            raise ShapeError(f"concat: shapes must be equal but for axis {axis}; they are {listed}")
    length = sum(x.shape[axis] for x in xs)
    dtype, _ = promote([(x.dtype, x.weak) for x in xs])
    return Spec((*first.shape[:axis], length, *first.shape[axis + 1 :]), dtype)


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return shape[:axis] + shape[axis + 1 :]


@rules.kernel.register(Concat)
def _kernel_concat(op: Concat, *xs: Any) -> Any:
    xs = tuple(map(as_array, xs))
    dtype, _ = promote([(x.dtype, False) for x in xs])
    return np.concatenate(xs, axis=op.axis, dtype=dtype, casting="unsafe")


@rules.vjp.register(Concat)
def _vjp_concat(op: Concat, inputs: Values, outputs: Values, cotangents: Values) -> Any:
    pieces = call(make_split(op.axis), cotangents[0], *map(shape_value, inputs))
    return [like(piece, x) if x.dtype.kind in "fc" else None for piece, x in zip(pieces, inputs, strict=True)]


@rules.jvp.register(Concat)
def _jvp_concat(op: Concat, inputs: Values, outputs: Values, tangents: Values) -> Any:
    filled = [_zeros_like(x) if t is None else t for x, t in zip(inputs, tangents, strict=True)]
    return [call_one(op, *filled)]


def _zeros_like(x: Any) -> Tensor:
    return broadcast_to(np.zeros((), x.dtype), shape_value(x))


@rules.batch.register(Concat)
def _batch_concat(op: Concat, size: int, inputs: Values, axes: Values) -> Any:
    xs = []
    for x, axis in zip(inputs, axes, strict=True):
        if axis is None:
            handle = as_handle(x)
            xs.append(broadcast_to(handle, (size, *handle.shape)))
        else:
            xs.append(moveaxis(x, axis, 0))
    return [call_one(make_concat(op.axis + 1), *xs)], [0]


def _lengths(op: Split, x: Spec, shapes: Sequence[Any]) -> list[int]:
    """How long the parts are along the axis. Raises ShapeError where they do not make up the whole."""
    total = x.shape[op.axis]
    if op.parts is None:
        for shape in shapes:
            if len(shape) != x.ndim or _without(tuple(shape), op.axis) != _without(x.shape, op.axis):
                raise ShapeError(f"split: {tuple(shape)} is not a part of {x!r} along axis {op.axis}")
        lengths = [int(shape[op.axis]) for shape in shapes]
        if sum(lengths) != total:
            raise ShapeError(f"split: parts of lengths {lengths} do not make up axis {op.axis} of {x!r}")
        return lengths
    if isinstance(op.parts, int):
        if op.parts < 1 or total % op.parts:
            raise ShapeError(f"split: axis {op.axis} of {x!r} cannot be cut into {op.parts} equal parts")
        return [total // op.parts] * op.parts
    points = [0, *(min(point, total) for point in op.parts), total]
    if points != sorted(points):
        raise ShapeError(f"split: places to cut at must be ascending and not negative, not {op.parts}")
    return [end - start for start, end in pairwise(points)]


@rules.infer.register(Split)
def _infer_split(op: Split, x: Spec, *shapes: Any) -> tuple[Spec, ...]:
    if not 0 <= op.axis < x.ndim:
        raise ShapeError(f"split: {x!r} has no axis {op.axis}")
    head, tail = x.shape[: op.axis], x.shape[op.axis + 1 :]
    if op.parts is None:
        _lengths(op, x, shapes)
        return tuple(Spec(shape, x.dtype) for shape in shapes)
    return tuple(Spec((*head, length, *tail), x.dtype) for length in _lengths(op, x, shapes))


@rules.kernel.register(Split)
def _kernel_split(op: Split, x: Any, *shapes: Any) -> Any:
    ends = np.cumsum(_lengths(op, Spec(x.shape, x.dtype), shapes))
    return tuple(np.split(x, ends[:-1], axis=op.axis))


@rules.vjp.register(Split)
def _vjp_split(op: Split, inputs: Values, outputs: Values, cotangents: Values) -> Any:
    return [call_one(make_concat(op.axis), *cotangents), *[None] * (len(inputs) - 1)]


@rules.jvp.register(Split)
def _jvp_split(op: Split, inputs: Values, outputs: Values, tangents: Values) -> Any:
    return list(call(make_split(op.axis), tangents[0], *map(shape_value, outputs)))


@rules.batch.register(Split)
def _batch_split(op: Split, size: int, inputs: Values, axes: Values) -> Any:
    shapes = [(size, *shape_operand(shape)) for shape in inputs[1:]]
    parts = call(make_split(op.axis + 1, op.parts), moveaxis(inputs[0], axes[0], 0), *shapes)
    return list(parts), [0] * len(parts)


def _handles(arrays: Any, function: str) -> list[Tensor]:
    if isinstance(arrays, Tensor):
        arrays = unstack(arrays)
    if not isinstance(arrays, (list, tuple)):
        raise DTypeError(f"{function} takes a list or tuple of arrays, not {type(arrays).__name__}")
    if not arrays:
        raise OperatorError(f"{function} needs at least one array")
    return list(map(as_handle, arrays))


def concat(arrays: Any, /, *, axis: int | None = 0) -> Tensor:
    """The arrays one after another along `axis`; with None, flattened first. Dtypes are promoted.

    Raises ShapeError where the shapes differ in another axis, OperatorError when there is no array.

    >>> import interp
    >>> concat([interp.tensor([1.0, 2.0]), interp.tensor([3.0])])
    tensor([1., 2., 3.])
    """
    handles = _handles(arrays, "concat")
    if axis is None:
        return call_one(make_concat(0), *map(flatten, handles))
    return call_one(make_concat(normal_axis(axis, handles[0].ndim, "concat")), *handles)


def stack(arrays: Any, /, *, axis: int = 0) -> Tensor:
    """Arrays of one shape as one array, with a new axis at place `axis` of the result. Dtypes are promoted.

    Raises ShapeError where shapes differ, OperatorError when there is no array.

    >>> import interp
    >>> stack([interp.tensor([1.0, 2.0]), interp.tensor([3.0, 4.0])], axis=1)
    tensor([[1., 3.],
            [2., 4.]])
    """
    handles = _handles(arrays, "stack")
    dtype, _ = promote([(x.dtype, is_weak(x._value)) for x in handles])
    place = normal_axis(axis, handles[0].ndim + 1, "stack")
    same = [x if x.dtype == dtype else astype(x, dtype) for x in handles]
    if any(x.ndim != handles[0].ndim for x in handles):
        raise ShapeError(f"stack: shapes must be equal; they are {', '.join(str(x.shape) for x in handles)}")
    return call_one(make_concat(place), *[expand_dims(x, axis=place) for x in same])


def split(x: Any, /, parts: Any, axis: int = 0) -> tuple[Tensor, ...]:
    """`x` cut along `axis`: into that many parts of one length, or at the places of a list.

    Places beyond the end give empty parts. Raises ShapeError where the length cannot be divided evenly.

    >>> import interp
    >>> split(interp.tensor([1.0, 2.0, 3.0]), [1])
    (tensor([1.]), tensor([2., 3.]))
    """
    handle = as_handle(x)
    place = normal_axis(axis, handle.ndim, "split")
    static = int(parts) if isinstance(parts, (int, np.integer)) else tuple(int(point) for point in parts)
    return call(make_split(place, static), handle)


def unstack(x: Any, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices of `x` along `axis`, which they no longer have.

    Raises ShapeError where there is no such axis.

    >>> import interp
    >>> unstack(interp.tensor([[1.0, 2.0], [3.0, 4.0]]))
    (tensor([1., 2.]), tensor([3., 4.]))
    """
    handle = as_handle(x)
    place = normal_axis(axis, handle.ndim, "unstack")
    length = handle.shape[place]
    if not length:
        return ()
    return tuple(call_one(RemoveAxis((place,)), part) for part in call(make_split(place, length), handle))


def _from_sequence(data: Any) -> Tensor:
    return stack([_from_sequence(x) if isinstance(x, (list, tuple)) else x for x in data])


syntax.call["from_sequence"] = _from_sequence
