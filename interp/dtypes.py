"""Dtypes: the default one, weak Python scalars, and the promotion of several operands to one dtype."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from .errors import DTypeError

__all__ = [
    "complex_counterpart",
    "default_dtype",
    "default_dtype_scope",
    "dtype_of_scalar",
    "is_floating",
    "promote",
    "real_counterpart",
    "set_default_dtype",
]

DType = np.dtype[Any]

_FLOAT32 = np.dtype(np.float32)
_INT32 = np.dtype(np.int32)
_BOOL = np.dtype(np.bool_)
_COMPLEX64 = np.dtype(np.complex64)
_COMPLEX128 = np.dtype(np.complex128)
_FLOAT64 = np.dtype(np.float64)
_INT64 = np.dtype(np.int64)

_default: ContextVar[DType] = ContextVar("lamina_default_dtype", default=_FLOAT32)


def default_dtype() -> DType:
    """The floating dtype of what has no dtype of its own: float32 unless the context says otherwise."""
    return _default.get()


def set_default_dtype(dtype: Any) -> None:
    """Make `dtype` (float32 or float64, as a dtype or its name) the default of the current context.

    A thread and an asyncio task each have their own. Affects what Python floats become, integer / integer,
    and floating functions of integers. Raises DTypeError for other dtypes.

    >>> import interp
    >>> with interp.default_dtype_scope("float64"):
    ...     interp.tensor(1.5).dtype
    dtype('float64')
    """
    wanted = np.dtype(dtype)
    if wanted not in (_FLOAT32, _FLOAT64):
        raise DTypeError(f"set_default_dtype takes float32 or float64, not {wanted}")
    _default.set(wanted)


@contextmanager
def default_dtype_scope(dtype: Any) -> Iterator[None]:
    """`with default_dtype_scope("float64"):` the default dtype is another within the block."""
    before = _default.get()
    set_default_dtype(dtype)
    try:
        yield
    finally:
        _default.set(before)


def dtype_of_scalar(value: object) -> DType:
    """The dtype that a Python scalar takes where no array decides it.

    >>> dtype_of_scalar(2), dtype_of_scalar(2.0), dtype_of_scalar(True)
    (dtype('int32'), dtype('float32'), dtype('bool'))
    """
    kind = type(value)
    if kind is bool:
        return _BOOL
    if kind is int:
        assert isinstance(value, int)
        return _INT32 if -(2**31) <= value < 2**31 else _INT64
    if kind is float:
        return _default.get()
    if kind is complex:
        return complex_counterpart(_default.get())
    raise DTypeError(f"{kind.__name__} is not a Tensor, an array or a number: {value!r:.60}")


def is_floating(dtype: DType) -> bool:
    """Whether gradients of this dtype make sense: real or complex floating."""
    return dtype.kind in "fc"


def complex_counterpart(dtype: DType) -> DType:
    """The complex dtype of the same precision (float32 -> complex64); complex dtypes themselves."""
    if dtype.kind == "c":
        return dtype
    return _COMPLEX128 if dtype == _FLOAT64 else _COMPLEX64


def real_counterpart(dtype: DType) -> DType:
    """The dtype of the real part (complex64 -> float32); other dtypes themselves."""
    if dtype.kind != "c":
        return dtype
    return _FLOAT32 if dtype == _COMPLEX64 else _FLOAT64


_RANK = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}


def promote(operands: list[tuple[DType, bool]]) -> tuple[DType, bool]:
    """The dtype that operands `(dtype, is_weak)` meet in, and whether that is weak.

    Weak operands (Python scalars) give way to arrays of their own kind or a higher one. An integer with a
    floating operand gives the floating operand's dtype, as in JAX and PyTorch; integer pairs and floating
    pairs promote as the Array API standard says.

    >>> f4, i8 = np.dtype("float32"), np.dtype("int64")
    >>> promote([(f4, False), (i8, False)])
    (dtype('float32'), False)
    >>> promote([(i8, False), (f4, True)])   # int64 array * 2.0
    (dtype('float32'), False)
    """
    strong: list[DType] = []
    weak: list[DType] = []
    for dtype, is_weak in operands:
        if dtype.kind not in _RANK:
            raise DTypeError(f"dtype {dtype} has no arithmetic here")
        (weak if is_weak else strong).append(dtype)
    if not strong:
        return _meet(weak), True
    result = _meet(strong)
    if weak:
        highest = max(weak, key=_rank)
        if _rank(highest) > _rank(result):
            if highest.kind == "c" and result.kind == "f":
                result = complex_counterpart(result)
            elif highest.kind == "f":
                result = _default.get()
            elif highest.kind == "c":
                result = complex_counterpart(_default.get())
            else:
                result = highest
    return result, False


def _rank(dtype: DType) -> int:
    return _RANK[dtype.kind]


def _meet(dtypes: list[DType]) -> DType:
    first = dtypes[0]
    for other in dtypes[1:]:
        if other is first:
            continue
        high, low = (first, other) if _rank(first) >= _rank(other) else (other, first)
        if _rank(high) >= 2 and _rank(low) <= 1:
            first = high
        else:
            first = np.promote_types(high, low)
            if first.kind == "f" and high.kind in "iu":
                raise DTypeError(f"{high} and {low} have no common integer dtype; cast one with ops.astype")
    return first
