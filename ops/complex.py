"""Complex numbers: parts and conjugates.

Gradients follow the convention of JAX: a cotangent is transposed, not conjugated, so for a holomorphic function the
gradient of `real(f)` by z is f'(z), and for a real function of z = x + iy it is d/dx - i d/dy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from interp import Tensor
from interp.dtypes import complex_counterpart
from interp.tensor import as_operand, call_one
from interp.value import dtype_of

from .casting import astype
from .elemwise import row

__all__ = ["conj", "imag", "real"]


def _unit(x: Any, change: Any, unit: complex) -> Any:
    """A real change as a change of the complex x, times 1 or -i."""
    if x.dtype.kind != "c":
        return change if unit == 1 else change * 0.0
    return astype(change, complex_counterpart(x.dtype)) * unit


def _real(x: Any) -> Any:
    return np.real(x)


def _imag(x: Any) -> Any:
    return np.imag(x)


def _conj(x: Any) -> Any:
    return np.conjugate(x) if x.dtype.kind == "c" else x


REAL = row(
    "REAL", _real, [1], result="real", kinds="biufc",
    vjp=lambda x, out, g: [_unit(x, g, 1)], jvp=lambda x, out, t: real(t),
)  # fmt: skip
IMAG = row(
    "IMAG", _imag, [1], result="real", kinds="biufc",
    vjp=lambda x, out, g: [_unit(x, g, -1j)], jvp=lambda x, out, t: imag(t),
)  # fmt: skip
CONJ = row(
    "CONJ", _conj, [1], vjp=lambda x, out, g: [conj(g)], jvp=lambda x, out, t: conj(t)
)


def real(x: Any, /) -> Tensor:
    """The real part; real numbers as they are.

    >>> real(1.0 + 2.0j)
    tensor(1.)
    """
    x = as_operand(x)
    return Tensor(x) if dtype_of(x).kind != "c" else call_one(REAL, x)


def imag(x: Any, /) -> Tensor:
    """The imaginary part; zeros for real numbers.

    >>> imag(1.0 + 2.0j)
    tensor(2.)
    """
    return call_one(IMAG, x)


def conj(x: Any, /) -> Tensor:
    """The complex conjugate.

    >>> import interp
    >>> conj(interp.tensor([1.0 + 2.0j])).dtype
    dtype('complex64')
    """
    return call_one(CONJ, x)
