"""Indexing as functions and as Python's syntax; the operators are in `index_operators.py`."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from interp import DTypeError, ShapeError, Tensor, read
from interp.dtypes import promote
from interp.tensor import call_one, from_value, syntax
from interp.value import is_weak

from .axes import as_handle, normal_axis
from .casting import astype
from .index import Index, Mark, check_mask, parse, result_ndim
from .index_operators import GetItem, GetWritten, IndexAdd, ScatterAdd, SetItem
from .manipulation import RemoveAxis, expand_dims

__all__ = [
    "GetItem",
    "GetWritten",
    "IndexAdd",
    "ScatterAdd",
    "SetItem",
    "getitem",
    "index_add",
    "index_set",
    "take_along_axis",
]


_reader = lru_cache(maxsize=1024)(GetItem)  # making an operator costs more than finding it


def getitem(x: Any, key: Any, /) -> Tensor:
    """`x[key]`, as numpy has it: slices, ints, `...`, None, integer arrays, masks, and mixtures of them.

    Raises IndexOutOfRangeError for places outside, too many entries, and masks that do not fit; ShapeError where
    index arrays do not broadcast together; DTypeError for what is no index.

    >>> import interp
    >>> x = interp.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> x[1], x[:, 0], x[[0, 1, 0], 1], x[[True, False]]
    (tensor([3., 4.]), tensor([1., 3.]), tensor([2., 4., 2.]), tensor([[1., 2.]]))
    """
    handle = as_handle(x)
    index, arrays = parse(handle, key)
    return call_one(_reader(index), handle, *arrays) if index else from_value(read(handle))


def index_set(x: Any, key: Any, value: Any, /) -> Tensor:
    """`x` with `x[key] = value`, as a new Tensor; of several writes to one place the last wins.

    `value` is stretched to what the key selects, and cast to the dtype of `x` within its kind. Differentiable by
    both. Raises DTypeError for a value of a higher kind (a float in an integer array), ShapeError where it cannot
    be stretched; otherwise as `getitem`.

    >>> import interp
    >>> index_set(interp.tensor([1.0, 2.0, 3.0]), slice(1, None), 0.0)
    tensor([1., 0., 0.])
    """
    return _write(SetItem, x, key, value)


def index_add(x: Any, key: Any, value: Any, /) -> Tensor:
    """`x` with `value` added at `key`, as a new Tensor; a place that is named twice gets both.

    Arguments and errors as for `index_set`.

    >>> import interp
    >>> index_add(interp.tensor([1.0, 2.0]), [0, 0], interp.tensor([10.0, 100.0]))
    tensor([111.,   2.])
    """
    return _write(IndexAdd, x, key, value)


def take_along_axis(x: Any, indices: Any, /, *, axis: int = -1) -> Tensor:
    """For each vector of `x` along `axis` the elements that the vector of `indices` names.

    Both have the same number of axes; but for `axis` their lengths broadcast. Raises IndexOutOfRangeError for places
    outside, ShapeError where shapes do not fit, DTypeError for indices that are no integers.

    >>> import interp
    >>> x = interp.tensor([[3.0, 1.0], [1.0, 2.0]])
    >>> take_along_axis(x, interp.tensor([[1, 0], [0, 1]]))
    tensor([[1., 3.],
            [1., 2.]])
    """
    handle, places = as_handle(x), as_handle(indices)
    return call_one(GetItem(along(handle, places, axis, "take_along_axis")), handle, places)


def along(x: Tensor, indices: Tensor, axis: int, function: str) -> Index:
    """The index of `x` that `indices` means along `axis`. Raises ShapeError where they differ in rank."""
    if x.ndim != indices.ndim:
        raise ShapeError(f"{function}: the array has {x.ndim} axes, the indices have {indices.ndim}")
    place = normal_axis(axis, x.ndim, function)
    return tuple(Mark.ARRAY if i == place else Mark.ALONG for i in range(x.ndim))


def _write(kind: Any, x: Any, key: Any, value: Any) -> Tensor:
    target, given = as_handle(x), as_handle(value)
    if not is_weak(given._value) and not np.can_cast(given.dtype, target.dtype, "same_kind"):
        raise DTypeError(
            f"a {given.dtype} value cannot be stored in a {target.dtype} array; cast it with ops.astype first"
        )
    if kind is SetItem and not given.ndim and _is_mask(key):
        return _masked(target, key, given)
    index, arrays = parse(target, key)
    ndim = result_ndim(index, target.ndim, [array.ndim for array in arrays])
    if given.ndim > ndim:  # leading axes of length 1 do not matter
        given = call_one(RemoveAxis(tuple(range(given.ndim - ndim))), given)
    return call_one(kind(index), target, given, *arrays)


def _is_mask(key: Any) -> bool:
    return isinstance(key, Tensor) and key.dtype.kind == "b" and key.ndim > 0


def _masked(x: Tensor, mask: Tensor, value: Tensor) -> Tensor:
    """`x` with one number where the mask is True: chosen by value, so that the mask may vary in a batch or a trace."""
    from .comparison import where

    check_mask(x, mask.shape, 0)
    if is_weak(value._value) and promote([(x.dtype, False), (value.dtype, True)])[0] != x.dtype:
        raise DTypeError(f"{value!r} cannot be stored in a {x.dtype} array; cast it with ops.astype first")
    missing = x.ndim - mask.ndim
    chosen = expand_dims(mask, axis=tuple(range(mask.ndim, x.ndim))) if missing else mask
    return where(chosen, value if value.dtype == x.dtype else astype(value, x.dtype), x)


syntax.call["getitem"] = getitem
syntax.call["setitem"] = index_set
