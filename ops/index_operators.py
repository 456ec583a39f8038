"""Indexing both ways: reading, writing and adding at places, each the transpose of another.

| operator | computes | its gradient reads or writes with |
| --- | --- | --- |
| `GetItem` | `x[index]` | `ScatterAdd` |
| `ScatterAdd` | zeros to which values are added at indices, any number of them | `GetItem` |
| `SetItem` | `x` with `x[index] = value` | `SetItem` of zero, `GetWritten` |
| `GetWritten` | `x[index]`, but zero where a later write to the same place wins | `SetItem` into zeros |
| `IndexAdd` | `x` with `value` added at `index`, as often as a place is named | `GetItem` |

An index is a static description (`ops.index`) and, for integer arrays, operands. No place outside is clamped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import attrs
import numpy as np

from interp import DTypeError, OpDef, OperatorError, ShapeError, Spec, Tensor, rules
from interp.dtypes import is_floating, promote
from interp.tensor import call_one

from .accumulate import add_at
from .axes import Values, as_handle, inverse
from .broadcasting import batch_to_front, broadcast_to, like, shape_operand, shape_value
from .index import Index, Mark, Slice, arrays_of, explain, layout, resolver, result_ndim, result_shape
from .manipulation import expand_dims, permute_dims

__all__ = ["GetItem", "GetWritten", "IndexAdd", "ScatterAdd", "SetItem"]


@attrs.frozen
class GetItem(OpDef):
    """The first input at `index`; the further inputs are its arrays."""

    checks_first: ClassVar[bool] = False
    index: Index


@attrs.frozen
class GetWritten(OpDef):
    """As GetItem, but zero at all but the last of the places that are one: what a write there has no effect by."""

    index: Index


@attrs.frozen
class ScatterAdd(OpDef):
    """Zeros of the shape that is the first input, with values added at indices.

    The further inputs are, for each of `indices`, the value and the arrays of the index.
    """

    checks_first: ClassVar[bool] = False
    indices: tuple[Index, ...]


@attrs.frozen
class SetItem(OpDef):
    """The first input with the second, stretched, written at `index`; the further inputs are its arrays."""

    keeps_weak: ClassVar[bool] = True
    index: Index


@attrs.frozen
class IndexAdd(OpDef):
    """The first input with the second, stretched, added at `index`, as often as a place is named."""

    keeps_weak: ClassVar[bool] = True
    index: Index


# Inference and evaluation.


@rules.infer.register(GetItem, GetWritten)
def _infer_get(op: GetItem, x: Spec, *arrays: Spec) -> Spec:
    return Spec(_shape_at(op.index, x.shape, arrays), x.dtype)


def _shape_at(index: Index, shape: tuple[int, ...], arrays: Sequence[Spec]) -> tuple[int, ...]:
    if arrays_of(index) != len(arrays):
        raise OperatorError(f"the index {index} takes {arrays_of(index)} arrays, not {len(arrays)}")
    for array in arrays:
        if array.dtype.kind not in "iu":
            raise DTypeError(f"an index array must have an integer dtype, not {array!r}")
    return result_shape(index, shape, [array.shape for array in arrays])


@rules.kernel.register(GetItem, per_operator=True)
def _kernel_get(op: GetItem) -> Callable[..., Any]:
    index = op.index
    resolve = resolver(index)

    def evaluate(x: Any, *arrays: Any) -> Any:
        try:
            return x[resolve(x.shape, arrays)]
        except (IndexError, ValueError):
            explain(index, x.shape, arrays)
            raise

    return evaluate


@rules.kernel.register(GetWritten)
def _kernel_written(op: GetWritten, x: Any, *arrays: Any) -> Any:
    try:
        place = resolver(op.index)(x.shape, arrays)
        found = np.array(x[place])
    except (IndexError, ValueError):
        explain(op.index, x.shape, arrays)
        raise
    order = np.arange(found.size).reshape(found.shape)
    last = np.empty(x.shape, np.intp)
    last[place] = order
    found[last[place] != order] = 0
    return found


def _groups(indices: tuple[Index, ...], flat: Sequence[Any]) -> Iterator[tuple[Index, Any, Sequence[Any]]]:
    """Index, value and index arrays of each contribution to a ScatterAdd."""
    position = 0
    for index in indices:
        end = position + 1 + arrays_of(index)
        yield index, flat[position], flat[position + 1 : end]
        position = end
    if position != len(flat):
        raise OperatorError(f"ScatterAdd takes {position} values and index arrays here, not {len(flat)}")


@rules.infer.register(ScatterAdd)
def _infer_scatter(op: ScatterAdd, shape: Any, *flat: Spec) -> Spec:
    dtypes = []
    for index, value, arrays in _groups(op.indices, flat):
        wanted = _shape_at(index, tuple(shape), arrays)
        if value.shape != wanted:
            raise ShapeError(f"ScatterAdd: {value!r} does not fit index {index} of shape {tuple(shape)}: {wanted}")
        dtypes.append((value.dtype, False))
    return Spec(shape, promote(dtypes)[0])


@rules.kernel.register(ScatterAdd)
def _kernel_scatter(op: ScatterAdd, shape: Any, *flat: Any) -> Any:
    groups = list(_groups(op.indices, flat))
    out = np.zeros(shape, promote([(value.dtype, False) for _, value, _ in groups])[0])
    for index, value, arrays in groups:
        _add(out, index, np.asarray(value), arrays)
    return out


def _add(out: Any, index: Index, value: Any, arrays: Sequence[Any]) -> None:
    try:
        add_at(out, index, resolver(index)(out.shape, arrays), value)
    except (IndexError, ValueError):
        explain(index, out.shape, arrays)
        raise


@rules.infer.register(SetItem, IndexAdd)
def _infer_set(op: Any, x: Spec, value: Spec, *arrays: Spec) -> Spec:
    shape = _shape_at(op.index, x.shape, arrays)
    what = "SetItem" if isinstance(op, SetItem) else "IndexAdd"
    try:
        fits = np.broadcast_shapes(value.shape, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ShapeError(f"{what}: {value!r} cannot be stretched to the {shape} that the index selects of {x!r}")
    meets = promote([(x.dtype, False), (value.dtype, True)])[0] == x.dtype if value.weak else None
    if not (np.can_cast(value.dtype, x.dtype, "same_kind") if meets is None else meets):
        raise DTypeError(f"{what}: {value!r} cannot be stored in {x!r}; cast it with ops.astype first")
    return Spec(x.shape, x.dtype)


@rules.kernel.register(SetItem)
def _kernel_set(op: SetItem, x: Any, value: Any, *arrays: Any) -> Any:
    out = np.array(x)
    try:
        place = resolver(op.index)(out.shape, arrays)
        if arrays and np.ndim(value):  # the last write wins in the order that GetWritten counts in
            shape = result_shape(op.index, out.shape, [array.shape for array in arrays])
            value = np.ascontiguousarray(np.broadcast_to(value, shape))
        out[place] = value
    except (IndexError, ValueError):
        explain(op.index, out.shape, arrays)
        raise
    return out


@rules.kernel.register(IndexAdd)
def _kernel_add(op: IndexAdd, x: Any, value: Any, *arrays: Any) -> Any:
    out = np.array(x)
    shape = result_shape(op.index, out.shape, [array.shape for array in arrays])
    _add(out, op.index, np.broadcast_to(np.asarray(value).astype(out.dtype, copy=False), shape), arrays)
    return out


# Derivatives.


def _none(arrays: Sequence[Any]) -> list[None]:
    return [None] * len(arrays)


@rules.vjp.register(GetItem)
def _vjp_get(op: GetItem, inputs: Values, outputs: Values, cotangents: Values) -> Any:
    x, *arrays = inputs
    if not is_floating(x.dtype):
        return _none(inputs)
    return [call_one(ScatterAdd((op.index,)), shape_value(x), cotangents[0], *arrays), *_none(arrays)]


@rules.vjp.register(GetWritten)
def _vjp_written(op: GetWritten, inputs: Values, outputs: Values, cotangents: Values) -> Any:
    x, *arrays = inputs
    if not is_floating(x.dtype):
        return _none(inputs)
    return [call_one(SetItem(op.index), _zeros_like(x), cotangents[0], *arrays), *_none(arrays)]


@rules.jvp.register(GetItem, GetWritten)
def _jvp_get(op: OpDef, inputs: Values, outputs: Values, tangents: Values) -> Any:
    return [None if tangents[0] is None else call_one(op, tangents[0], *inputs[1:])]


@rules.vjp.register(ScatterAdd)
def _vjp_scatter(op: ScatterAdd, inputs: Values, outputs: Values, cotangents: Values) -> Any:
    gradients: list[Any] = [None]
    for index, value, arrays in _groups(op.indices, inputs[1:]):
        floating = is_floating(value.dtype)
        gradients.append(like(call_one(GetItem(index), cotangents[0], *arrays), value) if floating else None)
        gradients.extend(_none(arrays))
    return gradients


@rules.jvp.register(ScatterAdd)
def _jvp_scatter(op: ScatterAdd, inputs: Values, outputs: Values, tangents: Values) -> Any:
    indices: list[Index] = []
    flat: list[Any] = []
    moving = _groups(op.indices, tangents[1:])
    for (index, _, arrays), (_, tangent, _) in zip(_groups(op.indices, inputs[1:]), moving, strict=True):
        if tangent is not None:
            indices.append(index)
            flat.extend((tangent, *arrays))
    return [call_one(ScatterAdd(tuple(indices)), inputs[0], *flat) if indices else None]


@rules.merge.register(ScatterAdd)
def _merge_scatter(contributions: Sequence[tuple[ScatterAdd, Sequence[Any]]]) -> tuple[ScatterAdd, list[Any]]:
    """Contributions to the gradient of one array: one operator, one array to add them up in."""
    indices = tuple(index for op, _ in contributions for index in op.indices)
    flat = [value for _, inputs in contributions for value in inputs[1:]]
    return ScatterAdd(indices), [contributions[0][1][0], *flat]


@rules.vjp.register(SetItem)
def _vjp_set(op: SetItem, inputs: Values, outputs: Values, cotangents: Values) -> Any:
    x, value, *arrays = inputs
    g = cotangents[0]
    gradients: list[Any] = [None, None, *_none(arrays)]
    if is_floating(x.dtype):
        gradients[0] = call_one(SetItem(op.index), g, np.zeros((), x.dtype), *arrays)
        if is_floating(value.dtype):
            read = GetWritten if Mark.ARRAY in op.index else GetItem
            gradients[1] = like(call_one(read(op.index), g, *arrays), value)
    return gradients


@rules.jvp.register(SetItem)
def _jvp_set(op: SetItem, inputs: Values, outputs: Values, tangents: Values) -> Any:
    x, _, *arrays = inputs
    if not is_floating(x.dtype):
        return [None]
    moved = _zeros_like(x) if tangents[0] is None else tangents[0]
    return [call_one(op, moved, np.zeros((), x.dtype) if tangents[1] is None else tangents[1], *arrays)]


@rules.vjp.register(IndexAdd)
def _vjp_add(op: IndexAdd, inputs: Values, outputs: Values, cotangents: Values) -> Any:
    x, value, *arrays = inputs
    gradients: list[Any] = [None, None, *_none(arrays)]
    if is_floating(x.dtype):
        gradients[0] = cotangents[0]
        if is_floating(value.dtype):
            gradients[1] = like(call_one(GetItem(op.index), cotangents[0], *arrays), value)
    return gradients


@rules.jvp.register(IndexAdd)
def _jvp_add(op: IndexAdd, inputs: Values, outputs: Values, tangents: Values) -> Any:
    x, _, *arrays = inputs
    if not is_floating(x.dtype):
        return [None]
    if tangents[1] is None:
        return [tangents[0]]
    return [call_one(op, _zeros_like(x) if tangents[0] is None else tangents[0], tangents[1], *arrays)]


def _zeros_like(x: Any) -> Tensor:
    return broadcast_to(np.zeros((), x.dtype), shape_value(x))


# Batching: the examples become a leading axis of the array, and of the index arrays where these vary.


def _lanes(
    index: Index, size: int, ndim: int, arrays: Sequence[Any], axes: Sequence[int | None]
) -> tuple[Index, list[Any], list[int]]:
    """The index for an array with the examples in front, its arrays, and the order of the axes of what it selects.

    `order[i]` says which axis of the result, with the examples in front, axis `i` is of what numpy selects.
    """
    ndims = [array.ndim - (axis is not None) for array, axis in zip(arrays, axes, strict=True)]
    together, before, depth = layout(index, ndims)
    rest = list(range(1, 1 + result_ndim(index, ndim, ndims)))
    if all(axis is None for axis in axes):
        front = not together and depth
        return (Slice(), *index), list(arrays), [*rest[:depth], 0, *rest[depth:]] if front else [0, *rest]
    lane = np.arange(size).reshape(size, *(1,) * depth)
    order = [0, *rest[before : before + depth], *rest[:before], *rest[before + depth :]]
    return (Mark.ARRAY, *index), [lane, *_in_front(arrays, axes, depth)], order


def _in_front(arrays: Sequence[Any], axes: Sequence[int | None], depth: int) -> list[Any]:
    return [batch_to_front(array, axis, depth) for array, axis in zip(arrays, axes, strict=True)]


def _permuted(x: Any, order: Sequence[int]) -> Any:
    return x if list(order) == sorted(order) else permute_dims(x, order)


@rules.batch.register(GetItem)
def _batch_get(op: GetItem, size: int, inputs: Values, axes: Values) -> Any:
    x, *arrays = map(as_handle, inputs)
    if axes[0] is None:
        ndims = [array.ndim - (axis is not None) for array, axis in zip(arrays, axes[1:], strict=True)]
        depth = layout(op.index, ndims)[2]
        place = layout(op.index, [*ndims, depth + 1])[1]
        return [call_one(op, x, *_in_front(arrays, axes[1:], depth))], [place]
    index, lanes, order = _lanes(op.index, size, x.ndim - 1, arrays, axes[1:])
    return [_permuted(call_one(GetItem(index), batch_to_front(x, axes[0], 0), *lanes), inverse(order))], [0]


def _whole(x: Any, axis: int | None, size: int) -> Tensor:
    """An operand with the examples in front, stretched where it was the same for all."""
    x = as_handle(x)
    return broadcast_to(x, (size, *x.shape)) if axis is None else as_handle(batch_to_front(x, axis, 0))


@rules.batch.register(GetWritten)
def _batch_written(op: GetWritten, size: int, inputs: Values, axes: Values) -> Any:
    arrays = list(map(as_handle, inputs[1:]))
    x = _whole(inputs[0], axes[0], size)
    index, lanes, order = _lanes(op.index, size, x.ndim - 1, arrays, axes[1:])
    return [_permuted(call_one(GetWritten(index), x, *lanes), inverse(order))], [0]


@rules.batch.register(ScatterAdd)
def _batch_scatter(op: ScatterAdd, size: int, inputs: Values, axes: Values) -> Any:
    shape = shape_operand(inputs[0])
    indices: list[Index] = []
    flat: list[Any] = []
    groups = _groups(op.indices, list(map(as_handle, inputs[1:])))
    for (old, value, arrays), (_, axis, array_axes) in zip(groups, _groups(op.indices, axes[1:]), strict=True):
        index, lanes, order = _lanes(old, size, len(shape), arrays, array_axes)
        indices.append(index)
        flat.extend((_permuted(_whole(value, axis, size), order), *lanes))
    return [call_one(ScatterAdd(tuple(indices)), (size, *shape), *flat)], [0]


@rules.batch.register(SetItem, IndexAdd)
def _batch_set(op: Any, size: int, inputs: Values, axes: Values) -> Any:
    arrays = list(map(as_handle, inputs[2:]))
    x, value = _whole(inputs[0], axes[0], size), as_handle(inputs[1])
    index, lanes, order = _lanes(op.index, size, x.ndim - 1, arrays, axes[2:])
    if value.ndim:
        value = batch_to_front(value, axes[1], len(order) - 1)
        if value.ndim < len(order):
            value = expand_dims(value, axis=tuple(range(len(order) - value.ndim)))
        value = _permuted(value, order)
    return [call_one(type(op)(index), x, value, *lanes)], [0]
