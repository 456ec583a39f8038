"""Arguments of public functions that are no arrays, checked where they enter: numbers, choices, dtypes.

Each check raises a typed error that names the function and the argument, and returns the plain Python value.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from interp import DTypeError, OperatorError, ShapeError
from interp.dtypes import DType, default_dtype
from interp.value import short

__all__ = ["choice", "floating_dtype", "length", "numeric_dtype", "real_number", "whole"]


def whole(value: Any, function: str, argument: str) -> int:
    """A whole number. Raises DTypeError.

    >>> whole(True, "topk", "k"), whole(3, "topk", "k")
    (1, 3)
    """
    try:
        return operator.index(value)
    except TypeError:
        raise DTypeError(f"{function}: {argument} must be an integer, not {short(value)}") from None


def length(value: Any, function: str, argument: str, least: int = 0) -> int:
    """How many of something: a whole number, `least` or more. Raises DTypeError, or ShapeError for one below."""
    number = whole(value, function, argument)
    if number < least:
        raise ShapeError(f"{function}: {argument} must be at least {least}, not {number}")
    return number


def real_number(value: Any, function: str, argument: str) -> float:
    """A real number: an int, a float, or an array of one. Raises DTypeError."""
    try:
        if isinstance(value, (str, bytes)):
            raise TypeError
        return float(value)
    except (TypeError, ValueError):
        raise DTypeError(f"{function}: {argument} must be a number, not {short(value)}") from None


def choice(value: Any, options: Sequence[Any], function: str, argument: str) -> Any:
    """One of the options. Raises OperatorError.

    >>> choice("left", ("left", "right"), "searchsorted", "side")
    'left'
    """
    if isinstance(value, str) and value in options:
        return value
    listed = ", ".join(map(repr, options))
    raise OperatorError(f"{function}: {argument} must be one of {listed}, not {short(value)}")


def numeric_dtype(dtype: Any, function: str, argument: str = "dtype") -> DType:
    """A dtype of values. Raises DTypeError for what is no dtype, or not numeric or boolean."""
    try:
        wanted: DType = np.dtype(dtype)
    except (TypeError, ValueError):
        raise DTypeError(f"{function}: {argument} {short(dtype)} is not a dtype") from None
    if wanted.kind not in "biufc":
        raise DTypeError(f"{function}: {argument} {wanted} is not numeric or boolean")
    return wanted


def floating_dtype(dtype: Any, function: str) -> DType:
    """The default dtype where `dtype` is None, else a real floating one. Raises DTypeError."""
    if dtype is None:
        return default_dtype()
    wanted = numeric_dtype(dtype, function)
    if wanted.kind != "f":
        raise DTypeError(f"{function}: dtype must be real floating, not {wanted}")
    return wanted
