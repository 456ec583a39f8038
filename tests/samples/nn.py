"""Samples of the operators of neural networks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from interp import OpDef, apply
from ops.nn.convolution import Convolution, ConvolutionBackwardData, ConvolutionBackwardFilter
from ops.nn.pooling import AveragePoolingBackward, MaxPoolingBackward, MaxPoolingSelect, Pooling, PoolingMode

_CONVOLUTIONS = [
    # batch, channels, axes, kernel; stride, padding, dilation, groups
    ((2, 2, (5,), (3, 3)), ((1,), ((1, 1),), (1,), 1)),
    ((5, 4, (6, 5), (6, 3, 2)), ((2, 1), ((1, 0), (2, 1)), (1, 2), 2)),
    ((1, 2, (3, 4, 3), (2, 2, 2, 1)), ((1, 2, 1), ((0, 0), (1, 1), (0, 0)), (1, 1, 1), 1)),
    ((2, 3, (4, 4), (3, 1, 1)), ((2, 2), ((0, 0), (0, 0)), (1, 1), 3)),
    ((2, 2, (), (3,)), ((), (), (), 1)),
    ((0, 1, (4,), (2, 3)), ((1,), ((0, 0),), (1,), 1)),
]

_WINDOWS = [
    # shape; kernel, stride, padding
    ((2, 6), ((2,), (2,), ((0, 0),))),
    ((2, 5, 6), ((3, 2), (2, 1), ((1, 1), (0, 1)))),
    ((4, 3, 4), ((2, 2, 3), (2, 1, 3), ((0, 0), (1, 0), (0, 2)))),
    ((0, 4), ((2,), (1,), ((0, 0),))),
    ((), ((), (), ())),
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


def _poolings() -> Iterator[tuple[OpDef, tuple[Any, ...]]]:
    for shape, windows in _WINDOWS:
        x = _distinct(3, *shape)
        for mode in PoolingMode:
            yield Pooling(mode, *windows), (x,)
            (y,) = apply(Pooling(mode, *windows), x)
            if mode is not PoolingMode.MAX:
                yield AveragePoolingBackward(mode, *windows), (y, x.shape)
                continue
            yield MaxPoolingBackward(*windows), (x, y, _normal(4, *y.shape))
            yield MaxPoolingSelect(*windows), (x, y, _normal(5, *x.shape))
    yield Pooling("max", (2,), (2,), ((1, 1),)), (np.array([3, 1, 2, 2]),)
    yield Pooling("average", (2,), (2,), ((0, 0),)), (np.array([3, 1, 2, 2]),)


def samples() -> Iterator[tuple[OpDef, tuple[Any, ...]]]:
    yield from _convolutions()
    yield from _poolings()
