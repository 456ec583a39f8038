"""The gradient of a product without a division, so that it is right where elements are zero, to every order.

With x_i + e v_i in the place of x_i and e * e = 0, the coefficient of e in the product of all but the k-th is
row k of the Hessian of the product times v. Both are had from running products from the left and the right.
"""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

from interp import OpDef, Spec, Tensor, rules
from interp.tensor import call_one

from .arithmetic import add, multiply
from .axes import Values, normal_axes
from .broadcasting import broadcast_to
from .joining import Concat, split
from .manipulation import moveaxis, reshape

__all__ = ["ProductOfOthers", "product_of_others", "running", "shifted"]


@attrs.frozen
class ProductOfOthers(OpDef):
    """For each element, the product of all others over the axes `axis`."""

    axis: tuple[int, ...]


def product_of_others(x: Any, axis: tuple[int, ...]) -> Tensor:
    """For each element of `x`, the product of all others over the axes `axis`. The gradient of `prod`."""
    return call_one(ProductOfOthers(axis), x)


@rules.infer.register(ProductOfOthers)
def _infer(op: ProductOfOthers, x: Spec) -> Spec:
    normal_axes(op.axis, x.ndim, "product_of_others")
    return Spec(x.shape, x.dtype)


@rules.kernel.register(ProductOfOthers)
def _kernel(op: ProductOfOthers, x: Any) -> Any:
    last = tuple(range(x.ndim - len(op.axis), x.ndim))
    moved = np.moveaxis(x, op.axis, last)
    rows = moved.reshape(*moved.shape[: last[0] if last else x.ndim], int(np.prod([x.shape[i] for i in op.axis])))
    left = np.ones_like(rows)
    np.multiply.accumulate(rows[..., :-1], axis=-1, dtype=x.dtype, out=left[..., 1:])
    right = np.ones_like(rows)
    np.multiply.accumulate(rows[..., :0:-1], axis=-1, dtype=x.dtype, out=right[..., -2::-1])
    return np.moveaxis((left * right).reshape(moved.shape), last, op.axis)


@rules.vjp.register(ProductOfOthers)
def _vjp(op: ProductOfOthers, inputs: Values, outputs: Values, cotangents: Values) -> Any:
    return [_hessian_times(op.axis, inputs[0], cotangents[0])]


@rules.jvp.register(ProductOfOthers)
def _jvp(op: ProductOfOthers, inputs: Values, outputs: Values, tangents: Values) -> Any:
    return [_hessian_times(op.axis, inputs[0], tangents[0])]  # the Hessian is symmetric


@rules.batch.register(ProductOfOthers)
def _batch(op: ProductOfOthers, size: int, inputs: Values, axes: Values) -> Any:
    lanes = tuple(axis + 1 for axis in op.axis)
    return [product_of_others(moveaxis(inputs[0], axes[0], 0), lanes)], [0]


def _hessian_times(axis: tuple[int, ...], x: Any, v: Any) -> Tensor:
    """The Hessian of the product over `axis`, times `v`. Its program depends on the length of the axis."""
    places = tuple(range(len(axis)))
    moved = moveaxis(x, axis, places)
    shape = moved.shape
    length = int(np.prod(shape[: len(axis)]))
    rows = reshape(moved, (length, *shape[len(axis) :]))
    changes = reshape(moveaxis(v, axis, places), (length, *shape[len(axis) :]))
    left, left_change = _exclusive(rows, changes, forward=True)
    right, right_change = _exclusive(rows, changes, forward=False)
    found = add(multiply(left_change, right), multiply(left, right_change))
    return moveaxis(reshape(found, shape), places, axis)


def _exclusive(x: Any, v: Any, forward: bool) -> tuple[Any, Any]:
    """The products of all rows before (or after) each row, and their change."""
    return running(shifted(x, 1.0, 1, forward), shifted(v, 0.0, 1, forward), forward)


def running(x: Any, v: Any, forward: bool = True) -> tuple[Any, Any]:
    """The products of all rows up to each row, and their change when `x` changes by `v`.

    By doubling: a product of `step` rows becomes one of twice as many, so there are log2(length) steps.
    """
    product, change = x, v
    step, length = 1, x.shape[0]
    while step < length:
        other = shifted(product, 1.0, step, forward)
        other_change = shifted(change, 0.0, step, forward)
        change = add(multiply(change, other), multiply(product, other_change))
        product = multiply(product, other)
        step *= 2
    return product, change


def shifted(x: Any, fill: float, step: int, forward: bool = True) -> Any:
    """The rows of `x` moved on (or back) by `step`, the gap being filled."""
    length, *rest = x.shape
    step = min(step, length)
    gap = broadcast_to(np.asarray(fill, x.dtype), (step, *rest))
    if forward:
        return call_one(Concat(0), gap, split(x, [length - step])[0])
    return call_one(Concat(0), split(x, [step])[1], gap)
