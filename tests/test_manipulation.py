"""Rearranging, joining, searching, creating: numpy's results, and typed errors."""

from __future__ import annotations

import numpy as np
import pytest

import ops
from interp import DTypeError, OperatorError, ShapeError, TraceError, record, tensor
from transformations import Grad, grad, vmap

X = np.arange(24.0).reshape(2, 3, 4)


def same(ours, numpys) -> None:
    np.testing.assert_array_equal(ours.numpy(), numpys)
    assert ours.dtype == numpys.dtype


def test_rearranging_is_numpys() -> None:
    same(ops.transpose(X), X.T)
    same(tensor(X).T, X.T)
    same(tensor(X).mT, X.swapaxes(-1, -2))
    same(ops.moveaxis(X, (0, 1), (-1, 0)), np.moveaxis(X, (0, 1), (-1, 0)))
    same(ops.expand_dims(X, axis=(0, -1)), np.expand_dims(X, (0, -1)))
    same(ops.squeeze(X[:, :1]), X[:, :1].squeeze())
    same(ops.flip(X), np.flip(X))
    same(ops.roll(X, 5), np.roll(X, 5))
    same(ops.roll(X, (1, -1), axis=(0, 2)), np.roll(X, (1, -1), (0, 2)))
    same(ops.tile(X, (2, 1, 1, 3)), np.tile(X, (2, 1, 1, 3)))
    same(ops.repeat(X, 2, axis=-1), np.repeat(X, 2, -1))
    same(ops.repeat(X, [1, 0, 2], axis=1), np.repeat(X, [1, 0, 2], 1))
    same(ops.flatten(X, 1), X.reshape(2, 12))
    same(ops.tril(X, k=1), np.tril(X, 1))
    for mode in ("constant", "edge", "reflect", "symmetric", "wrap"):
        same(ops.pad(X, ((1, 1), (0, 2), (7, 9)), mode), np.pad(X, ((1, 1), (0, 2), (7, 9)), mode))


def test_joining_and_splitting_are_numpys() -> None:
    same(ops.concat([X, X], axis=1), np.concatenate([X, X], 1))
    same(ops.concat([X, X[0]], axis=None), np.concatenate([X, X[0]], None))
    same(ops.stack([X, X], axis=-1), np.stack([X, X], -1))
    for parts in (3, [1], [0, 1, 7]):
        for ours, numpys in zip(ops.split(X, parts, 1), np.split(X, parts, 1), strict=True):
            same(ours, numpys)
    assert ops.concat([np.ones(1, "int8"), np.ones(1, "float32")]).dtype == np.float32
    assert len(ops.unstack(X, axis=-1)) == 4


def test_a_nested_list_of_tensors_is_a_tensor_with_their_gradients() -> None:
    a = tensor(3.0)
    assert tensor([[a, 1], [2.5, a]]).tolist() == [[3, 1], [2.5, 3]]
    assert grad(lambda a: ops.sum(tensor([a, 2.0, a * a])))(a).item() == 7
    assert tensor([tensor(np.float64(2)), 1.0]).dtype == np.float64


def test_an_output_of_split_that_is_not_asked_for_has_gradient_zero() -> None:
    x = tensor([1.0, 2.0, 3.0, 4.0])
    log = []
    with Grad() as g:
        g.wrt(x, callback=log.append)
        _, b = ops.split(x, 2)
        g(b, ops.ones_like(b))
    assert log[0].tolist() == [0, 0, 1, 1]


def test_shapes_that_cannot_be_are_typed_errors() -> None:
    cases = [
        lambda: ops.reshape(X, (5, 5)),
        lambda: ops.reshape(X, (-1, -1)),
        lambda: ops.reshape(X, (-1, 7)),
        lambda: ops.permute_dims(X, (0, 0, 1)),
        lambda: ops.permute_dims(X, (0, 1)),
        lambda: ops.squeeze(X, axis=0),
        lambda: ops.expand_dims(X, axis=5),
        lambda: ops.concat([X, X[0]]),
        lambda: ops.concat([X, X[:, :2]], axis=0),
        lambda: ops.stack([X, X[0]]),
        lambda: ops.split(X, 5, 1),
        lambda: ops.split(X, [2, 1], 1),
        lambda: ops.broadcast_arrays(X, X[:, :2]),
        lambda: ops.matrix_transpose(X[0, 0]),
        lambda: ops.diag(X),
        lambda: ops.pad(X, [(1, 2), (3, 4)]),
        lambda: ops.pad(X[:0], 1, "edge"),
        lambda: ops.zeros((-1,)),
        lambda: ops.meshgrid(X),
        lambda: ops.topk(X, 5),
        lambda: ops.nonzero(1.0),
    ]
    for case in cases:
        with pytest.raises(ShapeError):
            case()
    with pytest.raises(OperatorError, match="at least one"):
        ops.concat([])
    with pytest.raises(OperatorError, match="no mode 'mirror'"):
        ops.pad(X, 1, "mirror")
    with pytest.raises(DTypeError):
        ops.sort(np.ones(2, complex))


# Searching.


def test_searching_is_numpys() -> None:
    x = np.array([[3.0, np.nan, 1.0], [2.0, 2.0, -1.0]])
    same(ops.sort(x), np.sort(x))
    same(ops.sort(x, axis=0, descending=True), np.flip(np.sort(x, 0), 0))
    same(ops.argsort(x), np.argsort(x, kind="stable"))
    assert ops.argsort([1.0, 2.0, 1.0], descending=True).tolist() == [1, 0, 2]
    assert ops.argmax(X).item() == 23
    assert ops.argmin(X, axis=1, keepdims=True).shape == (2, 1, 4)
    same(ops.searchsorted(np.array([1.0, 2.0, 2.0]), X, side="right"), np.searchsorted([1.0, 2.0, 2.0], X, "right"))
    for ours, numpys in zip(ops.nonzero(X > 20), np.nonzero(X > 20), strict=True):
        same(ours, numpys)


def test_order_has_a_gradient_and_places_have_none() -> None:
    w = tensor([1.0, 10.0, 100.0])
    x = tensor([2.0, 3.0, 1.0])
    assert grad(lambda x: ops.sum(ops.sort(x) * w))(x).tolist() == [10, 100, 1]
    assert grad(lambda x: ops.sum(ops.topk(x, 2)[0] * w[:2]))(x).tolist() == [10, 1, 0]
    assert grad(lambda x: ops.sum(x) * ops.astype(ops.argmax(x), "float32"))(x).tolist() == [1, 1, 1]


def test_different_elements_are_numpys() -> None:
    x = np.array([[3, 1, 3], [2, 1, 3]])
    values, indices, inverse, counts = ops.unique_all(x)
    wanted = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
    for ours, numpys in zip((values, indices, inverse, counts), wanted, strict=True):
        same(ours, numpys)
    assert ops.unique_values(np.zeros(0)).shape == (0,)
    assert ops.unique_values([np.nan, np.nan]).shape == (2,)
    assert grad(lambda x: ops.sum(ops.unique_values(x) ** 2))(tensor([2.0, 1.0, 2.0])).tolist() == [4, 2, 0]


def test_a_shape_that_only_data_tells_is_refused_where_there_is_none() -> None:
    with pytest.raises(TraceError, match=r"nonzero.*ops\.where"):
        record(lambda x: ops.nonzero(x)[0], tensor(X))
    with pytest.raises(TraceError, match="each of 2 examples"):
        vmap(lambda x: ops.nonzero(x)[0])(tensor(X))


# Creation.


def test_new_arrays_have_the_dtypes_of_the_standard() -> None:
    assert ops.zeros(2).dtype == ops.eye(2).dtype == ops.linspace(0, 1, 2).dtype == np.float32
    assert ops.arange(3).dtype == ops.full(2, 1).dtype == np.int32
    assert ops.arange(3.0).dtype == np.float32 and ops.full((), True).dtype == np.bool_
    assert ops.zeros_like(X).dtype == ops.full_like(X, 1).dtype == np.float64
    same(ops.arange(5, 0, -2), np.arange(5, 0, -2, dtype="int32"))
    same(ops.linspace(0, 1, 5, endpoint=False, dtype="float64"), np.linspace(0, 1, 5, endpoint=False))
    for indexing in ("xy", "ij"):
        for ours, numpys in zip(
            ops.meshgrid(X[0, 0], X[0, :, 0], indexing=indexing), np.meshgrid(X[0, 0], X[0, :, 0], indexing=indexing),
            strict=True,
        ):  # fmt: skip
            same(ours, numpys)
    same(ops.from_dlpack(X), X)


def test_filling_like_needs_no_data_and_gives_no_gradient() -> None:
    program = record(lambda x: ops.ones_like(x) + ops.full_like(x, 2), tensor(X))
    assert [type(e.op).__name__ for e in program.exprs] == ["GetAttr", "Fill", "Fill", "Elemwise"]
    assert grad(lambda x: ops.sum(ops.ones_like(x) * x))(tensor([3.0])).tolist() == [1]
    assert grad(lambda v: ops.sum(ops.full((3,), v)))(tensor(2.0)).item() == 3
    assert grad(lambda v: ops.sum(ops.linspace(0.0, v, 3)))(tensor(2.0)).item() == 1.5
