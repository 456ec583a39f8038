"""Running sums and products along an axis."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

from interp import OpDef, ShapeError, Spec, Tensor, rules
from interp.tensor import call_one

from .arithmetic import add, multiply
from .axes import Values, as_handle, normal_axis
from .broadcasting import broadcast_to
from .casting import astype
from .joining import Concat
from .manipulation import flatten, moveaxis
from .products import running, shifted

__all__ = ["Cumprod", "Cumsum", "cumprod", "cumsum", "cumulative_prod", "cumulative_sum"]


@attrs.frozen
class Cumsum(OpDef):
    """Running sums along `axis`, from the end where `reverse`, without the element itself where `exclusive`.

    MegEngine's name and parameters. Integers give 64 bits.
    """

    axis: int
    exclusive: bool = False
    reverse: bool = False


@attrs.frozen
class Cumprod(OpDef):
    """Running products along `axis`. Integers give 64 bits."""

    axis: int


@rules.infer.register(Cumsum, Cumprod)
def _infer(op: Any, x: Spec) -> Spec:
    normal_axis(op.axis, x.ndim, type(op).__name__.lower())
    return Spec(x.shape, _widened(x.dtype))


def _widened(dtype: Any) -> Any:
    return dtype if dtype.kind in "fc" else np.dtype("uint64" if dtype.kind == "u" else "int64")


@rules.kernel.register(Cumsum)
def _kernel_sum(op: Cumsum, x: Any) -> Any:
    rows = np.flip(x, op.axis) if op.reverse else x
    result = np.add.accumulate(rows, axis=op.axis, dtype=_widened(x.dtype))
    if op.exclusive:
        moved = np.moveaxis(result, op.axis, 0)
        moved[1:] = moved[:-1].copy()
        moved[:1] = 0
    return np.flip(result, op.axis) if op.reverse else result


@rules.vjp.register(Cumsum)
def _vjp_sum(op: Cumsum, inputs: Values, outputs: Values, cotangents: Values) -> Any:
    if inputs[0].dtype.kind not in "fc":
        return [None]
    return [call_one(Cumsum(op.axis, op.exclusive, not op.reverse), cotangents[0])]


@rules.jvp.register(Cumsum)
def _jvp_sum(op: Cumsum, inputs: Values, outputs: Values, tangents: Values) -> Any:
    return [call_one(op, tangents[0])]


@rules.kernel.register(Cumprod)
def _kernel_prod(op: Cumprod, x: Any) -> Any:
    return np.multiply.accumulate(x, axis=op.axis, dtype=_widened(x.dtype))


@rules.vjp.register(Cumprod)
def _vjp_prod(op: Cumprod, inputs: Values, outputs: Values, cotangents: Values) -> Any:
    """Without a division. With s[k] = g[k] + x[k+1] * s[k+1], the gradient is what was before, times s."""
    if inputs[0].dtype.kind not in "fc":
        return [None]
    x, g = moveaxis(inputs[0], op.axis, 0), moveaxis(cotangents[0], op.axis, 0)
    before = shifted(moveaxis(outputs[0], op.axis, 0), 1.0, 1)
    factor, total = shifted(x, 1.0, 1, forward=False), g
    step, length = 1, x.shape[0]
    while step < length:  # doubling: s from `step` places on becomes s from twice as many
        total = add(total, multiply(factor, shifted(total, 0.0, step, forward=False)))
        factor = multiply(factor, shifted(factor, 1.0, step, forward=False))
        step *= 2
    return [moveaxis(multiply(before, total), 0, op.axis)]


@rules.jvp.register(Cumprod)
def _jvp_prod(op: Cumprod, inputs: Values, outputs: Values, tangents: Values) -> Any:
    if inputs[0].dtype.kind not in "fc":
        return [None]
    x, t = moveaxis(inputs[0], op.axis, 0), moveaxis(tangents[0], op.axis, 0)
    return [moveaxis(running(x, t)[1], 0, op.axis)]


@rules.batch.register(Cumsum, Cumprod)
def _batch(op: Any, size: int, inputs: Values, axes: Values) -> Any:
    lanes = attrs.evolve(op, axis=op.axis + 1)
    return [call_one(lanes, moveaxis(inputs[0], axes[0], 0))], [0]


# Public functions.


def _cumulative(op: type[Any], fill: int, x: Any, axis: Any, dtype: Any, initial: bool, name: str) -> Tensor:
    handle = as_handle(x)
    if axis is None:
        if handle.ndim != 1:
            raise ShapeError(f"{name} needs to be told the axis of an array of {handle.ndim} axes")
        axis = 0
    place = normal_axis(axis, handle.ndim, name)
    result = call_one(op(place), handle if dtype is None else astype(handle, dtype))
    if dtype is not None and result.dtype != np.dtype(dtype):
        result = astype(result, dtype)
    if not initial:
        return result
    shape = result.shape
    first = broadcast_to(np.asarray(fill, result.dtype), (*shape[:place], 1, *shape[place + 1 :]))
    return call_one(Concat(place), first, result)


def cumulative_sum(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """Running sums along `axis`, which may be left out for a vector; with 0 in front under `include_initial`.

    Floating dtypes stay, integers give int64 or uint64; `dtype` is what is summed in. Raises ShapeError for an axis
    that does not exist.

    >>> cumulative_sum([1.0, 2.0, 3.0])
    tensor([1., 3., 6.])
    """
    return _cumulative(Cumsum, 0, x, axis, dtype, include_initial, "cumulative_sum")


def cumulative_prod(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """Running products along `axis`, otherwise as `cumulative_sum`; the number in front is 1.

    Its gradient is right where elements are zero.

    >>> cumulative_prod([1.0, 2.0, 3.0])
    tensor([1., 2., 6.])
    """
    return _cumulative(Cumprod, 1, x, axis, dtype, include_initial, "cumulative_prod")


def cumsum(x: Any, /, axis: int | None = None) -> Tensor:
    """`cumulative_sum` under its older name; without an axis `x` is flattened."""
    handle = as_handle(x)
    return cumulative_sum(handle, axis=axis) if axis is not None else cumulative_sum(flatten(handle))


def cumprod(x: Any, /, axis: int | None = None) -> Tensor:
    """`cumulative_prod` under its older name; without an axis `x` is flattened."""
    handle = as_handle(x)
    return cumulative_prod(handle, axis=axis) if axis is not None else cumulative_prod(flatten(handle))
