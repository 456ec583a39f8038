"""Samples of the operators of neural networks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from interp import OpDef, apply
from ops.nn.convolution import Convolution, ConvolutionBackwardData, ConvolutionBackwardFilter

_CONVOLUTIONS = [
    # batch, channels, axes, kernel; stride, padding, dilation, groups
    ((2, 2, (5,), (3, 3)), ((1,), ((1, 1),), (1,), 1)),
    ((5, 4, (6, 5), (6, 3, 2)), ((2, 1), ((1, 0), (2, 1)), (1, 2), 2)),
    ((1, 2, (3, 4, 3), (2, 2, 2, 1)), ((1, 2, 1), ((0, 0), (1, 1), (0, 0)), (1, 1, 1), 1)),
    ((2, 3, (4, 4), (3, 1, 1)), ((2, 2), ((0, 0), (0, 0)), (1, 1), 3)),
    ((2, 2, (), (3,)), ((), (), (), 1)),
    ((0, 1, (4,), (2, 3)), ((1,), ((0, 0),), (1,), 1)),
]


def _normal(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).normal(size=shape)


def _distinct(seed: int, *shape: int) -> Any:
    """Numbers far enough from each other that a small step does not change which is the largest."""
    size = int(np.prod(shape))
    return np.random.default_rng(seed).permutation(size).reshape(shape) / max(size, 1) * 4 - 2.03


def _convolutions() -> Iterator[tuple[OpDef, tuple[Any, ...]]]:
    for (batch, channels, axes, (out, *kernel)), parameters in _CONVOLUTIONS:
        x = _normal(1, batch, channels, *axes)
        w = _normal(2, out, channels // parameters[3], *kernel)
        (y,) = apply(Convolution(*parameters), x, w)
        yield Convolution(*parameters), (x, w)
        yield ConvolutionBackwardData(*parameters), (w, y, x.shape)
        yield ConvolutionBackwardFilter(*parameters), (x, y, w.shape)


def samples() -> Iterator[tuple[OpDef, tuple[Any, ...]]]:
    yield from _convolutions()
