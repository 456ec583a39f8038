"""One element of each row, picked by a number: what losses of integer labels read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import attrs
import numpy as np

from interp import DTypeError, OpDef, ShapeError, Spec, Tensor, rules
from interp.dtypes import is_floating
from interp.errors import IndexOutOfRangeError
from interp.tensor import call_one

from ..axes import Values, as_handle, normal_axis, reused
from ..broadcasting import broadcast_to, shape_operand, shape_value
from ..manipulation import expand_dims, moveaxis

__all__ = ["IndexingOneHot", "IndexingOneHotTranspose", "indexing_one_hot"]


@attrs.frozen
class IndexingOneHot(OpDef):
    """The element of the first input along `axis` that each integer of the second names. MegEngine's name."""

    checks_first: ClassVar[bool] = False
    axis: int


@attrs.frozen
class IndexingOneHotTranspose(OpDef):
    """The transpose of `IndexingOneHot`: zeros but where elements were picked. Inputs: integers, elements, shape."""

    checks_first: ClassVar[bool] = False
    axis: int


make_indexing = reused(IndexingOneHot)


def _check(op: Any, shape: Sequence[int], picked: Sequence[int], index: Any) -> None:
    name = type(op).__name__
    if index.dtype.kind not in "iu":
        raise DTypeError(f"{name} picks by integers, not {index.dtype}")
    axis = normal_axis(op.axis, len(shape), name)
    wanted = (*shape[:axis], *shape[axis + 1 :])
    if index.shape != wanted or picked != wanted:
        raise ShapeError(
            f"{name}: one element along axis {axis} of data of shape {tuple(shape)} is picked by integers of shape "
            f"{wanted}, not {index.shape}"
        )


@rules.infer.register(IndexingOneHot)
def _infer(op: IndexingOneHot, x: Spec, index: Spec) -> Spec:
    _check(op, x.shape, index.shape, index)
    return Spec(index.shape, x.dtype)


@rules.infer.register(IndexingOneHotTranspose)
def _infer_transpose(op: IndexingOneHotTranspose, index: Spec, change: Spec, shape: Any) -> Spec:
    _check(op, shape, change.shape, index)
    return Spec(shape, change.dtype)


def _places(op: Any, shape: Sequence[int], index: Any) -> tuple[tuple[int, int, int], Any]:
    """Data as (before, along, after) the axis, and an index into that. Raises IndexOutOfRangeError."""
    axis = op.axis
    length = shape[axis]
    unsigned = index.view(f"u{index.dtype.itemsize}")  # a negative number becomes a large one
    if not np.logical_and.reduce(unsigned < length, axis=None):
        bad = index[unsigned >= length].flat[0]
        name = type(op).__name__
        raise IndexOutOfRangeError(f"{name}: there is no element {bad} along axis {axis}, of length {length}")
    before, after = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    rows = np.arange(before)
    if after == 1:
        return (before, length, 1), (rows, index.reshape(before), 0)
    return (before, length, after), (rows[:, None], index.reshape(before, after), np.arange(after))


@rules.kernel.register(IndexingOneHot)
def _kernel(op: IndexingOneHot, x: Any, index: Any) -> Any:
    _check(op, x.shape, index.shape, index)
    shape, places = _places(op, x.shape, index)
    return x.reshape(shape)[places].reshape(index.shape)


@rules.kernel.register(IndexingOneHotTranspose)
def _kernel_transpose(op: IndexingOneHotTranspose, index: Any, change: Any, shape: Any) -> Any:
    _check(op, shape, change.shape, index)
    flat, places = _places(op, shape, index)
    spread: Any = np.zeros(flat, change.dtype)
    spread[places] = change.reshape(places[1].shape)
    return spread.reshape(shape)


@rules.vjp.register(IndexingOneHot)
def _vjp(op: IndexingOneHot, inputs: Values, outputs: Values, cotangents: Values) -> Any:
    x, index = inputs
    if not is_floating(x.dtype):
        return [None, None]
    return [call_one(IndexingOneHotTranspose(op.axis), index, cotangents[0], shape_value(x)), None]


@rules.jvp.register(IndexingOneHot)
def _jvp(op: IndexingOneHot, inputs: Values, outputs: Values, tangents: Values) -> Any:
    return [None if tangents[0] is None else call_one(op, tangents[0], inputs[1])]


@rules.vjp.register(IndexingOneHotTranspose)
def _vjp_transpose(op: IndexingOneHotTranspose, inputs: Values, outputs: Values, cotangents: Values) -> Any:
    if not is_floating(inputs[1].dtype):
        return [None, None, None]
    return [None, call_one(IndexingOneHot(op.axis), cotangents[0], inputs[0]), None]


@rules.jvp.register(IndexingOneHotTranspose)
def _jvp_transpose(op: IndexingOneHotTranspose, inputs: Values, outputs: Values, tangents: Values) -> Any:
    return [None if tangents[1] is None else call_one(op, inputs[0], tangents[1], inputs[2])]


def _lanes(size: int, values: Values, axes: Values) -> list[Tensor]:
    """The operands with their lanes in front, repeated where they have none."""
    return [
        broadcast_to(x, (size, *x.shape)) if axis is None else moveaxis(x, axis, 0)
        for x, axis in zip(map(as_handle, values), axes, strict=True)
    ]


@rules.batch.register(IndexingOneHot)
def _batch(op: IndexingOneHot, size: int, inputs: Values, axes: Values) -> Any:
    return [call_one(IndexingOneHot(op.axis + 1), *_lanes(size, inputs, axes))], [0]


@rules.batch.register(IndexingOneHotTranspose)
def _batch_transpose(op: IndexingOneHotTranspose, size: int, inputs: Values, axes: Values) -> Any:
    lanes = _lanes(size, inputs[:2], axes[:2])
    return [call_one(IndexingOneHotTranspose(op.axis + 1), *lanes, (size, *shape_operand(inputs[2])))], [0]


def indexing_one_hot(x: Any, index: Any, axis: int = 1, keepdims: bool = False) -> Tensor:
    """The element of `x` along `axis` that each integer of `index` names; `index` has the shape of `x` without it.

    Raises IndexOutOfRangeError where there is no such element (negative numbers name none), ShapeError, DTypeError.

    >>> import interp
    >>> indexing_one_hot(interp.tensor([[1.0, 2.0], [3.0, 4.0]]), interp.tensor([1, 0]))
    tensor([2., 3.])
    """
    x, index = as_handle(x), as_handle(index)
    axis = normal_axis(axis, x.ndim, "indexing_one_hot")
    picked = call_one(make_indexing(axis), x, index)
    return expand_dims(picked, axis=axis) if keepdims else picked
