"""Padding at the borders, in numpy's modes, and its transpose."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

from interp import DTypeError, OpDef, OperatorError, ShapeError, Spec, Tensor, rules
from interp.tensor import call_one

from .axes import Values, as_handle
from .manipulation import moveaxis

__all__ = ["Padding", "Unpad", "pad"]

MODES = ("constant", "edge", "reflect", "symmetric", "wrap")
Widths = tuple[tuple[int, int], ...]


@attrs.frozen
class Padding(OpDef):
    """The input with `widths[i]` (before, after) elements more along axis `i`, filled as `mode` says.

    "constant" fills with `value`, "edge" repeats the last element, "reflect" mirrors at it, "symmetric" mirrors
    behind it, "wrap" starts again at the other end. MegEngine's name.
    """

    widths: Widths
    mode: str = "constant"
    value: float = 0.0


@attrs.frozen
class Unpad(OpDef):
    """The transpose of `Padding`: the borders cut off, and added to the elements that they were copies of."""

    widths: Widths
    mode: str = "constant"


def _check(op: Any, x: Spec, function: str) -> None:
    if op.mode not in MODES:
        raise OperatorError(f"{function} has no mode {op.mode!r}; there are {', '.join(MODES)}")
    if len(op.widths) != x.ndim:
        raise ShapeError(f"{function}: {len(op.widths)} pairs of widths do not go with {x!r}")
    if any(before < 0 or after < 0 for before, after in op.widths):
        raise OperatorError(f"{function}: widths {op.widths} must not be negative")


def _check_lengths(op: Any, shape: tuple[int, ...]) -> None:
    for length, width in zip(shape, op.widths):
        if length < 0 or (not length and any(width) and op.mode != "constant"):
            raise ShapeError(f"pad: mode {op.mode!r} with widths {op.widths} has nothing to copy from in {shape}")


@rules.infer.register(Padding)
def _infer_pad(op: Padding, x: Spec) -> Spec:
    _check(op, x, "pad")
    _check_lengths(op, x.shape)
    return Spec(tuple(before + n + after for n, (before, after) in zip(x.shape, op.widths)), x.dtype)


@rules.kernel.register(Padding)
def _kernel_pad(op: Padding, x: Any) -> Any:
    if op.mode != "constant":
        return x if not op.widths else np.pad(x, op.widths, op.mode)  # type: ignore[call-overload]
    shape = [before + n + after for n, (before, after) in zip(x.shape, op.widths)]
    result = np.full(shape, op.value, x.dtype) if op.value else np.zeros(shape, x.dtype)
    result[_middle(op.widths, shape)] = x
    return result


def _middle(widths: Widths, shape: Any) -> tuple[slice, ...]:
    return tuple(slice(before, n - after) for n, (before, after) in zip(shape, widths))


@rules.vjp.register(Padding)
def _vjp_pad(op: Padding, inputs: Values, outputs: Values, cotangents: Values) -> Any:
    return [call_one(Unpad(op.widths, op.mode), cotangents[0])]


@rules.jvp.register(Padding)
def _jvp_pad(op: Padding, inputs: Values, outputs: Values, tangents: Values) -> Any:
    return [call_one(Padding(op.widths, op.mode), tangents[0])]


@rules.infer.register(Unpad)
def _infer_unpad(op: Unpad, y: Spec) -> Spec:
    _check(op, y, "unpad")
    shape = tuple(n - before - after for n, (before, after) in zip(y.shape, op.widths))
    _check_lengths(op, shape)
    return Spec(shape, y.dtype)


@rules.kernel.register(Unpad)
def _kernel_unpad(op: Unpad, y: Any) -> Any:
    if op.mode == "constant":
        return y[_middle(op.widths, y.shape)]
    for axis, (before, after) in enumerate(op.widths):
        if before or after:
            y = _folded(y, axis, before, after, op.mode)
    return y


def _folded(y: Any, axis: int, before: int, after: int, mode: str) -> Any:
    """Along one axis, every element of the padded array added to the one that it was copied from."""
    length = y.shape[axis] - before - after
    source = np.pad(np.arange(length), (before, after), mode)  # type: ignore[call-overload]
    rows = np.moveaxis(y, axis, 0)
    result = rows[before : before + length].copy()
    np.add.at(result, source[:before], rows[:before])
    np.add.at(result, source[before + length :], rows[before + length :])
    return np.moveaxis(result, 0, axis)


@rules.vjp.register(Unpad)
def _vjp_unpad(op: Unpad, inputs: Values, outputs: Values, cotangents: Values) -> Any:
    return [call_one(Padding(op.widths, op.mode), cotangents[0])]


@rules.jvp.register(Unpad)
def _jvp_unpad(op: Unpad, inputs: Values, outputs: Values, tangents: Values) -> Any:
    return [call_one(op, tangents[0])]


@rules.batch.register(Padding, Unpad)
def _batch(op: Any, size: int, inputs: Values, axes: Values) -> Any:
    lanes = attrs.evolve(op, widths=((0, 0), *op.widths))
    return [call_one(lanes, moveaxis(inputs[0], axes[0], 0))], [0]


def _widths(pad_width: Any, ndim: int) -> Widths:
    """One width, a pair of them, or a pair for each axis, as a pair for each axis."""
    given = np.asarray(pad_width)
    if given.dtype.kind not in "iu" and given.size:
        raise DTypeError(f"pad: widths must be integers, not {given.dtype}")
    try:
        pairs = np.broadcast_to(given, (ndim, 2))
    except ValueError:
        raise ShapeError(f"pad: widths {pad_width} are no pair (before, after) for each of {ndim} axes") from None
    return tuple((int(before), int(after)) for before, after in pairs)


def pad(x: Any, /, pad_width: Any, mode: str = "constant", constant_values: float = 0.0) -> Tensor:
    """`x` with more elements at its borders: `pad_width` is one width, (before, after), or such a pair an axis.

    Modes: "constant" (`constant_values`), "edge", "reflect", "symmetric", "wrap", as numpy's. The dtype stays.
    Raises ShapeError where widths do not go with the axes, OperatorError for another mode or negative widths.

    >>> pad([1.0, 2.0, 3.0], (1, 2)), pad([1.0, 2.0, 3.0], (1, 2), "reflect")
    (tensor([0., 1., 2., 3., 0., 0.]), tensor([2., 1., 2., 3., 2., 1.]))
    """
    handle = as_handle(x)
    return call_one(Padding(_widths(pad_width, handle.ndim), mode.lower(), constant_values), handle)
