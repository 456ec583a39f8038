"""Host data becomes arrays: which dtype numbers, nested sequences and foreign arrays take, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np

from .dtypes import DType, dtype_of_scalar
from .errors import DTypeError, ShapeError
from .value import short

__all__ = ["host_array", "numeric"]

_SCALARS = (float, int, bool, complex)


def numeric(dtype: Any) -> DType:
    """A dtype of values. Raises DTypeError for one that is not numeric or boolean."""
    try:
        wanted = np.dtype(dtype)
    except TypeError:
        raise DTypeError(f"{dtype!r} is not a dtype") from None
    if wanted.kind not in "biufc":
        raise DTypeError(f"dtype {wanted} is not numeric or boolean")
    return wanted  # type: ignore[no-any-return]


def host_array(data: Any, dtype: Any = None) -> Any:
    """The array of a number, an array, or a nested sequence of these; not copied where it is an array already.

    Python floats become the default dtype, ints int32, unless `dtype` says otherwise; arrays keep theirs.
    Raises DTypeError for what is not numeric, ShapeError for ragged sequences.
    """
    wanted = None if dtype is None else numeric(dtype)
    if isinstance(data, (np.ndarray, np.generic)):
        if data.dtype.kind not in "biufc":
            raise DTypeError(f"data of dtype {data.dtype} is not numeric or boolean")
        return data if wanted is None or data.dtype == wanted else data.astype(wanted)
    if type(data) in _SCALARS:
        return np.asarray(data, dtype_of_scalar(data) if wanted is None else wanted)
    try:
        array = np.asarray(data)
    except ValueError as error:
        raise ShapeError(f"the data is not a regular array: {error}") from None
    if array.dtype.kind not in "biufc":
        raise DTypeError(f"{type(data).__name__} holds something that is not a number: {short(data)}")
    if wanted is not None:
        return array.astype(wanted)
    if hasattr(data, "__array__") or hasattr(data, "__dlpack__") or _holds_array(data):
        return array
    return array.astype(_dtype_alone(array))


def _dtype_alone(array: Any) -> DType:
    if array.dtype.kind == "f" or array.dtype.kind == "c":
        return dtype_of_scalar(0.0 if array.dtype.kind == "f" else 0j)
    if array.dtype.kind == "i" and (not array.size or (array.min() >= -(2**31) and array.max() < 2**31)):
        return dtype_of_scalar(0)
    return array.dtype  # type: ignore[no-any-return]


def _holds_array(data: Any) -> bool:
    if isinstance(data, (list, tuple)):
        return bool(data) and _holds_array(data[0])
    return isinstance(data, (np.ndarray, np.generic))
