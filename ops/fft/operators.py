"""The operators behind the Fourier transforms: of complex numbers, of real ones, and back to real ones.

The matrix of the transform is symmetric, so a complex transform is its own transpose. A transform of real numbers gives
half of the spectrum, and its transpose is the transform back but for a weight: each frequency that stands for its
mirror image as well counts twice on the way back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
import scipy.fft

from interp import DTypeError, OpDef, OperatorError, ShapeError, Spec, Tensor, rules
from interp.dtypes import DType, complex_counterpart, default_dtype, real_counterpart
from interp.tensor import call_one

from ..arithmetic import divide, multiply
from ..axes import Values, normal_axes
from ..broadcasting import like
from ..complex import conj
from ..manipulation import moveaxis

__all__ = ["NORMS", "Fourier", "FromHalfSpectrum", "HalfSpectrum"]

NORMS = {"backward": "forward", "ortho": "ortho", "forward": "backward"}
"""Which of the two ways is divided by the number of elements; and the norm that says the same of the way back."""


@attrs.frozen
class Fourier(OpDef):
    """The transform over `axes`, or its `inverse`; real inputs count as complex ones."""

    axes: tuple[int, ...]
    inverse: bool = False
    norm: str = "backward"


@attrs.frozen
class HalfSpectrum(OpDef):
    """The transform of real numbers over `axes`: along the last of them only the first half, as the rest mirrors it."""

    axes: tuple[int, ...]
    norm: str = "backward"


@attrs.frozen
class FromHalfSpectrum(OpDef):
    """The way back from `HalfSpectrum` to real numbers, `length` of them along the last of `axes`."""

    axes: tuple[int, ...]
    length: int
    norm: str = "backward"


def _check(op: Any, x: Spec, kinds: str) -> None:
    axes = normal_axes(op.axes, x.ndim, "fft", "axes")
    if op.norm not in NORMS:
        raise OperatorError(f"fft: norm must be one of {', '.join(NORMS)}, not {op.norm!r}")
    if any(not x.shape[axis] for axis in axes):
        raise ShapeError(f"fft: the axes {axes} of {x!r} must have elements")
    if x.dtype.kind not in kinds:
        raise DTypeError(f"fft: a transform of real numbers was given {x.dtype}")


def spectrum_dtype(dtype: DType) -> DType:
    return complex_counterpart(dtype if dtype.kind in "fc" else default_dtype())


@rules.infer.register(Fourier)
def _infer_fourier(op: Fourier, x: Spec) -> Spec:
    _check(op, x, "biufc")
    return Spec(x.shape, spectrum_dtype(x.dtype))


@rules.infer.register(HalfSpectrum)
def _infer_half(op: HalfSpectrum, x: Spec) -> Spec:
    _check(op, x, "biuf")
    return Spec(_with_length(x.shape, op.axes[-1], x.shape[op.axes[-1]] // 2 + 1), spectrum_dtype(x.dtype))


@rules.infer.register(FromHalfSpectrum)
def _infer_from_half(op: FromHalfSpectrum, x: Spec) -> Spec:
    _check(op, x, "biufc")
    axis = op.axes[-1]
    if op.length < 1 or x.shape[axis] != op.length // 2 + 1:
        raise ShapeError(f"fft: axis {axis} of {x!r} is no half spectrum of {op.length} elements")
    return Spec(_with_length(x.shape, axis, op.length), real_counterpart(spectrum_dtype(x.dtype)))


def _with_length(shape: tuple[int, ...], axis: int, length: int) -> tuple[int, ...]:
    return (*shape[:axis], length, *shape[axis + 1 :])


@rules.kernel.register(Fourier)
def _kernel_fourier(op: Fourier, x: Any) -> Any:
    x = _floating(x)
    if not op.axes:
        return x.astype(spectrum_dtype(x.dtype))
    if len(op.axes) == 1:
        transform = scipy.fft.ifft if op.inverse else scipy.fft.fft
        return transform(x, axis=op.axes[0], norm=op.norm)
    return (scipy.fft.ifftn if op.inverse else scipy.fft.fftn)(x, axes=op.axes, norm=op.norm)


@rules.kernel.register(HalfSpectrum)
def _kernel_half(op: HalfSpectrum, x: Any) -> Any:
    x = _floating(x)
    if len(op.axes) == 1:
        return scipy.fft.rfft(x, axis=op.axes[0], norm=op.norm)
    return scipy.fft.rfftn(x, axes=op.axes, norm=op.norm)


@rules.kernel.register(FromHalfSpectrum)
def _kernel_from_half(op: FromHalfSpectrum, x: Any) -> Any:
    x = _floating(x)
    if len(op.axes) == 1:
        return scipy.fft.irfft(x, op.length, axis=op.axes[0], norm=op.norm)
    lengths = [x.shape[axis] for axis in op.axes[:-1]]
    return scipy.fft.irfftn(x, (*lengths, op.length), axes=op.axes, norm=op.norm)


def _floating(x: Any) -> Any:
    return x if x.dtype.kind in "fc" else x.astype(default_dtype())


# Derivatives. Transposes, not adjoints: the convention for complex numbers is that of `ops.real`.


@rules.vjp.register(Fourier)
def _vjp_fourier(op: Fourier, inputs: Values, outputs: Values, cotangents: Values) -> Any:
    return [like(call_one(op, cotangents[0]), inputs[0]) if inputs[0].dtype.kind in "fc" else None]


@rules.vjp.register(HalfSpectrum)
def _vjp_half(op: HalfSpectrum, inputs: Values, outputs: Values, cotangents: Values) -> Any:
    if inputs[0].dtype.kind != "f":
        return [None]
    length = inputs[0].shape[op.axes[-1]]
    back = FromHalfSpectrum(op.axes, length, NORMS[op.norm])
    weighted = divide(conj(cotangents[0]), _weights(op.axes[-1], length, cotangents[0]))
    return [like(call_one(back, weighted), inputs[0])]


@rules.vjp.register(FromHalfSpectrum)
def _vjp_from_half(op: FromHalfSpectrum, inputs: Values, outputs: Values, cotangents: Values) -> Any:
    if inputs[0].dtype.kind not in "fc":
        return [None]
    spectrum = conj(call_one(HalfSpectrum(op.axes, NORMS[op.norm]), cotangents[0]))
    return [like(multiply(spectrum, _weights(op.axes[-1], op.length, spectrum)), inputs[0])]


def _weights(axis: int, length: int, spectrum: Tensor) -> Any:
    """For how many of the frequencies of `length` elements each of the half spectrum along `axis` stands."""
    weights = np.full(length // 2 + 1, 2, real_counterpart(spectrum.dtype))
    weights[0] = 1
    if length % 2 == 0:
        weights[-1] = 1
    return weights.reshape((-1, *(1,) * (spectrum.ndim - 1 - axis)))


@rules.jvp.register(Fourier, HalfSpectrum, FromHalfSpectrum)
def _jvp(op: OpDef, inputs: Values, outputs: Values, tangents: Values) -> Any:
    return [call_one(op, tangents[0])]


@rules.batch.register(Fourier, HalfSpectrum, FromHalfSpectrum)
def _batch(op: Any, size: int, inputs: Values, axes: Sequence[Any]) -> Any:
    lanes = attrs.evolve(op, axes=tuple(axis + 1 for axis in op.axes))
    return [call_one(lanes, moveaxis(inputs[0], axes[0], 0))], [0]
