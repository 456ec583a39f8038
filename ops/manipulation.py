"""The same elements in another arrangement: reshaping, permuting, adding and removing axes, stretching."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import attrs
import numpy as np

from interp import OpDef, ShapeError, Spec, Tensor, rules
from interp.evaluate import as_array
from interp.tensor import call_one, syntax
from interp.value import spec_of

from .axes import Values, as_handle, inverse, normal_axes, normal_axis, reused
from .broadcasting import broadcast_to, shape_operand, shape_value

__all__ = [
    "AddAxis",
    "Dimshuffle",
    "RemoveAxis",
    "Reshape",
    "broadcast_arrays",
    "expand_dims",
    "flatten",
    "matrix_transpose",
    "moveaxis",
    "permute_dims",
    "reshape",
    "squeeze",
    "swapaxes",
    "transpose",
]


@attrs.frozen
class Reshape(OpDef):
    """The elements of the first input, in order, in the shape that is the second. One length may be -1."""

    checks_first: ClassVar[bool] = False


@attrs.frozen
class Dimshuffle(OpDef):
    """The input with its axes permuted: axis `i` of the output is axis `pattern[i]` of the input."""

    checks_first: ClassVar[bool] = False
    pattern: tuple[int, ...]


@attrs.frozen
class AddAxis(OpDef):
    """The input with axes of length 1 added; `axis` says, in ascending order, where in the output."""

    checks_first: ClassVar[bool] = False
    axis: tuple[int, ...]


@attrs.frozen
class RemoveAxis(OpDef):
    """The input without the axes `axis` (in ascending order), whose lengths must be 1."""

    checks_first: ClassVar[bool] = False
    axis: tuple[int, ...]


RESHAPE = Reshape()
make_dimshuffle = reused(Dimshuffle)
make_add_axis = reused(AddAxis)
make_remove_axis = reused(RemoveAxis)


# Reshape.


@rules.infer.register(Reshape)
def _infer_reshape(op: Reshape, x: Spec, shape: Any) -> Spec:
    if tuple(shape) == x.shape:
        return Spec(x.shape, x.dtype)
    known = math.prod(n for n in shape if n != -1)
    if -1 in shape:
        if shape.count(-1) > 1 or not known or x.size % known:
            raise ShapeError(f"reshape: {x!r} has no shape {tuple(shape)}; at most one length may be -1")
        shape = tuple(x.size // known if n == -1 else n for n in shape)
    elif known != x.size or any(n < 0 for n in shape):
        raise ShapeError(f"reshape: {x!r} has {x.size} elements, so not the shape {tuple(shape)}")
    return Spec(shape, x.dtype)


@rules.kernel.register(Reshape)
def _kernel_reshape(op: Reshape, x: Any, shape: Any) -> Any:
    if shape and min(shape) < -1:  # numpy would take any negative length for -1
        _infer_reshape(op, spec_of(x), shape)
    return as_array(x).reshape(shape)


@rules.vjp.register(Reshape)
def _vjp_reshape(op: Reshape, inputs: Values, outputs: Values, cotangents: Values) -> Any:
    return [reshape(cotangents[0], shape_value(inputs[0])), None]


@rules.jvp.register(Reshape)
def _jvp_reshape(op: Reshape, inputs: Values, outputs: Values, tangents: Values) -> Any:
    return [reshape(tangents[0], shape_value(outputs[0]))]


@rules.batch.register(Reshape)
def _batch_reshape(op: Reshape, size: int, inputs: Values, axes: Values) -> Any:
    x = moveaxis(inputs[0], axes[0], 0)
    lane = _infer_reshape(op, Spec(x.shape[1:], x.dtype), shape_operand(inputs[1])).shape
    return [reshape(x, (size, *lane))], [0]


# Permuting, adding and removing axes: each with its transpose.


@rules.infer.register(Dimshuffle)
def _infer_dimshuffle(op: Dimshuffle, x: Spec) -> Spec:
    if sorted(op.pattern) != list(range(x.ndim)):
        raise ShapeError(f"permute_dims: {op.pattern} is not a permutation of the {x.ndim} axes of {x!r}")
    return Spec(tuple(x.shape[axis] for axis in op.pattern), x.dtype)


@rules.kernel.register(Dimshuffle)
def _kernel_dimshuffle(op: Dimshuffle, x: Any) -> Any:
    return as_array(x).transpose(op.pattern)


@rules.vjp.register(Dimshuffle)
def _vjp_dimshuffle(op: Dimshuffle, inputs: Values, outputs: Values, cotangents: Values) -> Any:
    return [call_one(make_dimshuffle(inverse(op.pattern)), cotangents[0])]


@rules.infer.register(AddAxis)
def _infer_add_axis(op: AddAxis, x: Spec) -> Spec:
    ndim = x.ndim + len(op.axis)
    if list(op.axis) != sorted(set(op.axis)) or not all(0 <= axis < ndim for axis in op.axis):
        raise ShapeError(f"expand_dims: {x!r} cannot get axes at {op.axis}; the result has {ndim} axes")
    lengths = iter(x.shape)
    return Spec(tuple(1 if axis in op.axis else next(lengths) for axis in range(ndim)), x.dtype)


@rules.kernel.register(AddAxis, per_operator=True)
def _kernel_add_axis(op: AddAxis) -> Callable[[Any], Any]:
    added = tuple(np.newaxis if axis in op.axis else slice(None) for axis in range(max(op.axis, default=-1) + 1))
    return lambda x: as_array(x)[added]


@rules.vjp.register(AddAxis)
def _vjp_add_axis(op: AddAxis, inputs: Values, outputs: Values, cotangents: Values) -> Any:
    return [call_one(make_remove_axis(op.axis), cotangents[0])]


@rules.infer.register(RemoveAxis)
def _infer_remove_axis(op: RemoveAxis, x: Spec) -> Spec:
    if not all(0 <= axis < x.ndim and x.shape[axis] == 1 for axis in op.axis):
        raise ShapeError(f"squeeze: not all of the axes {op.axis} of {x!r} have length 1")
    return Spec(tuple(n for axis, n in enumerate(x.shape) if axis not in op.axis), x.dtype)


@rules.kernel.register(RemoveAxis)
def _kernel_remove_axis(op: RemoveAxis, x: Any) -> Any:
    return as_array(x).squeeze(op.axis)


@rules.vjp.register(RemoveAxis)
def _vjp_remove_axis(op: RemoveAxis, inputs: Values, outputs: Values, cotangents: Values) -> Any:
    return [call_one(make_add_axis(op.axis), cotangents[0])]


@rules.jvp.register(Dimshuffle, AddAxis, RemoveAxis)
def _jvp_same(op: OpDef, inputs: Values, outputs: Values, tangents: Values) -> Any:
    return [call_one(op, tangents[0])]


@rules.batch.register(Dimshuffle)
def _batch_dimshuffle(op: Dimshuffle, size: int, inputs: Values, axes: Values) -> Any:
    pattern = (0, *(axis + 1 for axis in op.pattern))
    return [call_one(make_dimshuffle(pattern), moveaxis(inputs[0], axes[0], 0))], [0]


@rules.batch.register(AddAxis, RemoveAxis)
def _batch_axes(op: Any, size: int, inputs: Values, axes: Values) -> Any:
    shifted = type(op)(tuple(axis + 1 for axis in op.axis))
    return [call_one(shifted, moveaxis(inputs[0], axes[0], 0))], [0]


# Public functions.


def reshape(x: Any, /, shape: Any, *, copy: bool | None = None) -> Tensor:
    """The elements of `x`, in order, in `shape`; one length may be -1, and follows from the others.

    Raises ShapeError where the number of elements differs.

    >>> import interp
    >>> reshape(interp.tensor([1.0, 2.0, 3.0, 4.0]), (2, -1))
    tensor([[1., 2.],
            [3., 4.]])
    """
    return call_one(RESHAPE, x, shape_operand(shape))


def permute_dims(x: Any, /, axes: Sequence[int]) -> Tensor:
    """`x` with its axes in another order: axis `i` of the result is axis `axes[i]` of `x`.

    Raises ShapeError where `axes` is not a permutation.

    >>> import interp
    >>> permute_dims(interp.tensor([[[1.0, 2.0]]]), (2, 0, 1)).shape
    (2, 1, 1)
    """
    handle = as_handle(x)
    pattern = normal_axes(tuple(axes), handle.ndim, "permute_dims", "axes")
    return call_one(make_dimshuffle(pattern), handle)


def transpose(x: Any, /, axes: Sequence[int] | None = None) -> Tensor:
    """`permute_dims`, by default to the reverse order of axes, as in numpy and MegEngine."""
    handle = as_handle(x)
    return permute_dims(handle, tuple(reversed(range(handle.ndim))) if axes is None else axes)


def matrix_transpose(x: Any, /) -> Tensor:
    """A stack of matrices (..., M, N), each transposed: (..., N, M). Raises ShapeError below two axes.

    >>> import interp
    >>> matrix_transpose(interp.tensor([[1.0, 2.0]])).shape
    (2, 1)
    """
    handle = as_handle(x)
    if handle.ndim < 2:
        raise ShapeError(f"matrix_transpose needs at least two axes; the array has {handle.ndim}")
    return swapaxes(handle, -1, -2)


def swapaxes(x: Any, /, axis1: int, axis2: int) -> Tensor:
    """`x` with two axes exchanged. Raises ShapeError where one does not exist."""
    handle = as_handle(x)
    pattern = list(range(handle.ndim))
    first = normal_axis(axis1, handle.ndim, "swapaxes", "axis1")
    second = normal_axis(axis2, handle.ndim, "swapaxes", "axis2")
    pattern[first], pattern[second] = second, first
    return call_one(make_dimshuffle(tuple(pattern)), handle)


def moveaxis(x: Any, source: Any, destination: Any, /) -> Tensor:
    """`x` with the axes `source` moved to the places `destination`, the others keeping their order.

    Raises ShapeError where an axis does not exist, or the counts differ.

    >>> import interp
    >>> moveaxis(interp.tensor([[[1.0, 2.0]]]), -1, 0).shape
    (2, 1, 1)
    """
    handle = as_handle(x)
    sources = normal_axes(source, handle.ndim, "moveaxis", "source")
    places = normal_axes(destination, handle.ndim, "moveaxis", "destination")
    if len(sources) != len(places):
        raise ShapeError(f"moveaxis: {len(sources)} axes cannot move to {len(places)} places")
    if sources == places:
        return handle
    pattern = [axis for axis in range(handle.ndim) if axis not in sources]
    for place, axis in sorted(zip(places, sources)):
        pattern.insert(place, axis)
    return call_one(make_dimshuffle(tuple(pattern)), handle)


def expand_dims(x: Any, /, *, axis: Any = 0) -> Tensor:
    """`x` with an axis of length 1 at place `axis` of the result, or several for a tuple.

    Raises ShapeError where the result has no such axis.

    >>> import interp
    >>> expand_dims(interp.tensor([1.0, 2.0]), axis=-1).shape
    (2, 1)
    """
    handle = as_handle(x)
    count = len(axis) if isinstance(axis, (tuple, list)) else 1
    axes = normal_axes(axis, handle.ndim + count, "expand_dims")
    return call_one(make_add_axis(tuple(sorted(axes))), handle) if axes else handle


def squeeze(x: Any, /, axis: Any = None) -> Tensor:
    """`x` without the axes `axis`, or without every axis of length 1.

    Raises ShapeError where the length of an axis is not 1.

    >>> import interp
    >>> squeeze(interp.tensor([[[1.0, 2.0]]]), axis=(0, 1)).shape
    (2,)
    """
    handle = as_handle(x)
    if axis is None:
        axes = tuple(i for i, length in enumerate(handle.shape) if length == 1)
    else:
        axes = normal_axes(axis, handle.ndim, "squeeze")
    return call_one(make_remove_axis(tuple(sorted(axes))), handle) if axes else handle


def flatten(x: Any, /, start_axis: int = 0, end_axis: int = -1) -> Tensor:
    """`x` with the axes from `start_axis` to `end_axis` (inclusive) made into one; () becomes (1,).

    Raises ShapeError where an axis does not exist.

    >>> import interp
    >>> flatten(interp.tensor([[[1.0, 2.0]], [[3.0, 4.0]]]), 1).shape
    (2, 2)
    """
    handle = as_handle(x)
    if not handle.ndim:
        return reshape(handle, (1,))
    start = normal_axis(start_axis, handle.ndim, "flatten", "start_axis")
    end = normal_axis(end_axis, handle.ndim, "flatten", "end_axis")
    if start > end:
        raise ShapeError(f"flatten: start_axis {start_axis} comes after end_axis {end_axis}")
    if handle.ndim == 1 + end - start:
        return reshape(handle, (-1,))
    shape = handle.shape
    return reshape(handle, (*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :]))


def broadcast_arrays(*arrays: Any) -> list[Tensor]:
    """The arrays stretched to their common shape. Raises ShapeError where they have none.

    >>> import interp
    >>> [x.shape for x in broadcast_arrays(interp.tensor([[1.0], [2.0]]), interp.tensor([1.0, 2.0]))]
    [(2, 2), (2, 2)]
    """
    handles = list(map(as_handle, arrays))
    shapes = [x.shape for x in handles]
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        listed = ", ".join(map(str, shapes))
        raise ShapeError(f"broadcast_arrays: shapes {listed} do not broadcast together") from None
    return [x if x.shape == shape else broadcast_to(x, shape) for x in handles]


syntax.call["T"] = transpose
syntax.call["mT"] = matrix_transpose
