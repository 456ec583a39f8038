"""Reductions: dtypes, edges, and gradients where the mathematics needs care."""

from __future__ import annotations

import numpy as np
import pytest

import ops
from interp import DTypeError, OperatorError, ShapeError, Spec, apply, default_dtype_scope, tensor
from ops.reduction import Reduce
from tests.golden_data import mask_of
from transformations import grad, hessian, jvp, make_backward_graph

X = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])


@pytest.mark.parametrize("name", ["sum", "prod"])
@pytest.mark.parametrize(
    ("given", "result"),
    [("bool", "int64"), ("int8", "int64"), ("int32", "int64"), ("uint8", "uint64"), ("float16", "float16"),
     ("float32", "float32"), ("complex64", "complex64")],
)  # fmt: skip
def test_integers_are_summed_in_64_bits_and_floats_in_their_own(name: str, given: str, result: str) -> None:
    assert getattr(ops, name)(np.ones(3, given)).dtype == result


def test_dtype_says_what_is_summed_in() -> None:
    assert ops.sum(np.array([100, 100], "int8"), dtype="int8").tolist() == -56
    assert ops.sum(np.array([0.5, 0.5], "float32"), dtype="int32").tolist() == 0
    assert ops.sum(np.array([1, 2]), dtype="float32").dtype == np.float32


def test_means_of_integers_are_of_the_default_dtype() -> None:
    assert ops.mean(np.array([1, 2])).dtype == np.float32
    with default_dtype_scope("float64"):
        assert ops.mean(np.array([1, 2])).dtype == np.float64
        assert ops.var(np.array([1, 2])).dtype == np.float64


def test_the_mean_of_many_half_precision_ones_is_one() -> None:
    assert ops.mean(np.ones(5000, np.float16)).tolist() == 1.0


def test_reductions_of_nothing() -> None:
    nothing = np.zeros((2, 0), np.float32)
    assert ops.sum(nothing).tolist() == 0
    assert ops.prod(nothing, axis=1).tolist() == [1, 1]
    assert not ops.any(nothing) and ops.all(nothing)
    assert np.isnan(ops.mean(nothing).numpy())
    assert ops.logsumexp(nothing, axis=1).tolist() == [-np.inf, -np.inf]
    assert ops.max(nothing, axis=0).shape == (0,)
    with pytest.raises(ShapeError, match="no elements along axis"):
        ops.max(nothing)


def test_wrong_axes_dtypes_and_modes_are_typed_errors() -> None:
    with pytest.raises(ShapeError, match="sum: axis 2 does not exist; the array has 2 axes"):
        ops.sum(X, axis=2)
    with pytest.raises(ShapeError, match="names an axis twice"):
        ops.sum(X, axis=(0, -2))
    with pytest.raises(DTypeError, match="axis must be an integer"):
        ops.sum(X, axis=0.5)
    with pytest.raises(DTypeError, match="no order"):
        ops.max(np.ones(2, complex))
    with pytest.raises(OperatorError, match="no mode 'SUMM'"):
        apply(Reduce("SUMM", ()), 1.0)
    with pytest.raises(ShapeError):
        apply(Reduce("SUM", (3,)), X)


def test_against_numpy() -> None:
    for axis in (None, 0, 1, (0, 1), ()):
        for keepdims in (False, True):
            for name in ("sum", "prod", "mean", "max", "min", "any", "all", "var", "std"):
                ours = getattr(ops, name)(X, axis=axis, keepdims=keepdims).numpy()
                np.testing.assert_allclose(ours, getattr(np, name)(X, axis=axis, keepdims=keepdims), rtol=1e-14)
    np.testing.assert_allclose(ops.var(X, 0, correction=1).numpy(), np.var(X, 0, ddof=1))
    for order in (0, 1, 2, 3, np.inf, -np.inf):
        np.testing.assert_allclose(ops.norm(X, order, 1).numpy(), np.linalg.norm(X, order, 1))
    z = X + 1j
    np.testing.assert_allclose(ops.norm(z).numpy(), np.linalg.norm(z))
    assert ops.count_nonzero(np.array([[0.0, np.nan, 2.0]]), axis=1).tolist() == [2]


# Gradients.


@pytest.mark.parametrize("name", ["max", "min"])
def test_ties_share_the_gradient_evenly(name: str) -> None:
    sign = 1 if name == "max" else -1
    x = tensor([1.0, 3.0 * sign, 3.0 * sign])
    assert grad(getattr(ops, name))(x).tolist() == [0, 0.5, 0.5]
    assert jvp(getattr(ops, name), (x,), (tensor([5.0, 1.0, 2.0]),))[1].tolist() == 1.5


def test_products_have_right_gradients_at_zeros_to_third_order() -> None:
    assert grad(ops.prod)(tensor([2.0, 0.0, 3.0])).tolist() == [0, 6, 0]
    assert grad(ops.prod)(tensor([0.0, 0.0, 3.0])).tolist() == [0, 0, 0]
    assert hessian(ops.prod)(tensor([0.0, 0.0, 3.0])).tolist() == [[0, 3, 0], [3, 0, 0], [0, 0, 0]]

    def entry(x):
        return hessian(ops.prod)(x)[0, 1]

    assert grad(entry)(tensor([0.0, 0.0, 0.0])).tolist() == [0, 0, 1]


def test_running_products_have_right_gradients_at_zeros() -> None:
    assert grad(lambda x: ops.sum(ops.cumulative_prod(x)))(tensor([2.0, 0.0, 3.0])).tolist() == [1, 8, 0]


def test_lengths_and_deviations_have_gradient_zero_at_zero() -> None:
    for f in (ops.std, ops.norm, lambda x: ops.norm(x, 3)):
        assert grad(f)(tensor([0.0, 0.0])).tolist() == [0, 0]
    assert hessian(ops.norm)(tensor([0.0, 0.0])).tolist() == [[0, 0], [0, 0]]


def test_logsumexp_neither_overflows_nor_gives_nan() -> None:
    inf = float("inf")
    assert grad(ops.logsumexp)(tensor([-inf, 0.0])).tolist() == [0, 1]
    assert grad(ops.logsumexp)(tensor([-inf, -inf])).tolist() == [0, 0]
    assert grad(ops.logsumexp)(tensor([inf, 0.0])).tolist() == [1, 0]
    assert ops.logsumexp(tensor([1000.0, 999.0])).item() == pytest.approx(1000.3133)


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("mode", ["SUM", "MEAN", "MAX", "SUM_SQR"])
def test_a_gradient_is_recorded_once_for_all_shapes(mode: str, keepdims: bool) -> None:
    graph = make_backward_graph(Reduce(mode, (0,), keepdims), [Spec((3, 2), "float32")])
    assert graph is not None and not graph.specific


def test_sums_and_means_keep_nothing_but_a_shape() -> None:
    for mode in ("SUM", "MEAN"):
        assert mask_of(Reduce(mode, (0,)), [X]) == (False, False, True)
    assert mask_of(Reduce("SUM_SQR", (0,)), [X]) == (True, False, True)
