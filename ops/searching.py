"""Where elements are: extrema, order, the nonzero ones, the different ones."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import attrs
import numpy as np

from interp import DTypeError, OpDef, OperatorError, ShapeError, Spec, Tensor, TraceError, rules
from interp.tensor import call, call_one

from .axes import Values, as_handle, normal_axis
from .broadcasting import shape_value
from .casting import astype
from .manipulation import expand_dims, flatten, moveaxis, reshape

__all__ = [
    "ArgReduce",
    "Argsort",
    "Nonzero",
    "SearchSorted",
    "Sort",
    "TopK",
    "argmax",
    "argmin",
    "argsort",
    "nonzero",
    "searchsorted",
    "sort",
    "topk",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
]

_INT64 = np.dtype(np.int64)


@attrs.frozen
class ArgReduce(OpDef):
    """The index, along `axis`, of the first largest (mode MAX) or smallest (MIN) element."""

    mode: str
    axis: int
    keepdims: bool = False


@attrs.frozen
class Sort(OpDef):
    """The elements in order along `axis`; NaN counts as the largest."""

    axis: int
    descending: bool = False


@attrs.frozen
class Argsort(OpDef):
    """The indices that sort the input along `axis`; equal elements keep their order."""

    axis: int
    descending: bool = False


@attrs.frozen
class TopK(OpDef):
    """The `k` largest (or smallest) elements along `axis`, in order, and their indices. MegEngine's name."""

    k: int
    axis: int
    largest: bool = True


@attrs.frozen
class Nonzero(OpDef):
    """The indices of the elements that are not zero, one output an axis. Their number is known from data alone."""

    checks_first: ClassVar[bool] = False
    shape_from_data: ClassVar[bool] = True


@attrs.frozen
class SearchSorted(OpDef):
    """Where in the sorted vector, the first input, each element of the second belongs."""

    side: str = "left"


def _ordered(x: Spec, axis: int, function: str) -> int:
    if x.dtype.kind == "c":
        raise DTypeError(f"{function}: complex numbers have no order; it was given {x!r}")
    return normal_axis(axis, x.ndim, function)


# Extrema.


@rules.infer.register(ArgReduce)
def _infer_arg(op: ArgReduce, x: Spec) -> Spec:
    name = f"arg{op.mode.lower()}"
    if op.mode not in ("MAX", "MIN"):
        raise OperatorError(f"ArgReduce has no mode {op.mode!r}; there are MAX and MIN")
    axis = _ordered(x, op.axis, name)
    if not x.shape[axis]:
        raise ShapeError(f"{name}: {x!r} has no elements along axis {axis}")
    return Spec((*x.shape[:axis], *((1,) if op.keepdims else ()), *x.shape[axis + 1 :]), _INT64)


@rules.kernel.register(ArgReduce)
def _kernel_arg(op: ArgReduce, x: Any) -> Any:
    return (np.argmax if op.mode == "MAX" else np.argmin)(x, op.axis, keepdims=op.keepdims)


# Order.


@rules.infer.register(Sort)
def _infer_sort(op: Sort, x: Spec) -> Spec:
    _ordered(x, op.axis, "sort")
    return Spec(x.shape, x.dtype)


@rules.kernel.register(Sort)
def _kernel_sort(op: Sort, x: Any) -> Any:
    result = np.sort(x, op.axis)
    return np.flip(result, op.axis) if op.descending else result


@rules.infer.register(Argsort)
def _infer_argsort(op: Argsort, x: Spec) -> Spec:
    _ordered(x, op.axis, "argsort")
    return Spec(x.shape, _INT64)


@rules.kernel.register(Argsort)
def _kernel_argsort(op: Argsort, x: Any) -> Any:
    if not op.descending:
        return np.argsort(x, op.axis, kind="stable")
    backwards = np.argsort(np.flip(x, op.axis), op.axis, kind="stable")  # flipped twice, equal ones keep order
    return x.shape[op.axis] - 1 - np.flip(backwards, op.axis)


@rules.vjp.register(Sort)
def _vjp_sort(op: Sort, inputs: Values, outputs: Values, cotangents: Values) -> Any:
    if inputs[0].dtype.kind != "f":
        return [None]
    order = call_one(Argsort(op.axis, op.descending), inputs[0])
    return [_put_back(cotangents[0], order, op.axis, inputs[0])]


def _put_back(change: Any, places: Any, axis: int, x: Any) -> Tensor:
    """The change of what was taken from `x` along `axis`, at the places (all different) where it was taken."""
    from .index import Mark
    from .indexing import ScatterAdd

    index = tuple(Mark.DISTINCT if i == axis else Mark.ALONG for i in range(x.ndim))
    return call_one(ScatterAdd((index,)), shape_value(x), change, places)


@rules.jvp.register(Sort)
def _jvp_sort(op: Sort, inputs: Values, outputs: Values, tangents: Values) -> Any:
    from .indexing import take_along_axis

    if inputs[0].dtype.kind != "f":
        return [None]
    order = call_one(Argsort(op.axis, op.descending), inputs[0])
    return [take_along_axis(tangents[0], order, axis=op.axis)]


@rules.infer.register(TopK)
def _infer_topk(op: TopK, x: Spec) -> tuple[Spec, Spec]:
    axis = _ordered(x, op.axis, "topk")
    if not 0 <= op.k <= x.shape[axis]:
        raise ShapeError(f"topk: there are no {op.k} elements along axis {axis} of {x!r}")
    shape = (*x.shape[:axis], op.k, *x.shape[axis + 1 :])
    return Spec(shape, x.dtype), Spec(shape, _INT64)


@rules.kernel.register(TopK)
def _kernel_topk(op: TopK, x: Any) -> Any:
    order = _kernel_argsort(Argsort(op.axis, op.largest), x)
    first = tuple(slice(op.k) if axis == op.axis else slice(None) for axis in range(x.ndim))
    chosen = np.ascontiguousarray(order[first])  # a view would keep all of the order alive
    return np.take_along_axis(x, chosen, op.axis), chosen


@rules.vjp.register(TopK)
def _vjp_topk(op: TopK, inputs: Values, outputs: Values, cotangents: Values) -> Any:
    if inputs[0].dtype.kind != "f":
        return [None]
    return [_put_back(cotangents[0], outputs[1], op.axis, inputs[0])]


@rules.jvp.register(TopK)
def _jvp_topk(op: TopK, inputs: Values, outputs: Values, tangents: Values) -> Any:
    from .indexing import take_along_axis

    if inputs[0].dtype.kind != "f":
        return [None, None]
    return [take_along_axis(tangents[0], outputs[1], axis=op.axis), None]


@rules.batch.register(ArgReduce, Sort, Argsort, TopK)
def _batch(op: Any, size: int, inputs: Values, axes: Values) -> Any:
    lanes = attrs.evolve(op, axis=op.axis + 1)
    outputs = call(lanes, moveaxis(inputs[0], axes[0], 0))
    return list(outputs), [0] * len(outputs)


# Places.


@rules.infer.register(Nonzero)
def _infer_nonzero(op: Nonzero, x: Spec) -> Spec:
    raise TraceError(
        f"nonzero: how many elements of {x!r} are not zero is known from data alone, and there is none while shapes "
        "are inferred (in a trace, a recorded rule or a batch); ops.where chooses by value without changing shapes"
    )


@rules.kernel.register(Nonzero)
def _kernel_nonzero(op: Nonzero, x: Any) -> Any:
    return np.nonzero(x)


@rules.infer.register(SearchSorted)
def _infer_search(op: SearchSorted, sorted_values: Spec, x: Spec) -> Spec:
    if op.side not in ("left", "right"):
        raise OperatorError(f'searchsorted: side is "left" or "right", not {op.side!r}')
    if sorted_values.ndim != 1:
        raise ShapeError(f"searchsorted: what is searched must be a vector, not {sorted_values!r}")
    _ordered(sorted_values, 0, "searchsorted")
    return Spec(x.shape, _INT64)


@rules.kernel.register(SearchSorted)
def _kernel_search(op: SearchSorted, sorted_values: Any, x: Any) -> Any:
    return np.searchsorted(sorted_values, x, op.side)  # type: ignore[call-overload]


@rules.batch.register(Nonzero)
def _batch_nonzero(op: Nonzero, size: int, inputs: Values, axes: Values) -> Any:
    raise TraceError(
        f"nonzero: each of {size} examples has its own number of elements that are not zero, so vmap has no array "
        "for the results; ops.where chooses by value without changing shapes"
    )


@rules.batch.register(SearchSorted)
def _batch_search(op: SearchSorted, size: int, inputs: Values, axes: Values) -> Any:
    """One vector for all examples is searched at once; vectors of their own are compared with, element by element."""
    from .comparison import less, less_equal
    from .reduction import sum

    if axes[0] is None:
        return [call_one(op, *inputs)], [axes[1]]
    rows = moveaxis(inputs[0], axes[0], 0)
    x = inputs[1] if axes[1] is None else moveaxis(inputs[1], axes[1], 0)
    ndim = x.ndim - (axes[1] is not None)
    places = expand_dims(rows, axis=tuple(range(1, ndim + 1))) if ndim else rows
    before = (less if op.side == "left" else less_equal)(places, expand_dims(x, axis=-1))
    return [sum(before, axis=-1)], [0]


@rules.vjp.register(ArgReduce, Argsort, Nonzero, SearchSorted)
def _no_gradient(op: OpDef, inputs: Values, outputs: Values, cotangents: Values) -> Any:
    return [None] * len(inputs)


@rules.jvp.register(ArgReduce, Argsort, Nonzero, SearchSorted)
def _no_tangent(op: OpDef, inputs: Values, outputs: Values, tangents: Values) -> Any:
    return [None] * len(outputs)


# Public functions.


def _arg(mode: str, x: Any, axis: int | None, keepdims: bool, name: str) -> Tensor:
    handle = as_handle(x)
    if axis is not None:
        return call_one(ArgReduce(mode, normal_axis(axis, handle.ndim, name), bool(keepdims)), handle)
    found = call_one(ArgReduce(mode, 0), flatten(handle))
    return reshape(found, (1,) * handle.ndim) if keepdims else found


def argmax(x: Any, /, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """The index (int64) of the first largest element along `axis`; without an axis, in the flattened array.

    Raises ShapeError where there is no element or no such axis, DTypeError for complex numbers.

    >>> argmax([[1.0, 3.0], [4.0, 2.0]], axis=1)
    tensor([1, 0], dtype=int64)
    """
    return _arg("MAX", x, axis, keepdims, "argmax")


def argmin(x: Any, /, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """The index (int64) of the first smallest element along `axis`; otherwise as `argmax`."""
    return _arg("MIN", x, axis, keepdims, "argmin")


def sort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The elements of `x` in order along `axis`; NaN counts as the largest.

    Raises ShapeError for an axis that does not exist, DTypeError for complex numbers.

    >>> sort([3.0, 1.0, 2.0], descending=True)
    tensor([3., 2., 1.])
    """
    handle = as_handle(x)
    return call_one(Sort(normal_axis(axis, handle.ndim, "sort"), bool(descending)), handle)


def argsort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The indices (int64) that sort `x` along `axis`; equal elements keep their order. Errors as for `sort`.

    >>> argsort([3.0, 1.0, 2.0])
    tensor([1, 2, 0], dtype=int64)
    """
    handle = as_handle(x)
    return call_one(Argsort(normal_axis(axis, handle.ndim, "argsort"), bool(descending)), handle)


def topk(x: Any, /, k: int, axis: int = -1, *, largest: bool = True) -> tuple[Tensor, Tensor]:
    """The `k` largest elements along `axis`, the largest first (or the smallest), and their indices (int64).

    Raises ShapeError where there are fewer than `k`, DTypeError for complex numbers.

    >>> topk([3.0, 1.0, 2.0], 2)
    (tensor([3., 2.]), tensor([0, 2], dtype=int64))
    """
    handle = as_handle(x)
    values, indices = call(TopK(int(k), normal_axis(axis, handle.ndim, "topk"), bool(largest)), handle)
    return values, indices


def nonzero(x: Any, /) -> tuple[Tensor, ...]:
    """The indices of the elements of `x` that are not zero: one vector (int64) for each axis, in row-major order.

    Raises ShapeError for an array without axes, TraceError where there is no data (in a trace, in a batch).

    >>> nonzero([0.0, 2.0, 3.0])
    (tensor([1, 2], dtype=int64),)
    """
    handle = as_handle(x)
    if not handle.ndim:
        raise ShapeError("nonzero of an array without axes")
    return call(Nonzero(), handle if handle.dtype.kind == "b" else astype(handle, "bool"))


def searchsorted(x1: Any, x2: Any, /, *, side: str = "left", sorter: Any = None) -> Tensor:
    """For each element of `x2`, the place (int64) in the sorted vector `x1` before which it belongs.

    Among equal ones before the first (`side` "left") or behind the last ("right"). `sorter` holds the indices that
    sort `x1` where it is not sorted. Raises ShapeError where `x1` is no vector, OperatorError for another side.

    >>> searchsorted([1.0, 2.0, 3.0], [2.0, 5.0])
    tensor([1, 3], dtype=int64)
    """
    if sorter is not None:
        from .gathering import take

        x1 = take(x1, sorter, axis=0)
    return call_one(SearchSorted(side), x1, x2)


class UniqueAll(NamedTuple):
    """What `unique_all` returns."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """What `unique_counts` returns."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """What `unique_inverse` returns."""

    values: Tensor
    inverse_indices: Tensor


def unique_all(x: Any, /) -> UniqueAll:
    """The different elements of `x` in ascending order; where each was first, in the flattened array; for each
    element of `x` its place among them; and how often each occurs. Every NaN differs.

    Only where data is: raises TraceError in a trace or batch. There is a gradient by `x` through the values.

    >>> [part.tolist() for part in unique_all([2, 1, 2])]
    [[1, 2], [1, 0], [1, 0, 1], [1, 2]]
    """
    from .comparison import not_equal
    from .creation import full
    from .cumulative import cumulative_sum
    from .gathering import take
    from .joining import concat, split

    handle = as_handle(x)
    flat = flatten(handle)
    total = flat.shape[0]
    order = argsort(flat)
    ordered = take(flat, order, axis=0)
    first = full((min(total, 1),), True)
    later, earlier = split(ordered, [min(total, 1)])[1], split(ordered, [max(total - 1, 0)])[0]
    is_new = concat([first, not_equal(later, earlier)])
    starts = nonzero(is_new)[0]
    ranks = cumulative_sum(is_new) - 1
    inverse = reshape(take(ranks, argsort(order), axis=0), shape_value(handle))
    ends = concat([split(starts, [1])[1], full((min(total, 1),), total, dtype="int64")])
    return UniqueAll(take(ordered, starts, axis=0), take(order, starts, axis=0), inverse, ends - starts)


def unique_counts(x: Any, /) -> UniqueCounts:
    """The different elements of `x` in ascending order, and how often each occurs. See `unique_all`."""
    found = unique_all(x)
    return UniqueCounts(found.values, found.counts)


def unique_inverse(x: Any, /) -> UniqueInverse:
    """The different elements of `x` in ascending order, and the place among them of each element of `x`."""
    found = unique_all(x)
    return UniqueInverse(found.values, found.inverse_indices)


def unique_values(x: Any, /) -> Tensor:
    """The different elements of `x` in ascending order. See `unique_all`.

    >>> unique_values([2, 1, 2])
    tensor([1, 2], dtype=int32)
    """
    return unique_all(x).values
