"""Linear algebra agrees with numpy on stacks of matrices, and says what it cannot do."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import ops
from interp import DTypeError, OperatorError, ShapeError, tensor
from ops import linalg
from transformations import grad, vmap

RNG = np.random.default_rng(0)
SQUARE = RNG.normal(size=(2, 3, 3)) + 3 * np.eye(3)
TALL = RNG.normal(size=(2, 4, 3))
WIDE = TALL.swapaxes(-1, -2)
POSITIVE = SQUARE @ SQUARE.swapaxes(-1, -2)


def close(got: Any, wanted: Any) -> None:
    if isinstance(wanted, tuple):
        for one, other in zip(got, wanted, strict=True):
            close(one, other)
    else:
        assert got.shape == np.shape(wanted)
        np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "x", "options"),
    [
        ("inv", SQUARE, {}),
        ("det", SQUARE, {}),
        ("slogdet", SQUARE, {}),
        ("cholesky", POSITIVE, {}),
        ("cholesky", POSITIVE, {"upper": True}),
        ("eigh", POSITIVE, {}),
        ("eigvalsh", POSITIVE, {}),
        ("qr", TALL, {}),
        ("qr", WIDE, {"mode": "complete"}),
        ("svd", TALL, {}),
        ("svd", WIDE, {"full_matrices": False}),
        ("svdvals", WIDE, {}),
        ("pinv", TALL, {}),
        ("matrix_rank", TALL, {}),
        ("trace", TALL, {"offset": -1}),
        ("diagonal", TALL, {"offset": 1}),
        ("matrix_transpose", TALL, {}),
        ("vector_norm", TALL, {"axis": 1, "ord": 3}),
        *[("matrix_norm", TALL, {"ord": ord}) for ord in ("fro", "nuc", 1, -1, 2, -2, float("inf"), float("-inf"))],
        *[("matrix_norm", TALL, {"ord": ord, "keepdims": True}) for ord in ("fro", "nuc", -1, 2, float("inf"))],
    ],
)
def test_a_function_is_that_of_numpy(name: str, x: Any, options: dict[str, Any]) -> None:
    close(getattr(linalg, name)(tensor(x), **options), getattr(np.linalg, name)(x, **options))


@pytest.mark.parametrize("n", [-3, -1, 0, 1, 2, 5])
def test_powers_are_those_of_numpy(n: int) -> None:
    close(linalg.matrix_power(tensor(SQUARE), n), np.linalg.matrix_power(SQUARE, n))


def test_systems_have_vectors_or_matrices_on_the_right() -> None:
    a, b = SQUARE, RNG.normal(size=(3, 2))
    close(linalg.solve(tensor(a), tensor(b)), np.linalg.solve(a, b))
    close(linalg.solve(tensor(a), tensor(b[:, 0])), np.linalg.solve(a, b[:, 0]))
    assert linalg.solve(np.eye(2, dtype="float32"), np.arange(2)).dtype == np.float32


@pytest.mark.parametrize("axis", [-1, 0])
def test_cross_products_are_those_of_numpy(axis: int) -> None:
    a, b = RNG.normal(size=(3, 2, 3)), RNG.normal(size=(3, 2, 3))
    close(linalg.cross(tensor(a), tensor(b), axis=axis), np.cross(a, b, axis=axis))
    with pytest.raises(ShapeError, match="length 3"):
        linalg.cross(tensor(a), tensor(b), axis=1)


def test_determinants_have_gradients_at_singular_matrices() -> None:
    x = np.array([[1.0, 2.0], [2.0, 4.0]])
    close(grad(linalg.det)(tensor(x)), np.array([[4.0, -2.0], [-2.0, 1.0]]))
    close(grad(linalg.det)(tensor(np.zeros((2, 2)))), np.zeros((2, 2)))


def test_equal_values_give_finite_gradients() -> None:
    for function in (linalg.svdvals, linalg.eigvalsh, lambda x: linalg.svd(x, full_matrices=False)[1]):
        close(grad(lambda x, f=function: ops.sum(f(x)))(tensor(np.eye(3))), np.eye(3))


def test_matrix_functions_run_on_many_examples_at_once() -> None:
    stack = RNG.normal(size=(3, 5, 3)) + 3 * np.eye(3)[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in ("inv", "det", "slogdet", "svdvals", "qr", "pinv"):
            got = vmap(getattr(linalg, name), in_axes=1)(tensor(stack))
            close(got, getattr(np.linalg, name)(np.moveaxis(stack, 1, 0)))
        b = RNG.normal(size=(3, 5))
        got = vmap(linalg.solve, in_axes=(None, 1))(tensor(stack[:, 0]), tensor(b))
        close(got, np.linalg.solve(stack[:, 0], b).T)


def test_what_cannot_be_done_is_said() -> None:
    with pytest.raises(ShapeError, match="square"):
        linalg.inv(tensor(TALL))
    with pytest.raises(ShapeError, match="two axes"):
        linalg.svd(tensor(np.ones(3)))
    with pytest.raises(DTypeError, match="float16"):
        linalg.det(tensor(np.eye(2, dtype="float16")))
    with pytest.raises(ShapeError, match="right-hand side"):
        linalg.solve(tensor(SQUARE), tensor(np.ones((4, 1))))
    with pytest.raises(np.linalg.LinAlgError):
        linalg.inv(tensor(np.zeros((2, 2))))
    with pytest.raises(OperatorError, match="mode"):
        linalg.qr(tensor(TALL), mode="r")
    with pytest.raises(OperatorError, match="ord"):
        linalg.matrix_norm(tensor(TALL), ord=3)
    with pytest.raises(OperatorError, match="full_matrices=False"):
        grad(lambda x: ops.sum(linalg.svd(x)[1]))(tensor(TALL))
    with pytest.raises(OperatorError, match="as many rows as columns"):
        grad(lambda x: ops.sum(linalg.qr(x)[1]))(tensor(WIDE))
