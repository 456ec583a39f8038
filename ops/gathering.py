"""Taking, gathering and scattering: indexing by functions, with the names of the Array API, numpy and MegEngine."""

from __future__ import annotations

from typing import Any

import numpy as np

from interp import DTypeError, ShapeError, Tensor
from interp.tensor import call_one

from .axes import as_handle, normal_axis
from .index import WHOLE, Index, Mark
from .indexing import GetItem, SetItem, along
from .manipulation import flatten

__all__ = ["cond_take", "gather", "put_along_axis", "scatter", "take"]


def take(x: Any, indices: Any, /, *, axis: int | None = None) -> Tensor:
    """The slices of `x` along `axis` that `indices` names; without an axis, elements of the flattened `x`.

    The axis is replaced by those of `indices`; negative ones count from the end. Raises IndexOutOfRangeError for
    places outside, DTypeError for indices that are no integers.

    >>> import interp
    >>> take(interp.tensor([10.0, 20.0, 30.0]), interp.tensor([2, 0]))
    tensor([30., 10.])
    """
    handle, places = as_handle(x), _places(indices, "take")
    if axis is None:
        handle, axis = flatten(handle), 0
    index = (*[WHOLE] * normal_axis(axis, handle.ndim, "take"), Mark.ARRAY)
    return call_one(GetItem(index), handle, places)


def _places(indices: Any, function: str) -> Tensor:
    empty = isinstance(indices, (list, tuple)) and not np.size(indices)
    places = as_handle(np.zeros(np.shape(indices), np.intp) if empty else indices)
    if places.dtype.kind not in "iu":
        raise DTypeError(f"{function}: indices must be integers, not {places.dtype}")
    return places


def gather(x: Any, axis: int, index: Any) -> Tensor:
    """Elements of `x` named along `axis`: `out[i, j] = x[index[i, j], j]` for axis 0 of a matrix. MegEngine's.

    The result has the shape of `index`, which may be shorter than `x` along other axes. Raises
    IndexOutOfRangeError for places outside, ShapeError where `index` has another rank or is longer.

    >>> import interp
    >>> gather(interp.tensor([[1.0, 2.0], [3.0, 4.0]]), 1, interp.tensor([[1], [0]]))
    tensor([[2.],
            [3.]])
    """
    handle, places = as_handle(x), _places(index, "gather")
    entries, arrays = _grid(handle, places, axis, "gather")
    return call_one(GetItem(entries), handle, *arrays)


def scatter(x: Any, axis: int, index: Any, source: Any) -> Tensor:
    """`x` with elements of `source` written at places named along `axis`: the inverse of `gather`. MegEngine's.

    `out[i, index[i, j]] = source[i, j]` for axis 1 of a matrix; the last write to a place wins. Differentiable by
    `x` and `source`. Errors as for `gather`.

    >>> import interp
    >>> scatter(interp.tensor([[1.0, 2.0], [3.0, 4.0]]), 1, interp.tensor([[1], [0]]), interp.tensor([[8.0], [9.0]]))
    tensor([[1., 8.],
            [9., 4.]])
    """
    handle, places = as_handle(x), _places(index, "scatter")
    entries, arrays = _grid(handle, places, axis, "scatter")
    return call_one(SetItem(entries), handle, source, *arrays)


def _grid(x: Tensor, places: Tensor, axis: int, function: str) -> tuple[Index, tuple[Any, ...]]:
    """The index, and its arrays, that `places` means along `axis`, where it may be shorter along other axes."""
    index = along(x, places, axis, function)
    place = normal_axis(axis, x.ndim, function)
    rest = [i for i in range(x.ndim) if i != place]
    if all(places.shape[i] == x.shape[i] for i in rest):
        return index, (places,)
    if any(places.shape[i] > x.shape[i] for i in rest):
        raise ShapeError(f"{function}: an index of shape {places.shape} is longer than the array, {x.shape}")
    steps = [np.arange(n).reshape(n, *(1,) * (x.ndim - 1 - i)) for i, n in enumerate(places.shape)]
    return (Mark.ARRAY,) * x.ndim, tuple(places if i == place else step for i, step in enumerate(steps))


def put_along_axis(x: Any, indices: Any, values: Any, /, *, axis: int = -1) -> Tensor:
    """`x` with `values`, stretched, written at the places that `take_along_axis` would read, as a new Tensor.

    >>> import interp
    >>> put_along_axis(interp.tensor([[1.0, 2.0], [3.0, 4.0]]), interp.tensor([[1], [0]]), 0.0)
    tensor([[1., 0.],
            [0., 4.]])
    """
    handle, places = as_handle(x), _places(indices, "put_along_axis")
    return call_one(SetItem(along(handle, places, axis, "put_along_axis")), handle, values, places)


def cond_take(mask: Any, x: Any) -> tuple[Tensor, Tensor]:
    """The elements of `x` where `mask` is True, in one vector, and their places in the flattened `x`. MegEngine's.

    Raises ShapeError unless both have one shape. How many there are depends on the data, so not within `vmap`.

    >>> import interp
    >>> cond_take(interp.tensor([True, False, True]), interp.tensor([1.0, 2.0, 3.0]))
    (tensor([1., 3.]), tensor([0, 2], dtype=int64))
    """
    from .searching import nonzero

    handle, chosen = as_handle(x), as_handle(mask)
    if handle.shape != chosen.shape:
        raise ShapeError(f"cond_take: a mask of shape {chosen.shape} does not fit an array of shape {handle.shape}")
    (places,) = nonzero(flatten(chosen))
    return call_one(GetItem((Mark.DISTINCT,)), flatten(handle), places), places
