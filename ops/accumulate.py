"""Adding at indexed places of an array, where one place may be named many times: numpy's `add.at`, faster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .index import Index, Mark, Slice, arrays_of, layout

__all__ = ["add_at"]


def add_at(out: Any, index: Index, filled: tuple[Any, ...], value: Any) -> None:
    """Add `value`, which has the shape of `out[filled]`, to `out` there; `filled` is `index` with its arrays.

    Raises IndexError for a place outside.
    """
    if not arrays_of(index) or all(entry is not Mark.ARRAY for entry in index) or not value.size:
        out[filled] += value
    elif Mark.TRUE in index or Mark.FALSE in index:
        np.add.at(out, filled, value)
    else:
        _add_rows(out, index, filled, value)


def _add_rows(out: Any, index: Index, filled: tuple[Any, ...], value: Any) -> None:
    """Bring the indexed axes to the front, number their cells, and add to each row what is meant for it."""
    arrays = [np.asarray(part) for entry, part in zip(index, filled, strict=True) if isinstance(entry, (int, Mark))]
    together, before, depth = layout(index, [array.ndim for array in arrays])
    if together and depth:
        value = np.moveaxis(value, range(before, before + depth), range(depth))
    sub, axes = _sliced(out, index, filled)
    rows = np.moveaxis(sub, axes, range(len(axes)))
    cells = _numbered(arrays, rows.shape[: len(axes)])
    parts = value.reshape(cells.size, *rows.shape[len(axes) :])
    lengths = rows.shape[: len(axes)]
    total = int(np.prod(lengths))
    marked = np.zeros(total, np.bool_)
    marked[cells] = True
    if np.count_nonzero(marked) != cells.size:
        cells, parts = _summed(cells, parts, total)
    rows[np.unravel_index(cells, lengths)] += parts


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
    """Each cell once, with the sum of the parts that are meant for it."""
    if parts.ndim == 1 and parts.dtype.kind == "f" and total <= 16 * cells.size:
        sums = np.bincount(cells, parts, total)
        found = np.flatnonzero(np.bincount(cells, minlength=total))
        return found, sums[found].astype(parts.dtype)
    order = np.argsort(cells, kind="stable")
    ordered = cells[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    return ordered[starts], np.add.reduceat(parts[order], starts, axis=0, dtype=parts.dtype)
