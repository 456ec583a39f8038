"""Inverses, linear systems and determinants."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

from interp import OpDef, ShapeError, Spec, Tensor, rules
from interp.dtypes import real_counterpart
from interp.tensor import call, call_one

from ..arithmetic import add, divide, multiply, negative, subtract
from ..axes import Values
from ..broadcasting import batch_to_front, like
from ..manipulation import RemoveAxis, matrix_transpose
from ..matmul import matmul, product_dtype
from ..reduction import sum
from .matrices import as_floating, batch_front, check_matrix, check_square, columns

__all__ = ["Cofactors", "Det", "Inverse", "PseudoInverse", "SlogDet", "Solve", "det", "inv", "pinv", "slogdet", "solve"]


@attrs.frozen
class Inverse(OpDef):
    """The inverses of a stack of matrices."""


@attrs.frozen
class PseudoInverse(OpDef):
    """The Moore-Penrose inverses; singular values up to `rtol` times the largest count as zero."""

    rtol: float


@attrs.frozen
class Solve(OpDef):
    """x with a x = b, for stacks of matrices a (transposed first where the flag says so) and b."""

    transpose_a: bool = False


@attrs.frozen
class Det(OpDef):
    """The determinants of a stack of matrices."""


@attrs.frozen
class Cofactors(OpDef):
    """The matrices of cofactors, det(a) inv(a)^T, also where there is no inverse."""


@attrs.frozen
class SlogDet(OpDef):
    """The signs of determinants, and the logarithms of their magnitudes."""


# Inverses. d inv(a) = -inv(a) da inv(a).


@rules.infer.register(Inverse)
def _infer_inverse(op: Inverse, x: Spec) -> Spec:
    check_square("inv", x)
    return Spec(x.shape, x.dtype)


@rules.kernel.register(Inverse)
def _kernel_inverse(op: Inverse, x: Any) -> Any:
    return np.linalg.inv(x)


@rules.vjp.register(Inverse)
def _vjp_inverse(op: Inverse, inputs: Values, outputs: Values, cotangents: Values) -> Any:
    y = outputs[0]
    return [negative(matmul(matmul(y, cotangents[0], transpose_a=True), y, transpose_b=True))]


@rules.jvp.register(Inverse)
def _jvp_inverse(op: Inverse, inputs: Values, outputs: Values, tangents: Values) -> Any:
    return [negative(matmul(matmul(outputs[0], tangents[0]), outputs[0]))]


# Pseudo-inverses, at constant rank (Golub and Pereyra 1973, eq. 4.12).


@rules.infer.register(PseudoInverse)
def _infer_pinv(op: PseudoInverse, x: Spec) -> Spec:
    check_matrix("pinv", x, "f")
    return Spec((*x.shape[:-2], x.shape[-1], x.shape[-2]), x.dtype)


@rules.kernel.register(PseudoInverse)
def _kernel_pinv(op: PseudoInverse, x: Any) -> Any:
    return np.linalg.pinv(x, rtol=op.rtol)


@rules.vjp.register(PseudoInverse)
def _vjp_pinv(op: PseudoInverse, inputs: Values, outputs: Values, cotangents: Values) -> Any:
    a, p, g = inputs[0], outputs[0], cotangents[0]
    inner = matmul(matmul(p, g, transpose_a=True), p, transpose_b=True)
    left = matmul(matmul(g, p, transpose_a=True), p, transpose_b=True)
    right = matmul(p, matmul(p, g, transpose_b=True), transpose_a=True)
    left = subtract(left, matmul(a, matmul(p, left)))
    right = subtract(right, matmul(matmul(right, p), a))
    return [add(subtract(left, inner), right)]


@rules.jvp.register(PseudoInverse)
def _jvp_pinv(op: PseudoInverse, inputs: Values, outputs: Values, tangents: Values) -> Any:
    a, p, t = inputs[0], outputs[0], tangents[0]
    inner = matmul(matmul(p, t), p)
    left = matmul(p, matmul(p, t, transpose_a=True, transpose_b=True))
    right = matmul(matmul(t, p, transpose_a=True, transpose_b=True), p)
    left = subtract(left, matmul(matmul(left, a), p))
    right = subtract(right, matmul(p, matmul(a, right)))
    return [add(subtract(left, inner), right)]


# Linear systems.


@rules.infer.register(Solve)
def _infer_solve(op: Solve, a: Spec, b: Spec) -> Spec:
    check_square("solve", a)
    if b.ndim < 2 or b.shape[-2] != a.shape[-1]:
        raise ShapeError(f"solve: {b!r} is no right-hand side for {a!r}")
    try:
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError:
        raise ShapeError(f"solve of {a!r} and {b!r}: the stacks do not broadcast together") from None
    return Spec((*batch, *b.shape[-2:]), product_dtype("solve", a, b))


@rules.kernel.register(Solve)
def _kernel_solve(op: Solve, a: Any, b: Any) -> Any:
    dtype = np.result_type(a, b) if b.dtype.kind in "fc" else a.dtype
    a = a.swapaxes(-1, -2) if op.transpose_a else a
    return np.linalg.solve(a.astype(dtype, copy=False), b.astype(dtype, copy=False))


@rules.vjp.register(Solve)
def _vjp_solve(op: Solve, inputs: Values, outputs: Values, cotangents: Values) -> Any:
    a, b = inputs
    by_b = call_one(Solve(not op.transpose_a), a, cotangents[0])
    left, right = (outputs[0], by_b) if op.transpose_a else (by_b, outputs[0])
    by_a = like(negative(matmul(left, right, transpose_b=True)), a)
    return [by_a, like(by_b, b) if b.dtype.kind in "fc" else None]


@rules.jvp.register(Solve)
def _jvp_solve(op: Solve, inputs: Values, outputs: Values, tangents: Values) -> Any:
    a, _ = inputs
    ta, change = tangents
    if ta is not None:
        moved = matmul(ta, outputs[0], transpose_a=op.transpose_a)
        change = negative(moved) if change is None else subtract(change, moved)
    return [call_one(op, a, change)]


@rules.batch.register(Solve)
def _batch_solve(op: Solve, size: int, inputs: Values, axes: Values) -> Any:
    ndim = max(x.ndim - (axis is not None) for x, axis in zip(inputs, axes, strict=True))
    return [call_one(op, *[batch_to_front(x, axis, ndim) for x, axis in zip(inputs, axes, strict=True)])], [0]


# Determinants. d det(a) = <cofactors(a), da>.


@rules.infer.register(Det)
def _infer_det(op: Det, x: Spec) -> Spec:
    check_square("det", x)
    return Spec(x.shape[:-2], x.dtype)


@rules.kernel.register(Det)
def _kernel_det(op: Det, x: Any) -> Any:
    return np.linalg.det(x)


@rules.vjp.register(Det)
def _vjp_det(op: Det, inputs: Values, outputs: Values, cotangents: Values) -> Any:
    return [multiply(columns(columns(cotangents[0])), call_one(Cofactors(), inputs[0]))]


@rules.jvp.register(Det)
def _jvp_det(op: Det, inputs: Values, outputs: Values, tangents: Values) -> Any:
    return [sum(multiply(call_one(Cofactors(), inputs[0]), tangents[0]), axis=(-2, -1))]


@rules.infer.register(Cofactors)
def _infer_cofactors(op: Cofactors, x: Spec) -> Spec:
    check_square("det", x)
    return Spec(x.shape, x.dtype)


@rules.kernel.register(Cofactors)
def _kernel_cofactors(op: Cofactors, x: Any) -> Any:
    """By the singular values: cofactors(u s v) = det(u) det(v) u cofactors(s) v, without a division."""
    u, s, v = np.linalg.svd(x)
    n = s.shape[-1]
    others = np.where(np.eye(n, dtype=bool), np.ones((), s.dtype), s[..., None, :])
    sign = (np.linalg.det(u) * np.linalg.det(v))[..., None, None]
    return (sign * ((u * np.prod(others, axis=-1)[..., None, :]) @ v)).astype(x.dtype)


@rules.vjp.register(Cofactors)
def _vjp_cofactors(op: Cofactors, inputs: Values, outputs: Values, cotangents: Values) -> Any:
    return [_turned(inputs[0], outputs[0], cotangents[0])]


@rules.jvp.register(Cofactors)
def _jvp_cofactors(op: Cofactors, inputs: Values, outputs: Values, tangents: Values) -> Any:
    return [_turned(inputs[0], outputs[0], tangents[0])]


def _turned(a: Any, c: Any, g: Any) -> Tensor:
    """The derivative of the cofactors c along g, which is its own transpose; for invertible matrices."""
    along = sum(multiply(c, g), axis=(-2, -1), keepdims=True)
    turned = matmul(matmul(c, g, transpose_b=True), c)
    return divide(subtract(multiply(along, c), turned), columns(columns(call_one(Det(), a))))


@rules.infer.register(SlogDet)
def _infer_slogdet(op: SlogDet, x: Spec) -> tuple[Spec, Spec]:
    check_square("slogdet", x)
    return Spec(x.shape[:-2], x.dtype), Spec(x.shape[:-2], real_counterpart(x.dtype))


@rules.kernel.register(SlogDet)
def _kernel_slogdet(op: SlogDet, x: Any) -> Any:
    return tuple(np.linalg.slogdet(x))


@rules.vjp.register(SlogDet)
def _vjp_slogdet(op: SlogDet, inputs: Values, outputs: Values, cotangents: Values) -> Any:
    check_square("the gradient of slogdet", Spec((1, 1), inputs[0].dtype), "f")
    return [multiply(columns(columns(cotangents[1])), matrix_transpose(call_one(Inverse(), inputs[0])))]


@rules.jvp.register(SlogDet)
def _jvp_slogdet(op: SlogDet, inputs: Values, outputs: Values, tangents: Values) -> Any:
    inverse = call_one(Inverse(), inputs[0])
    return [None, sum(multiply(matrix_transpose(inverse), tangents[0]), axis=(-2, -1))]


rules.batch.register(Inverse, PseudoInverse, Det, Cofactors, SlogDet)(batch_front)


# Public functions.


def inv(x: Any, /) -> Tensor:
    """The inverses of square matrices (..., M, M). Raises numpy's LinAlgError where there is none, ShapeError and
    DTypeError for what is no stack of square floating matrices.

    >>> inv([[2.0, 0.0], [0.0, 4.0]])
    tensor([[0.5 , 0.  ],
            [0.  , 0.25]])
    """
    return call_one(Inverse(), as_floating(x))


def pinv(x: Any, /, *, rtol: float | None = None) -> Tensor:
    """The Moore-Penrose inverses of matrices (..., M, N): (..., N, M).

    Singular values up to `rtol` (by default max(M, N) times the dtype's epsilon) times the largest count as zero;
    the gradient holds where the rank does not change. Source: Golub and Pereyra, SIAM J. Numer. Anal. 10 (1973).

    >>> pinv([[2.0], [0.0]])
    tensor([[0.5, 0. ]])
    """
    handle = as_floating(x)
    check_matrix("pinv", Spec((1,) * handle.ndim, handle.dtype), "f")
    cut = max(handle.shape[-2:]) * float(np.finfo(handle.dtype).eps) if rtol is None else float(rtol)
    return call_one(PseudoInverse(cut), handle)


def solve(x1: Any, x2: Any, /) -> Tensor:
    """x with x1 x = x2, for square matrices x1 (..., M, M) and x2 of one axis (M,) or matrices (..., M, K).

    Leading axes broadcast. Raises numpy's LinAlgError for singular matrices, ShapeError where sizes do not fit.

    >>> solve([[2.0, 0.0], [0.0, 4.0]], [2.0, 2.0])
    tensor([1. , 0.5])
    """
    a, b = as_floating(x1), as_floating(x2)
    if b.ndim != 1:
        return call_one(Solve(), a, b)
    solved = call_one(Solve(), a, columns(b))
    return call_one(RemoveAxis((solved.ndim - 1,)), solved)


def det(x: Any, /) -> Tensor:
    """The determinants of square matrices (..., M, M). Differentiable at singular matrices, once.

    >>> det([[1.0, 2.0], [3.0, 4.0]])
    tensor(-2.)
    """
    return call_one(Det(), as_floating(x))


def slogdet(x: Any, /) -> tuple[Tensor, Tensor]:
    """The signs and the logarithms of the magnitudes of determinants, for determinants too large or too small.

    >>> slogdet([[0.0, 1.0], [1.0, 0.0]])
    (tensor(-1.), tensor(0.))
    """
    sign, logarithm = call(SlogDet(), as_floating(x))
    return sign, logarithm
