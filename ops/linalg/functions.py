"""Norms, powers, ranks, traces and cross products: what follows from other operators."""

from __future__ import annotations

from typing import Any, Union

import numpy as np

from interp import OperatorError, ShapeError, Spec, Tensor
from interp.tensor import call_one

from ..arithmetic import multiply, subtract
from ..axes import as_handle, normal_axis
from ..broadcasting import broadcast_to
from ..comparison import abs, greater
from ..creation import eye
from ..indexing import getitem
from ..manipulation import moveaxis
from ..matmul import matmul
from ..rearranging import Diagonal, roll
from ..reduction import max, min, sum
from ..statistics import norm
from .decompositions import svdvals
from .matrices import as_floating, check_matrix
from .solving import inv

__all__ = ["cross", "diagonal", "matrix_norm", "matrix_power", "matrix_rank", "trace", "vector_norm"]


def diagonal(x: Any, /, *, offset: int = 0) -> Tensor:
    """The diagonals of matrices (..., M, N), `offset` above the main one.

    >>> diagonal([[1.0, 2.0], [3.0, 4.0]], offset=1)
    tensor([2.])
    """
    return call_one(Diagonal(int(offset)), x)


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Tensor:
    """The sums along diagonals of matrices (..., M, N), `offset` above the main one; dtypes as of `sum`.

    >>> trace([[1.0, 2.0], [3.0, 4.0]])
    tensor(5.)
    """
    return sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: float = 2) -> Tensor:
    """The norm of order `ord` of the vectors along `axis`, or of all elements; see `ops.norm`.

    >>> vector_norm([3.0, 4.0])
    tensor(5.)
    """
    return norm(x, ord, axis, keepdims=keepdims)


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Union[str, float, None] = "fro") -> Tensor:
    """The norms of matrices (..., M, N).

    "fro": the root of the sum of squares; "nuc": the sum of singular values; 2 and -2: the largest and the smallest
    of them; 1 and -1: the largest and the smallest sum of magnitudes of a column; inf and -inf: of a row.
    Raises OperatorError for another order.

    >>> matrix_norm([[3.0, 0.0], [0.0, 4.0]]), matrix_norm([[3.0, 0.0], [0.0, 4.0]], ord=2)
    (tensor(5.), tensor(4.))
    """
    handle = as_floating(x)
    check_matrix("matrix_norm", Spec((1,) * handle.ndim, handle.dtype))
    if ord in ("fro", None):
        return norm(handle, 2, (-2, -1), keepdims=keepdims)
    extreme = max if isinstance(ord, (int, float)) and ord > 0 else min
    if ord in ("nuc", 2, -2):
        values = svdvals(handle)
        found = sum(values, axis=-1) if ord == "nuc" else extreme(values, axis=-1)
        return getitem(found, (..., None, None)) if keepdims else found
    if ord not in (1, -1, float("inf"), float("-inf")):
        raise OperatorError(f"matrix_norm: ord must be 'fro', 'nuc', 1, -1, 2, -2, inf or -inf, not {ord!r}")
    along, across = (-2, -1) if ord in (1, -1) else (-1, -2)
    total = sum(abs(handle), axis=along, keepdims=True)
    found = extreme(total, axis=across, keepdims=True)
    return found if keepdims else getitem(found, (..., 0, 0))


def matrix_power(x: Any, n: int, /) -> Tensor:
    """Square matrices (..., M, M) to the integer power `n`, by squaring; a negative one inverts first.

    >>> matrix_power([[1.0, 1.0], [0.0, 1.0]], 3)
    tensor([[1., 3.],
            [0., 1.]])
    """
    handle = as_handle(x) if n > 0 else as_floating(x)
    if handle.ndim < 2 or handle.shape[-1] != handle.shape[-2]:
        raise ShapeError(f"matrix_power takes square matrices, not an array of shape {handle.shape}")
    if n == 0:
        return broadcast_to(eye(handle.shape[-1], dtype=handle.dtype), handle.shape)
    square = inv(handle) if n < 0 else handle
    power, rest = None, -n if n < 0 else n
    while rest:
        if rest & 1:
            power = square if power is None else matmul(power, square)
        rest >>= 1
        square = matmul(square, square) if rest else square
    assert power is not None
    return power


def matrix_rank(x: Any, /, *, rtol: Any = None) -> Tensor:
    """How many singular values of matrices (..., M, N) exceed `rtol` times the largest (int64).

    By default `rtol` is max(M, N) times the dtype's epsilon.

    >>> matrix_rank([[1.0, 1.0], [1.0, 1.0]])
    tensor(1, dtype=int64)
    """
    handle = as_floating(x)
    values = svdvals(handle)
    if rtol is None:
        rtol = float(np.finfo(handle.dtype).eps) * np.max(handle.shape[-2:])
    limit = multiply(max(values, axis=-1, keepdims=True), rtol)
    return sum(greater(values, limit), axis=-1)


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Tensor:
    """The cross products of vectors of length 3 along `axis`, the other axes broadcasting.

    Raises ShapeError where the length is not 3.

    >>> cross([1.0, 0.0, 0.0], [0.0, 1.0, 0.0])
    tensor([0., 0., 1.])
    """
    a, b = as_handle(x1), as_handle(x2)
    a = moveaxis(a, normal_axis(axis, a.ndim, "cross"), -1)
    b = moveaxis(b, normal_axis(axis, b.ndim, "cross"), -1)
    if a.shape[-1] != 3 or b.shape[-1] != 3:
        raise ShapeError(f"cross: vectors must have length 3; the lengths are {a.shape[-1]} and {b.shape[-1]}")
    forward, back = -1, 1
    product = subtract(
        multiply(roll(a, forward, axis=-1), roll(b, back, axis=-1)),
        multiply(roll(a, back, axis=-1), roll(b, forward, axis=-1)),
    )
    return moveaxis(product, -1, normal_axis(axis, product.ndim, "cross"))
