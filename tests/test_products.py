"""Products of matrices and tensors agree with numpy, and so do the errors that they raise."""

from __future__ import annotations

import numpy as np
import pytest

import ops
from interp import DTypeError, OperatorError, ShapeError, tensor
from interp.value import Spec
from ops.einsum import einsum
from transformations import grad, make_backward_graph, vmap

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("subscripts", "shapes"),
    [
        ("ij,jk", [(2, 3), (3, 4)]),
        ("ii", [(3, 3)]),
        ("ii->i", [(3, 3)]),
        ("iij->j", [(3, 3, 2)]),
        ("iii->i", [(3, 3, 3)]),
        ("...ij,...jk->...ik", [(5, 2, 3), (3, 4)]),
        ("...ij,...jk", [(2, 3), (5, 3, 4)]),
        ("b...,b...->...", [(2, 3, 4), (2, 3, 4)]),
        ("i,j,k->kji", [(2,), (3,), (4,)]),
        ("ij->", [(2, 3)]),
        ("ji", [(2, 3)]),
        ("...", [(2, 3)]),
        ("i...->...", [(2, 3)]),
        (" ij , jk -> ik ", [(2, 3), (3, 4)]),
        ("ij,ij->i", [(2, 1), (2, 3)]),
        (",i->i", [(), (3,)]),
        ("ij,jk->ik", [(0, 3), (3, 4)]),
    ],
)
def test_einsum_is_that_of_numpy(subscripts: str, shapes: list[tuple[int, ...]]) -> None:
    arrays = [RNG.normal(size=shape) for shape in shapes]
    got = einsum(subscripts, *map(tensor, arrays))
    np.testing.assert_allclose(got.numpy(), np.einsum(subscripts, *arrays), rtol=1e-12)
    weights = RNG.normal(size=got.shape)
    gradient = grad(lambda x: ops.sum(einsum(subscripts, x, *arrays[1:]) * weights))(tensor(arrays[0]))
    direction = RNG.normal(size=shapes[0])
    moved = np.einsum(subscripts, arrays[0] + direction, *arrays[1:]) - np.einsum(subscripts, *arrays)
    np.testing.assert_allclose(np.sum(gradient.numpy() * direction), np.sum(moved * weights), rtol=1e-9, atol=1e-12)


def test_einsum_says_what_is_wrong() -> None:
    x = tensor(np.ones((2, 3)))
    with pytest.raises(ShapeError, match="'j' is both 3 and 2"):
        einsum("ij,jk->ik", x, x)
    with pytest.raises(ShapeError, match="does not name 2 axes"):
        einsum("i->i", x)
    with pytest.raises(OperatorError, match="names 2 arrays"):
        einsum("ij,jk", x)
    with pytest.raises(OperatorError, match="axes of the inputs"):
        einsum("ij->ijk", x)
    with pytest.raises(OperatorError, match="only letters"):
        einsum("i1->i", x)


@pytest.mark.parametrize("axes", [0, 1, 2, ([0, 1], [1, 0]), ([-1], [0]), (1, 0)])
def test_tensordot_is_that_of_numpy(axes: object) -> None:
    shapes = {0: ((2, 3), (4,)), 1: ((2, 3), (3, 4)), 2: ((5, 2, 3), (2, 3, 4))}
    left, right = shapes.get(axes, ((2, 3), (3, 2))) if isinstance(axes, int) else ((2, 3), (3, 2))
    a, b = RNG.normal(size=left), RNG.normal(size=right)
    np.testing.assert_allclose(ops.tensordot(tensor(a), tensor(b), axes=axes).numpy(), np.tensordot(a, b, axes))


@pytest.mark.parametrize(
    ("left", "right"), [((3,), (3,)), ((2, 3), (3,)), ((2, 3), (3, 4)), ((5, 2, 3), (4, 3, 2)), ((), (2,)), ((3,), (4, 3, 2))]
)
def test_dot_is_that_of_numpy(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    a, b = RNG.normal(size=left), RNG.normal(size=right)
    np.testing.assert_allclose(ops.dot(tensor(a), tensor(b)).numpy(), np.dot(a, b))


def test_vecdot_and_outer_are_those_of_numpy() -> None:
    a, b = RNG.normal(size=(2, 3, 4)), RNG.normal(size=(3, 4))
    np.testing.assert_allclose(ops.vecdot(tensor(a), tensor(b)).numpy(), np.vecdot(a, b))
    np.testing.assert_allclose(ops.vecdot(tensor(a), tensor(b), axis=-2).numpy(), np.vecdot(a, b, axis=-2))
    np.testing.assert_allclose(ops.outer(tensor(b), tensor(b)).numpy(), np.outer(b, b))


def test_the_sign_takes_arrays_on_both_sides() -> None:
    a, b = RNG.normal(size=(2, 3)), RNG.normal(size=(3, 4))
    for got in (tensor(a) @ tensor(b), tensor(a) @ b):
        np.testing.assert_allclose(got.numpy(), a @ b)
    with pytest.raises(TypeError):
        tensor(a) @ "b"
    with pytest.raises(ShapeError, match="matmul"):
        tensor(a) @ 2.0
    with pytest.raises(ShapeError, match="3 columns do not meet 2 rows"):
        tensor(a) @ tensor(a)


def test_products_promote_their_dtypes() -> None:
    single, double, whole = (np.ones((2, 2), dtype) for dtype in ("float32", "float64", "int64"))
    assert (tensor(single) @ tensor(whole)).dtype == np.float32
    assert (tensor(single) @ tensor(double)).dtype == np.float64
    assert grad(lambda x: ops.sum(x @ tensor(double)))(tensor(single)).dtype == np.float32
    with pytest.raises(DTypeError):
        tensor(np.ones((2, 2), "int64")) @ tensor(np.ones((2, 2), "uint64"))


@pytest.mark.parametrize(("a", "b"), [((2, 3), (3, 4)), ((5, 2, 3), (5, 3, 4)), ((5, 2, 3), (3, 4)), ((3,), (3, 4))])
def test_the_gradient_of_a_product_is_recorded_for_all_shapes(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    graph = make_backward_graph(ops.MatrixMul(), [Spec(a, "float32"), Spec(b, "float32")])
    assert graph is not None
    assert not graph.specific
    assert graph.save_for_backward == (True, True, False, True)


@pytest.mark.parametrize(
    ("a", "in_a", "b", "in_b"),
    [
        ((5, 2, 3), 0, (5, 3, 4), 0),
        ((5, 3), 0, (5, 3), 0),
        ((5, 3), 0, (2, 3, 4), None),
        ((2, 3), None, (3, 5), 1),
        ((3, 5, 2, 3), 1, (3, 1), None),
        ((2, 3, 5), 2, (7, 3, 4, 5), 3),
    ],
)
def test_products_run_on_many_examples_at_once(a: object, in_a: object, b: object, in_b: object) -> None:
    left, right = RNG.normal(size=a), RNG.normal(size=b)
    got = vmap(ops.matmul, in_axes=(in_a, in_b))(tensor(left), tensor(right))
    lanes = [
        np.matmul(left if in_a is None else left.take(i, in_a), right if in_b is None else right.take(i, in_b))
        for i in range(5)
    ]
    np.testing.assert_allclose(got.numpy(), np.stack(lanes), rtol=1e-9)


def test_tensor_products_run_on_many_examples_at_once() -> None:
    a, b = RNG.normal(size=(5, 2, 3)), RNG.normal(size=(3, 5, 2))
    got = vmap(lambda x, y: ops.tensordot(x, y, axes=([1], [0])), in_axes=(0, 1))(tensor(a), tensor(b))
    np.testing.assert_allclose(got.numpy(), np.einsum("nij,jnk->nik", a, b), rtol=1e-9)
    got = vmap(lambda x, y: einsum("ij,jk->", x, y), in_axes=(0, None))(tensor(a), tensor(b[:, 0]))
    np.testing.assert_allclose(got.numpy(), np.einsum("nij,jk->n", a, b[:, 0]), rtol=1e-9)
