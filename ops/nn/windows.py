"""Windows sliding over the trailing axes of arrays: how many there are, reading them, adding them back.

What convolution, pooling and `sliding_window` share. Nothing here is an operator; all of it is numpy. Python loops
run over the positions inside a window (nine for 3x3), never over the windows.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from interp import OperatorError, ShapeError

__all__ = [
    "Pads",
    "Slices",
    "add_windows",
    "crop",
    "offsets",
    "pad",
    "pads_per_axis",
    "per_axis",
    "read_windows",
    "window_counts",
]

Pads: TypeAlias = tuple[tuple[int, int], ...]
Slices: TypeAlias = tuple[slice, ...]


def per_axis(value: Any, n: int, name: str, least: int = 1) -> tuple[int, ...]:
    """An argument given once for all axes, or once for each, as one int an axis. Raises OperatorError."""
    values = (value,) * n if isinstance(value, (int, np.integer)) else tuple(value)
    if len(values) != n or not all(isinstance(v, (int, np.integer)) and v >= least for v in values):
        raise OperatorError(f"{name} must be one int, or {n} of them, each at least {least}; it is {value!r}")
    return tuple(int(v) for v in values)


def pads_per_axis(value: Any, n: int, name: str) -> Pads:
    """A padding given once, once for each axis, or as a (before, after) pair for each axis, as such pairs."""
    if not isinstance(value, (int, np.integer)):
        value = tuple(value)
        if len(value) == n and all(isinstance(v, (tuple, list)) for v in value):
            return tuple((int(a), int(b)) for a, b in (per_axis(v, 2, name, 0) for v in value))
    return tuple((v, v) for v in per_axis(value, n, name, 0))


def window_counts(
    name: str,
    lengths: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Pads,
    dilation: Sequence[int],
) -> tuple[int, ...]:
    """How many windows fit along each axis. Raises ShapeError where a window is longer than its padded axis."""
    counts = []
    for length, k, step, (before, after), spread in zip(lengths, kernel, stride, padding, dilation, strict=True):
        reach = spread * (k - 1) + 1
        if k < 1 or length + before + after < reach:
            raise ShapeError(
                f"{name}: a window of {tuple(kernel)} with dilation {tuple(dilation)} does not fit into axes of "
                f"lengths {tuple(lengths)} with padding {padding}"
            )
        counts.append((length + before + after - reach) // step + 1)
    return tuple(counts)


def offsets(
    kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int], counts: Sequence[int]
) -> Iterator[tuple[tuple[int, ...], Slices]]:
    """For each position inside the window: the position, and the slices that it covers as the window slides."""
    for position in itertools.product(*map(range, kernel)):
        yield (
            position,
            tuple(
                slice(p * spread, p * spread + step * (count - 1) + 1, step)
                for p, step, spread, count in zip(position, stride, dilation, counts, strict=True)
            ),
        )


def pad(x: Any, padding: Pads, first: int, fill: Any = 0) -> Any:
    """`x` with `fill` around the axes from `first` on; `x` itself where there is nothing to add."""
    if not any(before or after for before, after in padding):
        return x
    shape = list(x.shape)
    inner: list[slice] = [slice(None)] * x.ndim
    for axis, (before, after) in enumerate(padding, first):
        inner[axis] = slice(before, before + shape[axis])
        shape[axis] += before + after
    padded = np.full(shape, fill, x.dtype) if fill != 0 else np.zeros(shape, x.dtype)
    padded[tuple(inner)] = x
    return padded


def crop(x: Any, padding: Pads, first: int) -> Any:
    """What `pad` put `x` around: a view."""
    inner: list[slice] = [slice(None)] * x.ndim
    for axis, (before, after) in enumerate(padding, first):
        inner[axis] = slice(before, x.shape[axis] - after)
    return x[tuple(inner)]


def read_windows(
    x: Any,
    first: int,
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    counts: Sequence[int],
) -> Any:
    """The windows over the axes of (padded) `x` from `first` on.

    The positions inside a window are new axes after axis 0: `(x.shape[0], *kernel, ..., *counts, ...)`.
    """
    lead = (slice(None),) * first
    shape = list(x.shape)
    shape[first : first + len(counts)] = counts
    if all(k == 1 for k in kernel):
        (_, slices) = next(offsets(kernel, stride, dilation, counts))
        return x[lead + slices].reshape(shape[0], *kernel, *shape[1:])
    windows: Any = np.empty((shape[0], *kernel, *shape[1:]), x.dtype)
    for position, slices in offsets(kernel, stride, dilation, counts):
        windows[(slice(None), *position)] = x[lead + slices]
    return windows


def add_windows(
    windows: Any, shape: Sequence[int], first: int, stride: Sequence[int], dilation: Sequence[int], n: int
) -> Any:
    """The transpose of `read_windows`: zeros of `shape`, with every element added where it was read from."""
    kernel = windows.shape[1 : 1 + n]
    counts = windows.shape[n + first : n + first + n]
    lead = (slice(None),) * first
    total: Any = np.zeros(shape, windows.dtype)
    for position, slices in offsets(kernel, stride, dilation, counts):
        total[lead + slices] += windows[(slice(None), *position)]
    return total
