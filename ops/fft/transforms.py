"""The Fourier transforms: along one axis, along several, of real numbers, and of spectra of real numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from interp import DTypeError, ShapeError, Tensor
from interp.tensor import call_one

from ..arguments import choice, length, whole
from ..axes import as_handle, normal_axes
from ..complex import conj
from ..indexing import getitem
from ..padding import Padding
from .operators import NORMS, Fourier, FromHalfSpectrum, HalfSpectrum

__all__ = [
    "fft", "fftn", "hfft", "ifft", "ifftn", "ihfft", "irfft", "irfftn", "rfft", "rfftn",
]  # fmt: skip


def _norm(norm: Any, function: str) -> str:
    return "backward" if norm is None else str(choice(norm, tuple(NORMS), function, "norm"))  # None as numpy has it


def _operand(x: Any, function: str, real: bool = False) -> Tensor:
    handle = as_handle(x)
    if real and handle.dtype.kind == "c":
        raise DTypeError(f"{function} takes real numbers in x, not {handle.dtype}; see ops.fft.fft")
    return handle


def _plan(x: Tensor, s: Any, axes: Any, function: str) -> tuple[tuple[int, ...], list[int]]:
    """The axes to transform, and how many elements of each; -1 means all that there are."""
    if s is not None and axes is None:
        axes = range(x.ndim - len(s), x.ndim)
    places = normal_axes(None if axes is None else tuple(axes), x.ndim, function, "axes")
    lengths = [-1] * len(places) if s is None else [whole(n, function, "s") for n in s]
    if len(lengths) != len(places):
        raise ShapeError(f"{function}: s {tuple(lengths)} does not say a length for each of the axes {places}")
    return places, lengths


def _one(x: Tensor, n: Any, axis: Any, function: str) -> tuple[tuple[int, ...], list[int]]:
    places = normal_axes((axis,), x.ndim, function)
    return places, [-1 if n is None else length(n, function, "n", least=1)]


def _resized(x: Tensor, axes: Sequence[int], lengths: Sequence[int], function: str) -> Tensor:
    """`x` cut off, or filled up with zeros, to so many elements along these axes."""
    widths = [(0, 0)] * x.ndim
    kept = [slice(None)] * x.ndim
    for axis, count in zip(axes, lengths):
        if count == -1:
            count = x.shape[axis]
        if count < 1:
            raise ShapeError(f"{function}: at least one element must be transformed along axis {axis} of {x.shape}")
        kept[axis] = slice(count)
        widths[axis] = (0, max(0, count - x.shape[axis]))
    if any(index.stop is not None and index.stop < n for index, n in zip(kept, x.shape)):
        x = getitem(x, tuple(kept))
    return call_one(Padding(tuple(widths)), x) if any(after for _, after in widths) else x


def _transform(x: Any, plan: Any, inverse: bool, norm: Any, function: str) -> Tensor:
    norm = _norm(norm, function)
    handle = _operand(x, function)
    axes, lengths = plan(handle)
    return call_one(Fourier(axes, inverse, norm), _resized(handle, axes, lengths, function))


def _half(x: Any, plan: Any, norm: str, function: str) -> Tensor:
    handle = _operand(x, function, real=True)
    axes, lengths = plan(handle)
    if not axes:
        raise ShapeError(f"{function}: axes must name one axis at least")
    return call_one(HalfSpectrum(axes, norm), _resized(handle, axes, lengths, function))


def _from_half(x: Tensor, plan: Any, norm: str, function: str) -> Tensor:
    axes, lengths = plan(x)
    if not axes:
        raise ShapeError(f"{function}: axes must name one axis at least")
    count = 2 * (x.shape[axes[-1]] - 1) if lengths[-1] == -1 else lengths[-1]
    if count < 1:
        raise ShapeError(f"{function}: axis {axes[-1]} of shape {x.shape} holds no spectrum: {count} elements of it")
    resized = _resized(x, axes, [*lengths[:-1], count // 2 + 1], function)
    return call_one(FromHalfSpectrum(axes, count, norm), resized)


def fft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The discrete Fourier transform along `axis`: sum over j of x_j exp(-2 pi i j k / n), for k from 0 to n - 1.

    `n` elements are transformed, of `x` cut off or filled up with zeros. `norm` says which way is divided by n:
    "backward" (the inverse), "forward", or "ortho" (either by the root of n). The result is complex, of the precision
    of `x`. Raises ShapeError where there is no such axis, or no element, OperatorError for another norm.

    >>> import ops
    >>> ops.real(fft([1.0, 0.0, 0.0, 0.0]))
    tensor([1., 1., 1., 1.])
    """
    return _transform(x, lambda t: _one(t, n, axis, "fft"), False, norm, "fft")


def ifft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The inverse of `fft`, with the same parameters.

    >>> import ops
    >>> ops.real(ifft(fft([1.0, 2.0, 4.0])))
    tensor([1., 2., 4.])
    """
    return _transform(x, lambda t: _one(t, n, axis, "ifft"), True, norm, "ifft")


def fftn(
    x: Any, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward"
) -> Tensor:
    """`fft` along each of `axes` (all of them by default), `s` elements of each (-1 for all that there are).

    >>> import ops
    >>> ops.real(fftn([[1.0, 0.0], [0.0, 0.0]]))
    tensor([[1., 1.],
            [1., 1.]])
    """
    return _transform(x, lambda t: _plan(t, s, axes, "fftn"), False, norm, "fftn")


def ifftn(
    x: Any, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward"
) -> Tensor:
    """The inverse of `fftn`, with the same parameters."""
    return _transform(x, lambda t: _plan(t, s, axes, "ifftn"), True, norm, "ifftn")


def rfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """`fft` of real numbers: its first n // 2 + 1 elements, since the rest are their conjugates.

    Raises DTypeError for complex numbers, else as `fft`.

    >>> rfft([1.0, 2.0, 1.0, 0.0]).shape
    (3,)
    """
    return _half(x, lambda t: _one(t, n, axis, "rfft"), _norm(norm, "rfft"), "rfft")


def irfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The inverse of `rfft`: `n` real numbers, 2 (m - 1) by default for m elements along `axis`.

    What a spectrum of real numbers does not have, the imaginary part at frequency zero for one, is left out.

    >>> irfft(rfft([1.0, 2.0, 4.0, 0.0]))
    tensor([1., 2., 4., 0.])
    """
    return _from_half(_operand(x, "irfft"), lambda t: _one(t, n, axis, "irfft"), _norm(norm, "irfft"), "irfft")


def rfftn(
    x: Any, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward"
) -> Tensor:
    """`fftn` of real numbers: along the last of `axes` the first half only, as in `rfft`.

    >>> rfftn([[1.0, 0.0], [0.0, 0.0]]).shape
    (2, 2)
    """
    return _half(x, lambda t: _plan(t, s, axes, "rfftn"), _norm(norm, "rfftn"), "rfftn")


def irfftn(
    x: Any, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward"
) -> Tensor:
    """The inverse of `rfftn`; the last of `s` is how many real numbers there are along the last of `axes`."""
    return _from_half(_operand(x, "irfftn"), lambda t: _plan(t, s, axes, "irfftn"), _norm(norm, "irfftn"), "irfftn")


def hfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The transform of what mirrors its conjugate, of which `x` holds the first half: `n` real numbers.

    By default 2 (m - 1) for m elements along `axis`.

    >>> hfft([1.0, 0.0, 0.0])
    tensor([1., 1., 1., 1.])
    """
    back = NORMS[_norm(norm, "hfft")]
    return _from_half(conj(_operand(x, "hfft")), lambda t: _one(t, n, axis, "hfft"), back, "hfft")


def ihfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The inverse of `hfft`: n // 2 + 1 complex numbers of `n` real ones.

    >>> import ops
    >>> ops.real(ihfft(hfft([1.0, 0.0, 0.0])))
    tensor([1., 0., 0.])
    """
    back = NORMS[_norm(norm, "ihfft")]
    return conj(_half(x, lambda t: _one(t, n, axis, "ihfft"), back, "ihfft"))
