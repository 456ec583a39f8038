"""What an index means: from Python's `x[...]` to a hashable description and the arrays that it needs.

A description is a tuple with one entry for each thing between the brackets:

| entry | takes an axis | stands for |
| --- | --- | --- |
| an int | yes | one place; negative ones count from the end |
| `Slice` | yes | a range of places |
| None | no | a new axis of length 1 |
| `Mark.ARRAY` | yes | the next index array of the operator |
| `Mark.DISTINCT` | yes | the same, made from a mask: no place occurs twice |
| `Mark.ALONG` | yes | as many places, one after another, as the index arrays have along the axis of this entry |
| `Mark.TRUE`, `Mark.FALSE` | no | a mask without axes: a new axis of length 1 or 0 |
| Ellipsis | no | nothing; it parts the arrays on its two sides, as numpy has it |

Axes that have no entry are taken whole.
"""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable, Sequence
from typing import Any, Union

import attrs
import numpy as np

from interp import DTypeError, IndexOutOfRangeError, OperatorError, ShapeError, Tensor
from interp.value import Wrapper, short

from .axes import as_handle

__all__ = [
    "Entry",
    "Index",
    "Mark",
    "Slice",
    "arrays_of",
    "explain",
    "layout",
    "parse",
    "resolver",
    "result_ndim",
    "result_shape",
]

Shape = tuple[int, ...]


class Mark(enum.Enum):
    """Entries of an index that are no numbers; see the table above."""

    ARRAY = "array"
    DISTINCT = "distinct"
    ALONG = "along"
    TRUE = "True"
    FALSE = "False"

    def __repr__(self) -> str:
        return self.value


@attrs.frozen(repr=False)
class Slice:
    """A Python slice that can be hashed."""

    start: Union[int, None] = None
    stop: Union[int, None] = None
    step: Union[int, None] = None

    @property
    def slice(self) -> slice:
        return slice(self.start, self.stop, self.step)

    def __repr__(self) -> str:
        parts = [self.start, self.stop] + ([] if self.step is None else [self.step])
        return ":".join("" if part is None else str(part) for part in parts)


Entry = Union[int, Slice, None, Mark, Any]
Index = tuple[Entry, ...]

WHOLE = Slice()
_OPERANDS = (Mark.ARRAY, Mark.DISTINCT)
_ADVANCED = (Mark.ARRAY, Mark.DISTINCT, Mark.ALONG, Mark.TRUE, Mark.FALSE)
_FREE = (None, Ellipsis, Mark.TRUE, Mark.FALSE)


def _takes_axis(entry: Entry) -> bool:
    return not any(entry is free for free in _FREE)


def arrays_of(index: Index) -> int:
    """How many index arrays the operator takes."""
    return sum(1 for entry in index if entry in _OPERANDS)


# Shapes.


def layout(index: Index, ndims: Sequence[int]) -> tuple[bool, int, int]:
    """Where the axes of the index arrays stand in the result: (together, before, depth).

    `depth` is how many axes the arrays broadcast to. They stand behind `before` others when the arrays and ints
    stand `together` in the index, else in front of all.
    """
    depth = max([0, *ndims])
    if Mark.TRUE in index or Mark.FALSE in index:
        depth = max(depth, 1)
    together, before, state = True, 0, 0
    for entry in index:
        if entry in _ADVANCED or isinstance(entry, int):
            together = together and state != 2
            state = 1
        else:
            before += state == 0 and entry is not Ellipsis
            state = 2 if state else 0
    return together, before if together else 0, depth


def result_shape(index: Index, shape: Shape, arrays: Sequence[Shape]) -> Shape:
    """The shape of `x[index]` for an `x` of this shape and index arrays of these.

    Raises ShapeError or IndexOutOfRangeError.
    """
    _check_rank(index, len(shape))
    wide = [tuple(array) for array in arrays]
    plain: list[int] = []
    axis = 0
    count = sum(1 for entry in index if entry in (*_OPERANDS, Mark.ALONG))
    position = 0
    for entry in index:
        if entry is None:
            plain.append(1)
        elif isinstance(entry, Slice):
            plain.append(len(range(*entry.slice.indices(shape[axis]))))
        elif entry is Mark.TRUE or entry is Mark.FALSE:
            wide.append((int(entry is Mark.TRUE),))
        elif isinstance(entry, int):
            _check_place(entry, axis, shape)
        elif entry is Mark.ALONG:
            wide.append((shape[axis], *(1,) * (count - position - 1)))
        position += entry in (*_OPERANDS, Mark.ALONG)
        axis += _takes_axis(entry)
    try:
        advanced = np.broadcast_shapes(*wide)
    except ValueError:
        listed = ", ".join(map(str, wide))
        raise ShapeError(f"index arrays of shapes {listed} do not broadcast together") from None
    _, before, _ = layout(index, [len(array) for array in wide])
    return (*plain[:before], *advanced, *plain[before:], *shape[axis:])


def result_ndim(index: Index, ndim: int, ndims: Sequence[int]) -> int:
    """How many axes `x[index]` has, for an `x` with `ndim` axes and index arrays with `ndims`."""
    plain = sum(1 for entry in index if entry is None or isinstance(entry, Slice))
    return plain + layout(index, ndims)[2] + ndim - sum(map(_takes_axis, index))


def _check_rank(index: Index, ndim: int) -> None:
    axes = sum(map(_takes_axis, index))
    if axes > ndim:
        raise IndexOutOfRangeError(f"too many indices: {axes} for an array with {ndim} axes")


def _check_place(place: int, axis: int, shape: Shape) -> None:
    if not -shape[axis] <= place < shape[axis]:
        raise IndexOutOfRangeError(
            f"index {place} is out of range for axis {axis} of size {shape[axis]} (the array's shape is {tuple(shape)})"
        )


def explain(index: Index, shape: Shape, arrays: Sequence[Any]) -> None:
    """Raise the typed error for an index that numpy refused, where there is one."""
    if any(isinstance(array, Wrapper) for array in arrays):
        return
    result_shape(index, shape, [np.shape(array) for array in arrays])
    given = iter(arrays)
    axis = 0
    for entry in index:
        if entry in _OPERANDS:
            array = np.asarray(next(given))
            if array.dtype.kind not in "iu":
                raise DTypeError(f"an index array must have an integer dtype, not {array.dtype}")
            wrong = array[(array < -shape[axis]) | (array >= shape[axis])]
            if wrong.size:
                _check_place(int(wrong.flat[0]), axis, shape)
        axis += _takes_axis(entry)


def resolver(index: Index) -> Callable[[Shape, Sequence[Any]], tuple[Any, ...]]:
    """A function from the shape of `x` and the index arrays to the index that numpy takes."""
    fixed = [entry.slice if isinstance(entry, Slice) else _FIXED.get(entry, entry) for entry in index]
    if not any(isinstance(entry, Mark) for entry in fixed):
        whole = tuple(fixed)
        return lambda shape, arrays: whole
    holes = [i for i, entry in enumerate(index) if entry in _OPERANDS]
    along = _along(index)

    def resolve(shape: Shape, arrays: Sequence[Any]) -> tuple[Any, ...]:
        filled = list(fixed)
        for i, array in zip(holes, arrays, strict=True):
            filled[i] = array
        if along:
            wide = np.broadcast_shapes(*map(np.shape, arrays))
            for i, axis, back in along:
                filled[i] = _steps(wide[-back] if back <= len(wide) else 1, shape[axis]).reshape(-1, *(1,) * (back - 1))
        return tuple(filled)

    return resolve


_FIXED: dict[Any, Any] = {Mark.TRUE: True, Mark.FALSE: False}


def _along(index: Index) -> list[tuple[int, int, int]]:
    """For each ALONG: its place in the index, its axis, and its axis of the index arrays counted from the back."""
    found = []
    axis = 0
    back = sum(1 for entry in index if entry in (*_OPERANDS, Mark.ALONG))
    for i, entry in enumerate(index):
        if entry is Mark.ALONG:
            found.append((i, axis, back))
        back -= entry in (*_OPERANDS, Mark.ALONG)
        axis += _takes_axis(entry)
    return found


def _steps(wanted: int, size: int) -> Any:
    return np.zeros(wanted, np.intp) if size == 1 else np.arange(size)


# From Python.


def parse(x: Tensor, key: Any) -> tuple[Index, tuple[Any, ...]]:
    """The index that `x[key]` means, and its arrays. Data is read for masks only.

    Raises IndexOutOfRangeError for too many entries and masks that do not fit, DTypeError for what is no index.
    """
    if type(key) is int:
        index: Index = (key,)
        _check_rank(index, x.ndim)
        return index, ()
    entries: list[Entry] = []
    arrays: list[Any] = []
    masks: list[tuple[int, Shape]] = []
    dots: int | None = None
    for part in key if isinstance(key, tuple) else (key,):
        if part is Ellipsis:
            if dots is not None:
                raise OperatorError("an index may hold '...' once only")
            dots = len(entries)
            entries.append(Ellipsis)
        else:
            _parse_part(part, entries, arrays, masks)
    given = len(entries)
    taken = sum(map(_takes_axis, entries))
    _check_rank(tuple(entries), x.ndim)
    if dots is not None and x.ndim > taken:
        entries[dots : dots + 1] = [WHOLE] * (x.ndim - taken)
    for position, shape in masks:
        moved = dots is not None and position > dots
        before = entries[: position + len(entries) - given] if moved else entries[:position]
        check_mask(x, shape, sum(map(_takes_axis, before)))
    if entries and entries[-1] is Ellipsis:
        entries.pop()
    while entries and entries[-1] == WHOLE and Ellipsis not in entries:
        entries.pop()
    return tuple(entries), tuple(arrays)


def _parse_part(part: Any, entries: list[Entry], arrays: list[Any], masks: list[tuple[int, Shape]]) -> None:
    if part is None:
        entries.append(None)
    elif isinstance(part, slice):
        entries.append(_slice(part))
    elif isinstance(part, (bool, np.bool_)):
        entries.append(Mark.TRUE if part else Mark.FALSE)
    elif isinstance(part, (int, np.integer)):
        entries.append(int(part))
    else:
        array = _index_array(part)
        if isinstance(array, Tensor) and type(array._value) in (int, bool):
            _parse_part(array._value, entries, arrays, masks)
        elif array.dtype.kind == "b":
            _parse_mask(array, entries, arrays, masks)
        elif array.dtype.kind not in "iu":
            raise DTypeError(f"an index must be integer or boolean, not {array.dtype}")
        elif isinstance(array, np.ndarray) and not array.ndim:
            entries.append(int(array))
        else:
            entries.append(Mark.ARRAY)
            arrays.append(array)


def _slice(part: slice) -> Slice:
    try:
        start, stop, step = (None if n is None else operator.index(n) for n in (part.start, part.stop, part.step))
    except TypeError:
        raise DTypeError(f"the parts of a slice must be integers or None, not {part}") from None
    if step == 0:
        raise OperatorError("the step of a slice cannot be zero")
    return Slice(start, stop, step)


def _index_array(part: Any) -> Any:
    """An index array: a Tensor as it is, anything else as a numpy array."""
    if isinstance(part, Tensor):
        return part
    if isinstance(part, Wrapper):
        return as_handle(part)
    if isinstance(part, (list, tuple, np.ndarray, np.generic)) or hasattr(part, "__array__"):
        if isinstance(part, (list, tuple)) and _holds_tensor(part):
            return as_handle(part)
        try:
            array = np.array(part)
        except ValueError:
            raise ShapeError(f"an index list must be regular, not {short(part)}") from None
        return array.astype(np.intp) if isinstance(part, (list, tuple)) and not array.size else array
    raise DTypeError(f"an index holds integers, slices, '...', None, integer and boolean arrays; not {short(part)}")


def _holds_tensor(part: Any) -> bool:
    return any(isinstance(item, Tensor) or (isinstance(item, (list, tuple)) and _holds_tensor(item)) for item in part)


def _parse_mask(mask: Any, entries: list[Entry], arrays: list[Any], masks: list[tuple[int, Shape]]) -> None:
    if not mask.ndim:
        entries.append(Mark.TRUE if bool(mask) else Mark.FALSE)
        return
    from .searching import nonzero

    masks.append((len(entries), tuple(mask.shape)))
    entries.extend([Mark.DISTINCT] * mask.ndim)
    arrays.extend(np.nonzero(mask) if isinstance(mask, np.ndarray) else nonzero(mask))


def check_mask(x: Tensor, mask: Shape, axis: int) -> None:
    if tuple(x.shape[axis : axis + len(mask)]) != mask:
        raise IndexOutOfRangeError(
            f"a mask of shape {mask} does not fit an array of shape {tuple(x.shape)} from axis {axis} on"
        )
