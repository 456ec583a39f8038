"""Dtypes, what is known of them, and constants: the rest of what the Array API standard asks of a namespace."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from interp import Tensor
from interp.dtypes import DType, complex_counterpart, default_dtype, dtype_of_scalar, promote
from interp.value import dtype_of, is_weak

__all__ = [
    "__array_namespace_info__",
    "bool",
    "can_cast",
    "complex64",
    "complex128",
    "e",
    "finfo",
    "float16",
    "float32",
    "float64",
    "iinfo",
    "inf",
    "int8",
    "int16",
    "int32",
    "int64",
    "isdtype",
    "nan",
    "newaxis",
    "pi",
    "result_type",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]

bool = np.dtype(np.bool_)
int8, int16, int32, int64 = (np.dtype(f"int{bits}") for bits in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64))
float16, float32, float64 = (np.dtype(f"float{bits}") for bits in (16, 32, 64))
complex64, complex128 = np.dtype("complex64"), np.dtype("complex128")

e, inf, nan, pi = math.e, math.inf, math.nan, math.pi
newaxis = None


def _dtype(x: Any) -> DType:
    return dtype_of(x._value) if isinstance(x, Tensor) else np.dtype(getattr(x, "dtype", x))


def result_type(*arrays_and_dtypes: Any) -> DType:
    """The dtype in which arrays, dtypes and Python numbers (weakly) meet. Raises DTypeError where there is none.

    >>> result_type(float32, int64), result_type(int8, 2)
    (dtype('float32'), dtype('int8'))
    """
    operands = []
    for x in arrays_and_dtypes:
        value = x._value if isinstance(x, Tensor) else x
        weak = is_weak(value)
        operands.append((dtype_of_scalar(value) if weak and not isinstance(x, Tensor) else _dtype(x), weak))
    return promote(operands)[0]


def can_cast(from_: Any, to: Any, /) -> Any:
    """Whether an array or a dtype can be cast to a dtype without losing anything.

    >>> can_cast(int32, float64), can_cast(float64, float32)
    (True, False)
    """
    return np.can_cast(_dtype(from_), np.dtype(to))


def isdtype(dtype: Any, kind: Any) -> Any:
    """Whether a dtype is of a kind: a dtype, or one of "bool", "signed integer", "unsigned integer", "integral",
    "real floating", "complex floating", "numeric"; or of one of a tuple of kinds.

    >>> isdtype(float32, "real floating"), isdtype(int8, ("bool", "unsigned integer"))
    (True, False)
    """
    return np.isdtype(np.dtype(dtype), kind)


def finfo(type: Any, /) -> Any:
    """The limits of a floating dtype, or of an array's, as numpy's `finfo`."""
    return np.finfo(_dtype(type))


def iinfo(type: Any, /) -> Any:
    """The limits of an integer dtype, or of an array's, as numpy's `iinfo`."""
    return np.iinfo(_dtype(type))


class __array_namespace_info__:
    """What the namespace can do, in the words of the standard.

    >>> __array_namespace_info__().default_device()
    'cpu'
    """

    def capabilities(self) -> dict[str, Any]:
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        return "cpu"

    def devices(self) -> list[str]:
        return ["cpu"]

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        """The dtypes that Python numbers become, and that of indices."""
        real = default_dtype()
        return {
            "real floating": real,
            "complex floating": complex_counterpart(real),
            "integral": int32,
            "indexing": int64,
        }

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, DType]:
        """The dtypes of the standard, or those of a kind."""
        whole: list[DType] = [bool, int8, int16, int32, int64, uint8, uint16, uint32, uint64]
        named: dict[str, DType] = {t.name: t for t in (*whole, float32, float64, complex64, complex128)}
        return named if kind is None else {name: dtype for name, dtype in named.items() if isdtype(dtype, kind)}
