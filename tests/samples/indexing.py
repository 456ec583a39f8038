"""Samples of reading, writing and adding at indices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from interp import OpDef, apply
from ops.index import Index, Mark, Slice
from ops.indexing import GetItem, GetWritten, IndexAdd, ScatterAdd, SetItem

A, D, ALONG = Mark.ARRAY, Mark.DISTINCT, Mark.ALONG


def indices() -> Iterator[tuple[Index, tuple[Any, ...]]]:
    """Indices of an array of shape (3, 4, 5), with their arrays."""
    yield (1,), ()
    yield (), ()
    yield (Slice(1), Slice(None, None, -1), Slice(1, 4, 2)), ()
    yield (-1, None, Slice(), Slice(-2, None)), ()
    yield (Slice(5, 9),), ()
    yield (A,), (np.array([0, 2, 0]),)
    yield (A,), (np.array([[-1, 2], [0, -1]]),)
    yield (A,), (np.array(1),)
    yield (A,), (np.array([], np.int64),)
    yield (A, Slice(), A), (np.array([0, 1, 0]), np.array([[1], [4]]))
    yield (Slice(), A, A), (np.array([3, 3]), np.array([1, 1]))
    yield (Slice(None, None, 2), A), (np.array([1, 1, 0], np.int32),)
    yield (A, None, A), (np.array([1, 1]), np.array([0, 0]))
    yield (A, A, A), (np.array([0, 0, 1]), np.array([1, 1, 3]), np.array([2, 2, -1]))
    yield (0, Slice(), A), (np.array([4, 4, 1]),)
    yield (Slice(), Mark.TRUE, A), (np.array([0, 0]),)
    yield (Mark.FALSE,), ()
    yield (D, D), (np.array([0, 1, 2]), np.array([3, 0, 0]))
    yield (ALONG, A, ALONG), (np.array([0, 1, 1]).reshape(1, 3, 1),)


def samples() -> Iterator[tuple[OpDef, tuple[Any, ...]]]:
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (3, 4, 5))
    for index, arrays in indices():
        yield GetItem(index), (x, *arrays)
        yield GetWritten(index), (x, *arrays)
        (y,) = apply(GetItem(index), x, *arrays)
        value = rng.uniform(-1, 1, np.shape(y))
        yield ScatterAdd((index,)), (x.shape, value, *arrays)
        yield ScatterAdd(((1,), index, (Slice(1),))), (x.shape, x[1], value, *arrays, x[:2])
        for op in (SetItem(index), IndexAdd(index)):
            yield op, (x, value, *arrays)
            yield op, (x, np.array(0.5), *arrays)
    yield SetItem((A,)), (x, rng.uniform(-1, 1, (2, 1, 5)), np.array([1, 1]))
    yield IndexAdd((A,)), (x, rng.uniform(-1, 1, (2, 1, 5)), np.array([1, 1]))
    yield GetItem((A,)), (np.arange(4), np.array([1, 1]))
    yield SetItem((0,)), (np.arange(4), np.array(3))
    yield IndexAdd((A,)), (np.arange(4), np.array(3), np.array([1, 1]))
    yield ScatterAdd(((A,),)), ((4,), np.array([1, 2]), np.array([1, 1]))
