"""Products that sum over axes: of matrices, of vectors, of tensors. Each gradient is again such a product."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import attrs
import numpy as np

from interp import DTypeError, OpDef, ShapeError, Spec, Tensor, rules
from interp.dispatch import method_of
from interp.dtypes import DType, is_floating, promote
from interp.tensor import as_operand, call_one, syntax

from .arithmetic import add, multiply
from .axes import Values, as_handle, inverse, normal_axes, normal_axis
from .broadcasting import batch_to_front, like
from .casting import astype
from .complex import real
from .manipulation import AddAxis, Dimshuffle, RemoveAxis, expand_dims, flatten, moveaxis

__all__ = ["MatrixMul", "TensorDot", "dot", "matmul", "outer", "tensordot", "vecdot"]

ndarray = np.ndarray


@attrs.frozen
class MatrixMul(OpDef):
    """The matrix product of two stacks of matrices, each transposed first where its flag says so.

    One axis makes a row of the first and a column of the second input, and the result does without it. Stacks
    broadcast. No transposed copies are made.
    """

    checks_first: ClassVar[bool] = False
    transpose_a: bool = False
    transpose_b: bool = False


@attrs.frozen
class TensorDot(OpDef):
    """The sum of products over pairs of axes: `axes_a[i]` of the first input with `axes_b[i]` of the second.

    The axes of the result are those that are left, in order, of the first and then of the second.
    """

    axes_a: tuple[int, ...]
    axes_b: tuple[int, ...]


# Matrix products.


def product_dtype(name: str, *specs: Spec) -> DType:
    """The dtype that factors meet in. Raises DTypeError where there is none."""
    try:
        return promote([(spec.dtype, spec.weak) for spec in specs])[0]
    except DTypeError as error:
        raise DTypeError(f"{name} of {', '.join(map(repr, specs))}: {error}") from None


@rules.infer.register(MatrixMul)
def _infer(op: MatrixMul, a: Spec, b: Spec) -> Spec:
    dtype = product_dtype("matmul", a, b)
    if not a.ndim or not b.ndim:
        raise ShapeError(f"matmul takes arrays with axes, not {a!r} and {b!r}; use multiply for numbers")
    left, right = a.shape[-2:], b.shape[-2:]
    rows, inner = left[::-1] if op.transpose_a and a.ndim > 1 else left if a.ndim > 1 else (None, left[0])
    depth, columns = right[::-1] if op.transpose_b and b.ndim > 1 else right if b.ndim > 1 else (right[0], None)
    flags = f" (transpose_a={op.transpose_a}, transpose_b={op.transpose_b})" if op != MatrixMul() else ""
    if inner != depth:
        raise ShapeError(f"matmul of {a!r} and {b!r}{flags}: {inner} columns do not meet {depth} rows")
    try:
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError:
        raise ShapeError(f"matmul of {a!r} and {b!r}{flags}: the stacks do not broadcast together") from None
    return Spec((*batch, *(n for n in (rows, columns) if n is not None)), dtype)


@rules.kernel.register(MatrixMul, per_operator=True)
def _kernel(op: MatrixMul) -> Callable[..., Any]:
    transpose_a, transpose_b = op.transpose_a, op.transpose_b

    def evaluate(a: Any, b: Any) -> Any:
        if a.dtype is not b.dtype and a.dtype != b.dtype:
            dtype, _ = promote([(a.dtype, False), (b.dtype, False)])
            a, b = a.astype(dtype, copy=False), b.astype(dtype, copy=False)
        if transpose_a and a.ndim > 1:
            a = a.swapaxes(-1, -2)
        if transpose_b and b.ndim > 1:
            b = b.swapaxes(-1, -2)
        if a.ndim > 2 and b.ndim == 2 and a.flags.c_contiguous and a.size and a.shape[-1] == b.shape[0]:
            tall = np.matmul(a.reshape(-1, a.shape[-1]), b)  # one product instead of one for each matrix
            return tall.reshape(*a.shape[:-1], b.shape[1])
        return np.matmul(a, b)

    return evaluate


def cast_like(change: Any, x: Any) -> Any:
    """A gradient that has the shape of `x` already, in the dtype of `x`."""
    if change.dtype == x.dtype:
        return change
    if change.dtype.kind == "c" and x.dtype.kind != "c":
        change = real(change)
    return change if change.dtype == x.dtype else astype(change, x.dtype)


def _matrices(a: Any, b: Any, g: Any) -> tuple[Any, Any, Any]:
    """Operands and result with the axis put in that an operand of one axis does without."""
    if b.ndim == 1:
        g = call_one(AddAxis((g.ndim,)), g)
    if a.ndim == 1:
        g = call_one(AddAxis((g.ndim - 1,)), g)
    a = call_one(AddAxis((0,)), a) if a.ndim == 1 else a
    b = call_one(AddAxis((1,)), b) if b.ndim == 1 else b
    return a, b, g


def _summed(first: Any, first_axis: int, second: Any, second_axis: int) -> Tensor:
    """The products of two stacks of matrices over one axis of each, added up over the stack."""
    batch = tuple(range(first.ndim - 2))
    return call_one(TensorDot((*batch, first.ndim + first_axis), (*batch, second.ndim + second_axis)), first, second)


def _gradient_a(op: MatrixMul, a: Any, b: Any, g: Any) -> Any:
    if a.ndim == 2 and g.ndim > 2:
        rows = -2 if op.transpose_b else -1
        return _summed(b, rows, g, -1) if op.transpose_a else _summed(g, -1, b, rows)
    if op.transpose_a:
        return call_one(MatrixMul(op.transpose_b, True), b, g)
    return call_one(MatrixMul(False, not op.transpose_b), g, b)


def _gradient_b(op: MatrixMul, a: Any, b: Any, g: Any) -> Any:
    if b.ndim == 2 and g.ndim > 2:
        rows = -1 if op.transpose_a else -2
        return _summed(g, -2, a, rows) if op.transpose_b else _summed(a, rows, g, -2)
    if op.transpose_b:
        return call_one(MatrixMul(True, op.transpose_a), g, a)
    return call_one(MatrixMul(not op.transpose_a, False), a, g)


@rules.vjp.register(MatrixMul)
def _vjp(op: MatrixMul, inputs: Values, outputs: Values, cotangents: Values) -> Any:
    x, y = inputs
    transpose_a, transpose_b = op.transpose_a and x.ndim > 1, op.transpose_b and y.ndim > 1
    plain = MatrixMul(transpose_a, transpose_b)  # a row or column that was put in is not transposed
    a, b, g = _matrices(x, y, cotangents[0])
    gradients: list[Any] = [None, None]
    for i, (operand, rule) in enumerate(((x, _gradient_a), (y, _gradient_b))):
        if is_floating(operand.dtype):
            change = rule(plain, a, b, g)
            if operand.ndim == 1:
                change = call_one(RemoveAxis((i,)), change)
            gradients[i] = like(change, operand) if change.ndim > 2 else cast_like(change, operand)
    return gradients


def bilinear_tangent(op: OpDef, inputs: Values, tangents: Values) -> Any:
    """The tangent of an operator that is linear in each of its inputs."""
    total = None
    for i, tangent in enumerate(tangents):
        if tangent is not None:
            term = call_one(op, *inputs[:i], tangent, *inputs[i + 1 :])
            total = term if total is None else add(total, term)
    return total


@rules.jvp.register(MatrixMul, TensorDot)
def _jvp(op: OpDef, inputs: Values, outputs: Values, tangents: Values) -> Any:
    return [bilinear_tangent(op, inputs, tangents)]


@rules.batch.register(MatrixMul)
def _batch(op: MatrixMul, size: int, inputs: Values, axes: Values) -> Any:
    a, b = map(as_handle, inputs)
    na, nb = a.ndim - (axes[0] is not None), b.ndim - (axes[1] is not None)
    a, b = batch_to_front(a, axes[0], 0), batch_to_front(b, axes[1], 0)
    if na == 1:
        a = expand_dims(a, axis=-2)
    if nb == 1:
        b = expand_dims(b, axis=-1)
    deepest = max(na, nb, 2)
    a = a if axes[0] is None else batch_to_front(a, 0, deepest)
    b = b if axes[1] is None else batch_to_front(b, 0, deepest)
    result = call_one(MatrixMul(op.transpose_a and na > 1, op.transpose_b and nb > 1), a, b)
    dropped = [axis for axis, n in ((result.ndim - 2, na), (result.ndim - 1, nb)) if n == 1]
    return [call_one(RemoveAxis(tuple(dropped)), result) if dropped else result], [0]


# Tensor products.


def _free(axes: Sequence[int], ndim: int) -> list[int]:
    return [axis for axis in range(ndim) if axis not in axes]


@rules.infer.register(TensorDot)
def _infer_tensordot(op: TensorDot, a: Spec, b: Spec) -> Spec:
    if len(op.axes_a) != len(op.axes_b):
        raise ShapeError(f"tensordot: {len(op.axes_a)} axes of the first array and {len(op.axes_b)} of the second")
    normal_axes(op.axes_a, a.ndim, "tensordot", "axes[0]")
    normal_axes(op.axes_b, b.ndim, "tensordot", "axes[1]")
    for i, j in zip(op.axes_a, op.axes_b, strict=True):
        if a.shape[i] != b.shape[j]:
            raise ShapeError(
                f"tensordot of {a!r} and {b!r}: axis {i} of the first has length {a.shape[i]}, "
                f"axis {j} of the second {b.shape[j]}"
            )
    shape = [a.shape[i] for i in _free(op.axes_a, a.ndim)] + [b.shape[j] for j in _free(op.axes_b, b.ndim)]
    return Spec(tuple(shape), product_dtype("tensordot", a, b))


@rules.kernel.register(TensorDot)
def _kernel_tensordot(op: TensorDot, a: Any, b: Any) -> Any:
    dtype, _ = promote([(a.dtype, False), (b.dtype, False)])
    return np.tensordot(a.astype(dtype, copy=False), b.astype(dtype, copy=False), (op.axes_a, op.axes_b))


def _permuted(x: Any, order: Sequence[int]) -> Any:
    """`x`, whose axis `i` is meant to be axis `order[i]`, with its axes where they are meant to be."""
    return x if list(order) == list(range(len(order))) else call_one(Dimshuffle(inverse(order)), x)


@rules.vjp.register(TensorDot)
def _vjp_tensordot(op: TensorDot, inputs: Values, outputs: Values, cotangents: Values) -> Any:
    (a, b), (g,) = inputs, cotangents
    free_a, free_b = _free(op.axes_a, a.ndim), _free(op.axes_b, b.ndim)
    pairs = list(zip(op.axes_a, op.axes_b, strict=True))
    gradients: list[Any] = [None, None]
    if is_floating(a.dtype):
        places = tuple(range(len(free_a), g.ndim))
        change = call_one(TensorDot(places, tuple(free_b)), g, b)
        order = free_a + [i for i, _ in sorted(pairs, key=lambda pair: pair[1])]
        gradients[0] = cast_like(_permuted(change, order), a)
    if is_floating(b.dtype):
        places = tuple(range(len(free_a)))
        change = call_one(TensorDot(tuple(free_a), places), a, g)
        order = [j for _, j in sorted(pairs)] + free_b
        gradients[1] = cast_like(_permuted(change, order), b)
    return gradients


@rules.batch.register(TensorDot)
def _batch_tensordot(op: TensorDot, size: int, inputs: Values, axes: Values) -> Any:
    from .einsum import einsum

    a, b = (batch_to_front(x, axis, 0) for x, axis in zip(inputs, axes, strict=True))
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXY"
    na, nb = a.ndim - (axes[0] is not None), b.ndim - (axes[1] is not None)
    left = letters[:na]
    right = [""] * nb
    for i, j in zip(op.axes_a, op.axes_b, strict=True):
        right[j] = left[i]
    free_b = _free(op.axes_b, nb)
    for k, j in enumerate(free_b):
        right[j] = letters[na + k]
    result = "".join([left[i] for i in _free(op.axes_a, na)] + [right[j] for j in free_b])
    lanes = ["" if axis is None else "Z" for axis in axes]
    return [einsum(f"{lanes[0]}{left},{lanes[1]}{''.join(right)}->Z{result}", a, b)], [0]


# Public functions.

_PRODUCTS = {(a, b): MatrixMul(a, b) for a in (False, True) for b in (False, True)}
_PLAIN = _PRODUCTS[False, False]


def matmul(x1: Any, x2: Any, /, transpose_a: bool = False, transpose_b: bool = False) -> Tensor:
    """The matrix product of (..., M, K) and (..., K, N): (..., M, N); the leading axes broadcast.

    An operand of one axis is a row on the left, a column on the right. The flags, as in MegEngine, take the
    transpose of an operand's matrices without a copy. Dtypes are promoted. Raises ShapeError for operands
    without axes, or where K differs or the leading axes do not broadcast.

    >>> import interp
    >>> matmul(interp.tensor([[1.0, 2.0], [3.0, 4.0]]), interp.tensor([1.0, 1.0]))
    tensor([3., 7.])
    """
    return call_one(_PRODUCTS[bool(transpose_a), bool(transpose_b)], x1, x2)


def tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Tensor:
    """The sum of products over pairs of axes.

    `axes` is a number N, for the last N axes of `x1` with the first N of `x2`, or two sequences of axes of one
    length. Raises ShapeError where paired axes differ in length.

    >>> import interp
    >>> tensordot(interp.tensor([[1.0, 2.0]]), interp.tensor([[3.0, 4.0]]), axes=([0, 1], [0, 1]))
    tensor(11.)
    """
    a, b = as_handle(x1), as_handle(x2)
    if isinstance(axes, (int, np.integer)):
        count = int(axes)
        if not 0 <= count <= min(a.ndim, b.ndim):
            raise ShapeError(f"tensordot: axes={count}, but the arrays have {a.ndim} and {b.ndim} axes")
        left, right = tuple(range(a.ndim - count, a.ndim)), tuple(range(count))
    else:
        pair = tuple(axes)
        if len(pair) != 2:
            raise ShapeError(f"tensordot: axes must be a number or two sequences of axes, not {axes!r}")
        left, right = (
            normal_axes(tuple(part) if isinstance(part, Sequence) else part, x.ndim, "tensordot", f"axes[{i}]")
            for i, (part, x) in enumerate(zip(pair, (a, b), strict=True))
        )
    return call_one(TensorDot(left, right), a, b)


def dot(x1: Any, x2: Any, /) -> Tensor:
    """numpy's `dot`: a product with a number, of vectors, of matrices, and for more axes the sum of products over
    the last axis of `x1` and the last but one of `x2`. Raises ShapeError where these differ in length.

    >>> import interp
    >>> dot(interp.tensor([1.0, 2.0]), interp.tensor([3.0, 4.0]))
    tensor(11.)
    """
    a, b = as_handle(x1), as_handle(x2)
    if not a.ndim or not b.ndim:
        return multiply(a, b)
    if b.ndim <= 2:
        return matmul(a, b)
    return call_one(TensorDot((a.ndim - 1,), (b.ndim - 2,)), a, b)


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Tensor:
    """The dot products of vectors along `axis`, the other axes broadcasting; of complex ones, `x1` is conjugated.

    `axis` counts from the back. Raises ShapeError where lengths differ or an operand has no such axis.

    >>> import interp
    >>> vecdot(interp.tensor([[1.0, 2.0], [3.0, 4.0]]), interp.tensor([1.0, 1.0]))
    tensor([3., 7.])
    """
    a, b = as_handle(x1), as_handle(x2)
    least = min(a.ndim, b.ndim)
    place = normal_axis(axis, least if axis < 0 else max(a.ndim, b.ndim), "vecdot") - (
        least if axis < 0 else max(a.ndim, b.ndim)
    )
    a, b = moveaxis(a, place, -1), moveaxis(b, place, -1)
    if a.dtype.kind == "c":
        from .complex import conj

        a = conj(a)
    row, column = expand_dims(a, axis=-2), expand_dims(b, axis=-1)
    product = call_one(MatrixMul(), row, column)
    return call_one(RemoveAxis((product.ndim - 2, product.ndim - 1)), product)


def outer(x1: Any, x2: Any, /) -> Tensor:
    """Every element of `x1` times every element of `x2`: (M,) and (N,) give (M, N); more axes are flattened first.

    >>> import interp
    >>> outer(interp.tensor([1.0, 2.0]), interp.tensor([3.0, 4.0]))
    tensor([[3., 4.],
            [6., 8.]])
    """
    a, b = (x if x.ndim == 1 else flatten(x) for x in map(as_handle, (x1, x2)))
    return multiply(expand_dims(a, axis=1), expand_dims(b, axis=0))


def _mixed(left: Any, right: Any) -> Any:
    """The sign `@` where one operand is not a Tensor: NotImplemented where it is nothing that `@` could take."""
    try:
        left, right = as_operand(left), as_operand(right)
    except DTypeError:
        return NotImplemented
    return matmul(left, right)


_of_tensors = method_of(_PLAIN, _mixed)


def _matmul_sign(left: Any, right: Any) -> Any:
    return _of_tensors(left, right) if type(left) is Tensor else _mixed(left, right)


syntax.call["matmul"] = _matmul_sign
