"""Which frequency stands where in a Fourier transform, and the frequency zero moved to the middle and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from interp import OperatorError, Tensor

from ..arguments import floating_dtype, length, real_number
from ..arithmetic import multiply
from ..axes import as_handle, normal_axes
from ..creation import arange
from ..joining import concat
from ..rearranging import roll

__all__ = ["fftfreq", "fftshift", "ifftshift", "rfftfreq"]


def _step(n: Any, d: Any, function: str) -> tuple[int, float]:
    """How many elements, and the distance of two frequencies."""
    count = length(n, function, "n", least=1)
    spacing = real_number(d, function, "d")
    if not spacing:
        raise OperatorError(f"{function}: the spacing d must not be zero")
    return count, 1.0 / (count * spacing)


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """The frequencies of the elements of an `fft` of `n` samples at distance `d`: zero, positive ones, negative ones.

    Of the default dtype unless `dtype` says otherwise. Raises ShapeError where `n` is less than 1.

    >>> fftfreq(4)
    tensor([ 0.  ,  0.25, -0.5 , -0.25])
    """
    count, step = _step(n, d, "fftfreq")
    dtype = floating_dtype(dtype, "fftfreq")
    positive = arange((count + 1) // 2, dtype=dtype, device=device)
    return multiply(concat([positive, arange(-(count // 2), 0, dtype=dtype)]), step)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """The frequencies of the elements of an `rfft` of `n` samples at distance `d`, otherwise as `fftfreq`.

    >>> rfftfreq(4)
    tensor([0.  , 0.25, 0.5 ])
    """
    count, step = _step(n, d, "rfftfreq")
    dtype = floating_dtype(dtype, "rfftfreq")
    return multiply(arange(count // 2 + 1, dtype=dtype, device=device), step)


def _shifted(x: Any, axes: Any, half: Any, function: str) -> Tensor:
    handle = as_handle(x)
    places = normal_axes(axes, handle.ndim, function, "axes")
    return roll(handle, tuple(half(handle.shape[axis]) for axis in places), axis=places) if places else handle


def fftshift(x: Any, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """The frequency zero moved to the middle of `axes` (all of them by default), negative frequencies before it.

    >>> fftshift(fftfreq(4))
    tensor([-0.5 , -0.25,  0.  ,  0.25])
    """
    return _shifted(x, axes, lambda n: n // 2, "fftshift")


def ifftshift(x: Any, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """The inverse of `fftshift`.

    >>> ifftshift([-0.5, -0.25, 0.0, 0.25])
    tensor([ 0.  ,  0.25, -0.5 , -0.25])
    """
    return _shifted(x, axes, lambda n: -(n // 2), "ifftshift")
