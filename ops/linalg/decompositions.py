"""Factorisations of matrices: Cholesky, QR, of eigenvalues and of singular values.

Gradients are those of Giles, "Collected matrix derivative results for forward and reverse mode AD" (2008), and, for
QR, of Walter and Lehmann (2010). Where values coincide, the vectors that belong to them have no derivative; the
share of each pair of equal values is taken as zero.
"""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

from interp import OpDef, OperatorError, Spec, Tensor, rules
from interp.tensor import call, call_one

from ..arithmetic import add, multiply, subtract
from ..axes import Values
from ..manipulation import matrix_transpose
from ..matmul import matmul
from ..rearranging import Diagonal, tril
from ..statistics import RECIPROCAL_OR_ZERO
from .matrices import as_floating, batch_front, check_matrix, check_square, columns, rows, shape_of_stack
from .solving import Inverse

__all__ = [
    "QR",
    "SVD",
    "Cholesky",
    "Eigh",
    "SingularValues",
    "cholesky",
    "eigh",
    "eigvalsh",
    "qr",
    "svd",
    "svdvals",
]


@attrs.frozen
class Cholesky(OpDef):
    """L lower triangular with L L^T = the symmetric part of the input."""


@attrs.frozen
class Eigh(OpDef):
    """Eigenvalues, ascending, and eigenvectors (the columns) of the symmetric part of the input."""


@attrs.frozen
class QR(OpDef):
    """Q with orthonormal columns and R upper triangular, with Q R = the input."""

    complete: bool = False


@attrs.frozen
class SVD(OpDef):
    """U, the singular values, descending, and V^T."""

    full_matrices: bool = False


@attrs.frozen
class SingularValues(OpDef):
    """The singular values, descending."""


def _symmetric(x: Any) -> Tensor:
    return multiply(add(x, matrix_transpose(x)), 0.5)


def _symmetric_array(x: Any) -> Any:
    return ((x + x.swapaxes(-1, -2)) / 2).astype(x.dtype, copy=False)


def _over_differences(x: Any) -> Tensor:
    """The matrix of 1 / (x_j - x_i), zero where they are equal."""
    return call_one(RECIPROCAL_OR_ZERO, subtract(rows(x), columns(x)))


# Cholesky.


@rules.infer.register(Cholesky)
def _infer_cholesky(op: Cholesky, x: Spec) -> Spec:
    check_square("cholesky", x, "f")
    return Spec(x.shape, x.dtype)


@rules.kernel.register(Cholesky)
def _kernel_cholesky(op: Cholesky, x: Any) -> Any:
    return np.linalg.cholesky(_symmetric_array(x))


def _half_lower(x: Any) -> Tensor:
    """The lower triangle, with half of the diagonal."""
    return subtract(tril(x), multiply(subtract(tril(x), tril(x, k=-1)), 0.5))


@rules.vjp.register(Cholesky)
def _vjp_cholesky(op: Cholesky, inputs: Values, outputs: Values, cotangents: Values) -> Any:
    inverse = call_one(Inverse(), outputs[0])
    middle = _half_lower(matmul(outputs[0], cotangents[0], transpose_a=True))
    return [_symmetric(matmul(matmul(inverse, middle, transpose_a=True), inverse))]


@rules.jvp.register(Cholesky)
def _jvp_cholesky(op: Cholesky, inputs: Values, outputs: Values, tangents: Values) -> Any:
    inverse = call_one(Inverse(), outputs[0])
    middle = matmul(matmul(inverse, _symmetric(tangents[0])), inverse, transpose_b=True)
    return [matmul(outputs[0], _half_lower(middle))]


# Eigenvalues of symmetric matrices.


@rules.infer.register(Eigh)
def _infer_eigh(op: Eigh, x: Spec) -> tuple[Spec, Spec]:
    check_square("eigh", x, "f")
    return Spec(x.shape[:-1], x.dtype), Spec(x.shape, x.dtype)


@rules.kernel.register(Eigh)
def _kernel_eigh(op: Eigh, x: Any) -> Any:
    return tuple(np.linalg.eigh(_symmetric_array(x)))


@rules.vjp.register(Eigh)
def _vjp_eigh(op: Eigh, inputs: Values, outputs: Values, cotangents: Values) -> Any:
    (w, v), (gw, gv) = outputs, cotangents
    turned = multiply(_over_differences(w), matmul(v, gv, transpose_a=True))
    inner = add(matmul(v, turned), multiply(v, rows(gw)))
    return [_symmetric(matmul(inner, v, transpose_b=True))]


@rules.jvp.register(Eigh)
def _jvp_eigh(op: Eigh, inputs: Values, outputs: Values, tangents: Values) -> Any:
    w, v = outputs
    moved = matmul(matmul(v, _symmetric(tangents[0]), transpose_a=True), v)
    return [call_one(Diagonal(), moved), matmul(v, multiply(_over_differences(w), moved))]


# QR.


@rules.infer.register(QR)
def _infer_qr(op: QR, x: Spec) -> tuple[Spec, Spec]:
    check_matrix("qr", x, "f")
    batch, m, n = shape_of_stack(x)
    k = m if op.complete else min(m, n)
    return Spec((*batch, m, k), x.dtype), Spec((*batch, k, n), x.dtype)


@rules.kernel.register(QR)
def _kernel_qr(op: QR, x: Any) -> Any:
    return tuple(np.linalg.qr(x, "complete" if op.complete else "reduced"))


def _check_tall(op: QR, x: Any) -> None:
    m, n = x.shape[-2:]
    if m < n or (op.complete and m != n):
        raise OperatorError(
            f"qr has a gradient for mode='reduced' and at least as many rows as columns; these matrices are {m} x {n}"
        )


@rules.vjp.register(QR)
def _vjp_qr(op: QR, inputs: Values, outputs: Values, cotangents: Values) -> Any:
    _check_tall(op, inputs[0])
    (q, r), (gq, gr) = outputs, cotangents
    m = subtract(matmul(r, gr, transpose_b=True), matmul(gq, q, transpose_a=True))
    mirrored = add(tril(m), matrix_transpose(tril(m, k=-1)))
    return [matmul(add(gq, matmul(q, mirrored)), call_one(Inverse(), r), transpose_b=True)]


@rules.jvp.register(QR)
def _jvp_qr(op: QR, inputs: Values, outputs: Values, tangents: Values) -> Any:
    _check_tall(op, inputs[0])
    q, r = outputs
    change = matmul(tangents[0], call_one(Inverse(), r))
    within = matmul(q, change, transpose_a=True)
    lower = tril(within, k=-1)
    turn = subtract(lower, matrix_transpose(lower))
    upper = subtract(within, turn)
    return [subtract(change, matmul(q, upper)), matmul(upper, r)]


# Singular values.


@rules.infer.register(SVD)
def _infer_svd(op: SVD, x: Spec) -> tuple[Spec, Spec, Spec]:
    check_matrix("svd", x, "f")
    batch, m, n = shape_of_stack(x)
    k = min(m, n)
    u, v = (m, n) if op.full_matrices else (k, k)
    return Spec((*batch, m, u), x.dtype), Spec((*batch, k), x.dtype), Spec((*batch, v, n), x.dtype)


@rules.kernel.register(SVD)
def _kernel_svd(op: SVD, x: Any) -> Any:
    return tuple(np.linalg.svd(x, full_matrices=op.full_matrices))


def _check_thin(op: SVD, x: Any) -> None:
    if op.full_matrices:
        m, n = x.shape[-2:]
        if m != n:
            raise OperatorError(
                f"svd has a gradient for full_matrices=False; for {m} x {n} matrices some of the vectors are arbitrary"
            )


@rules.vjp.register(SVD)
def _vjp_svd(op: SVD, inputs: Values, outputs: Values, cotangents: Values) -> Any:
    _check_thin(op, inputs[0])
    (u, s, vh), (gu, gs, gvh) = outputs, cotangents
    pairs = _over_differences(multiply(s, s))
    inverse = call_one(RECIPROCAL_OR_ZERO, s)
    by_u = matmul(u, gu, transpose_a=True)
    by_v = matmul(vh, gvh, transpose_b=True)
    left = multiply(multiply(pairs, subtract(by_u, matrix_transpose(by_u))), rows(s))
    right = multiply(multiply(pairs, subtract(by_v, matrix_transpose(by_v))), columns(s))
    inner = add(matmul(u, add(left, right)), multiply(u, rows(gs)))
    outside_u = multiply(subtract(gu, matmul(u, by_u)), rows(inverse))
    outside_v = multiply(subtract(gvh, matmul(by_v, vh, transpose_a=True)), columns(inverse))
    return [add(matmul(add(inner, outside_u), vh), matmul(u, outside_v))]


@rules.jvp.register(SVD)
def _jvp_svd(op: SVD, inputs: Values, outputs: Values, tangents: Values) -> Any:
    _check_thin(op, inputs[0])
    (u, s, vh), (t,) = outputs, tangents
    pairs = _over_differences(multiply(s, s))
    inverse = call_one(RECIPROCAL_OR_ZERO, s)
    across = matmul(t, vh, transpose_b=True)
    down = matmul(u, t, transpose_a=True)
    p = matmul(u, across, transpose_a=True)
    turned = matrix_transpose(p)
    in_u = multiply(pairs, add(multiply(p, rows(s)), multiply(turned, columns(s))))
    in_v = multiply(pairs, add(multiply(p, columns(s)), multiply(turned, rows(s))))
    du = add(matmul(u, in_u), multiply(subtract(across, matmul(u, p)), rows(inverse)))
    dvh = add(matmul(in_v, vh, transpose_a=True), multiply(subtract(down, matmul(p, vh)), columns(inverse)))
    return [du, call_one(Diagonal(), p), dvh]


@rules.infer.register(SingularValues)
def _infer_values(op: SingularValues, x: Spec) -> Spec:
    check_matrix("svdvals", x, "f")
    batch, m, n = shape_of_stack(x)
    return Spec((*batch, min(m, n)), x.dtype)


@rules.kernel.register(SingularValues)
def _kernel_values(op: SingularValues, x: Any) -> Any:
    return np.linalg.svd(x, compute_uv=False)


@rules.vjp.register(SingularValues)
def _vjp_values(op: SingularValues, inputs: Values, outputs: Values, cotangents: Values) -> Any:
    u, _, vh = call(SVD(), inputs[0])
    return [matmul(multiply(u, rows(cotangents[0])), vh)]


@rules.jvp.register(SingularValues)
def _jvp_values(op: SingularValues, inputs: Values, outputs: Values, tangents: Values) -> Any:
    u, _, vh = call(SVD(), inputs[0])
    return [call_one(Diagonal(), matmul(matmul(u, tangents[0], transpose_a=True), vh, transpose_b=True))]


rules.batch.register(Cholesky, Eigh, QR, SVD, SingularValues)(batch_front)


# Public functions.


def cholesky(x: Any, /, *, upper: bool = False) -> Tensor:
    """L lower triangular with L L^T = x, for symmetric positive definite x (..., M, M); `upper` gives L^T.

    Of x the symmetric part is taken, so its gradient is symmetric. Raises numpy's LinAlgError where x is not
    positive definite.

    >>> cholesky([[4.0, 2.0], [2.0, 2.0]])
    tensor([[2., 0.],
            [1., 1.]])
    """
    lower = call_one(Cholesky(), as_floating(x))
    return matrix_transpose(lower) if upper else lower


def eigh(x: Any, /) -> tuple[Tensor, Tensor]:
    """Eigenvalues (..., M), ascending, and eigenvectors, as columns (..., M, M), of symmetric matrices.

    Of x the symmetric part is taken. Vectors are determined up to sign.

    >>> eigh([[2.0, 0.0], [0.0, 1.0]])[0]
    tensor([1., 2.])
    """
    values, vectors = call(Eigh(), as_floating(x))
    return values, vectors


def eigvalsh(x: Any, /) -> Tensor:
    """The eigenvalues of symmetric matrices, ascending; see `eigh`."""
    return eigh(x)[0]


def qr(x: Any, /, *, mode: str = "reduced") -> tuple[Tensor, Tensor]:
    """Q (..., M, K) with orthonormal columns and R (..., K, N) upper triangular, with Q R = x (..., M, N).

    K is min(M, N), or M for mode "complete". Raises OperatorError for another mode, and for the gradient where M < N
    or of the complete mode unless M = N.

    >>> q, r = qr([[3.0], [4.0]])
    >>> q * r
    tensor([[3.],
            [4.]])
    """
    if mode not in ("reduced", "complete"):
        raise OperatorError(f"qr: mode must be 'reduced' or 'complete', not {mode!r}")
    q, r = call(QR(mode == "complete"), as_floating(x))
    return q, r


def svd(x: Any, /, *, full_matrices: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """U, singular values (descending) and V^T, with x = U diag(S) V^T, of matrices (..., M, N).

    U is (..., M, M) and V^T (..., N, N), or (..., M, K) and (..., K, N) with K = min(M, N) unless `full_matrices`.
    Raises OperatorError for the gradient of full matrices that are not square.

    >>> svd([[0.0, 2.0], [1.0, 0.0]])[1]
    tensor([2., 1.])
    """
    u, s, vh = call(SVD(bool(full_matrices)), as_floating(x))
    return u, s, vh


def svdvals(x: Any, /) -> Tensor:
    """The singular values, descending, of matrices (..., M, N): (..., K) with K = min(M, N).

    >>> svdvals([[0.0, 2.0], [1.0, 0.0]])
    tensor([2., 1.])
    """
    return call_one(SingularValues(), as_floating(x))
