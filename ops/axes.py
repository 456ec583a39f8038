"""Axes as public functions are given them, checked and counted from the front; and operands as handles."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from interp import DTypeError, ShapeError, Tensor
from interp.tensor import as_operand, from_value

__all__ = ["Values", "as_handle", "inverse", "normal_axes", "normal_axis", "reused"]

O = TypeVar("O")

Values = Sequence[Any]
"""What a rule is given: the inputs, outputs, cotangents or tangents of an operator."""


def as_handle(x: Any) -> Tensor:
    """An argument of a public function as a Tensor, so that `.ndim` and `.dtype` can be asked of it.

    A Python scalar stays weakly typed. Raises DTypeError for what is not a Tensor, an array or a number.
    """
    x = as_operand(x)
    return x if isinstance(x, Tensor) else from_value(x)


def reused(cls: type[O]) -> Callable[..., O]:
    """A maker of operators of this class that gives the same one again for the same parameters.

    What is derived from an operator hangs on it, so one that is used again need not be looked up. Parameters must be
    normal: 1, 1.0 and True count as the same.
    """
    return functools.lru_cache(maxsize=1024)(cls)


def normal_axis(axis: Any, ndim: int, function: str, argument: str = "axis") -> int:
    """`axis` counted from the front. Raises ShapeError where there is none, DTypeError for no integer.

    >>> normal_axis(-1, 3, "sum")
    2
    """
    try:
        number = operator.index(axis)
    except TypeError:
        raise DTypeError(f"{function}: {argument} must be an integer, not {axis!r}") from None
    if not -ndim <= number < ndim:
        raise ShapeError(f"{function}: {argument} {number} does not exist; the array has {ndim} axes")
    return number % ndim if ndim else 0


def normal_axes(axis: Any, ndim: int, function: str, argument: str = "axis") -> tuple[int, ...]:
    """One axis, several or all of them (None), each counted from the front, in the order given.

    Raises ShapeError where one does not exist or is named twice.

    >>> normal_axes((-1, 0), 3, "sum"), normal_axes(None, 2, "sum")
    ((2, 0), (0, 1))
    """
    if axis is None:
        return tuple(range(ndim))
    given: Sequence[Any] = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    axes = tuple(normal_axis(a, ndim, function, argument) for a in given)
    if len(set(axes)) != len(axes):
        raise ShapeError(f"{function}: {argument} {axis} names an axis twice")
    return axes


def inverse(pattern: Sequence[int]) -> tuple[int, ...]:
    """The permutation that undoes `pattern`."""
    back = [0] * len(pattern)
    for position, axis in enumerate(pattern):
        back[axis] = position
    return tuple(back)
