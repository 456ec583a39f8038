"""Adding at indexed places of an array, where one place may be named many times: numpy's `add.at`, faster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .index import Index, Mark, Slice, layout

__all__ = ["add_at"]


_SMALL = 512
"""Up to so many elements numpy's own `add.at` is not slower than looking for something better."""

_SPARSE = "fdFD"
"""The dtypes that scipy multiplies sparse matrices in."""


def add_at(out: Any, index: Index, filled: tuple[Any, ...], value: Any) -> None:
    """Add `value`, which has the shape of `out[filled]`, to `out` there; `filled` is `index` with its arrays.

    Raises IndexError for a place outside.
    """
    if Mark.ARRAY not in index:
        out[filled] += value
        return
    odd = value.dtype.char not in _SPARSE or Mark.TRUE in index or Mark.FALSE in index
    if odd or value.size <= _SMALL or out.ndim == value.ndim == 1:
        np.add.at(out, filled, value)
    else:
        _add_rows(out, index, filled, value)


def _add_rows(out: Any, index: Index, filled: tuple[Any, ...], value: Any) -> None:
    """Bring the indexed axes to the front, number their cells, and add to each row what is meant for it."""
    arrays = [np.asarray(part) for entry, part in zip(index, filled, strict=True) if isinstance(entry, (int, Mark))]
    together, before, depth = layout(index, [array.ndim for array in arrays])
    if together:
        value = np.moveaxis(value, range(before, before + depth), range(depth))
    sub, axes = _sliced(out, index, filled)
    rows = np.moveaxis(sub, axes, range(len(axes)))
    lengths, row = rows.shape[: len(axes)], rows.shape[len(axes) :]
    cells = _numbered(arrays, lengths)
    total = int(np.prod(lengths))
    if not row and out.flags.c_contiguous and total == out.size:
        np.add.at(out.reshape(-1), cells, value.reshape(-1))  # one vector by one vector is what it is fast at
        return
    parts = value.reshape(cells.size, -1)
    if not _distinct(cells, total):
        cells, parts = _summed(cells, parts, total)
    rows[np.unravel_index(cells, lengths)] += parts.reshape(cells.size, *row)


def _distinct(cells: Any, total: int) -> bool:
    marked = np.zeros(total, np.bool_)
    marked[cells] = True
    return np.count_nonzero(marked) == cells.size  # type: ignore[no-any-return]


def _sliced(out: Any, index: Index, filled: tuple[Any, ...]) -> tuple[Any, list[int]]:
    """`out` with the slices and new axes of the index taken, and where in it the axes are that arrays index."""
    basic: list[Any] = []
    axes: list[int] = []
    place = 0
    for entry, part in zip(index, filled, strict=True):
        if entry is Ellipsis:
            continue
        if entry is None or isinstance(entry, Slice):
            basic.append(part)
        else:
            basic.append(slice(None))
            axes.append(place)
        place += 1
    return out[tuple(basic)], axes


def _numbered(arrays: Sequence[Any], lengths: tuple[int, ...]) -> Any:
    """The number of the cell that each place of the index arrays names. Raises IndexError outside."""
    places = []
    for array, length in zip(arrays, lengths, strict=True):
        if array.size and not (-length <= array.min() and array.max() < length):
            raise IndexError("index out of range")
        places.append(np.where(array < 0, array + length, array) if array.size and array.min() < 0 else array)
    return np.ravel_multi_index(tuple(np.broadcast_arrays(*places)), lengths).reshape(-1)


def _summed(cells: Any, parts: Any, total: int) -> tuple[Any, Any]:
    """Each cell once, with the sum of the parts that are meant for it: the product with a matrix of zeros and ones."""
    from scipy.sparse import csc_array

    if total > 4 * cells.size:
        found, cells = np.unique(cells, return_inverse=True)
    else:
        found = np.arange(total)
    count = cells.size
    pick = csc_array((np.ones(count, parts.dtype), cells, np.arange(count + 1)), shape=(found.size, count))
    return found, pick @ parts
