"""Samples of the operators of neural networks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from interp import OpDef, apply
from ops.nn.convolution import Convolution, ConvolutionBackwardData, ConvolutionBackwardFilter
from ops.nn.normalization import Standardize, UpdateStatistic
from ops.nn.picking import IndexingOneHot, IndexingOneHotTranspose
from ops.nn.pooling import AveragePoolingBackward, MaxPoolingBackward, MaxPoolingSelect, Pooling, PoolingMode
from ops.nn.resampling import SlidingWindow, SlidingWindowTranspose
from ops.nn.softmax import LogSoftmax, Softmax

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


def _sliding() -> Iterator[tuple[OpDef, tuple[Any, ...]]]:
    for shape, (kernel, stride, padding) in _WINDOWS:
        for dilation in (1, 2):
            if dilation == 2 and 0 in shape:
                continue
            op = SlidingWindow(kernel, stride, padding, tuple(dilation if k == 2 else 1 for k in kernel))
            x = _normal(6, *shape)
            yield op, (x,)
            (windows,) = apply(op, x)
            yield SlidingWindowTranspose(op.kernel, op.stride, op.padding, op.dilation), (windows, shape)


def _normalisations() -> Iterator[tuple[OpDef, tuple[Any, ...]]]:
    for shape, axis in [((3, 4), 1), ((3, 4), 0), ((2, 3, 2), 1), ((1,), 0), ((0, 3), 1)]:
        for kind in (Softmax, LogSoftmax):
            yield kind(axis), (_normal(7, *shape),)
    yield Softmax(0), (np.array([1, 2, 3]),)
    for shape, axes in [((3, 4), (1,)), ((2, 3, 4), (0, 2)), ((4,), (0,)), ((0, 3), (1,))]:
        yield Standardize(axes, 0.1), (_normal(8, *shape),)
    yield UpdateStatistic(0.75), (_normal(9, 3), _normal(10, 1, 3, 1))


def _picking() -> Iterator[tuple[OpDef, tuple[Any, ...]]]:
    for shape, axis in [((3, 4), 1), ((2, 3, 2), 1), ((3, 2), 0), ((2,), 0), ((0, 3), 1)]:
        picked = shape[:axis] + shape[axis + 1 :]
        index = np.asarray(np.random.default_rng(11).integers(0, shape[axis], picked))
        yield IndexingOneHot(axis), (_normal(12, *shape), index)
        yield IndexingOneHotTranspose(axis), (index, np.asarray(_normal(13, *picked)), shape)


def samples() -> Iterator[tuple[OpDef, tuple[Any, ...]]]:
    yield from _convolutions()
    yield from _poolings()
    yield from _sliding()
    yield from _normalisations()
    yield from _picking()
