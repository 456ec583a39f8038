"""What element-wise operators promise at the edges: ties, tails, infinities, mixed operands, batches."""

from __future__ import annotations

import itertools
import operator
import warnings
from typing import Any

import numpy as np
import pytest

import ops
from interp import DTypeError, OperatorError, ShapeError, apply, tensor
from interp.tensor import from_value
from ops.elemwise import ROWS, Elemwise
from tests.samples.elemwise import samples
from transformations import grad, vmap

INF = float("inf")


def gradients(function: Any, *arrays: Any, dtype: str = "float32") -> list[Any]:
    xs = [tensor(np.asarray(x, dtype)) for x in arrays]
    with np.errstate(all="ignore"):
        found = grad(lambda *args: ops.sum(function(*args)), argnums=tuple(range(len(xs))))(*xs)
    return [g.numpy().tolist() for g in found]


# Gradients at edges.


def test_ties_are_shared_evenly() -> None:
    assert gradients(ops.maximum, [1.0, 1, 2], [1.0, 2, 1]) == [[0.5, 0, 1], [0.5, 1, 0]]
    assert gradients(ops.minimum, [1.0, 1, 2], [1.0, 2, 1]) == [[0.5, 1, 0], [0.5, 0, 1]]


def test_clip_shares_with_its_bounds_as_one_sided_clips_do() -> None:
    x = [-1.0, 0.0, 0.5, 1.0, 2.0]
    both = gradients(ops.clip, x, [0.0] * 5, [1.0] * 5)
    assert both == [[0, 0.5, 1, 0.5, 0], [1, 0.5, 0, 0, 0], [0, 0, 0, 0.5, 1]]
    assert gradients(lambda x: ops.clip(x, 0.0), x) == [[0, 0.5, 1, 1, 1]]
    assert sum(g[0] for g in gradients(ops.clip, [1.0], [1.0], [1.0])) == pytest.approx(1)


def test_even_functions_have_gradient_zero_at_zero() -> None:
    assert gradients(ops.abs, [0.0]) == [[0.0]]
    assert gradients(ops.hypot, [0.0], [0.0]) == [[0.0], [0.0]]
    assert gradients(ops.atan2, [0.0], [0.0]) == [[0.0], [0.0]]


@pytest.mark.parametrize("function", [ops.sqrt, ops.log, ops.reciprocal, ops.rsqrt, ops.cbrt, ops.acosh, ops.log1p])
def test_a_branch_that_is_not_taken_gives_no_nan(function: Any) -> None:
    found = gradients(lambda x: ops.where(x > 1.5, function(x), 0.0), [0.0, -1.0, 1.0, 2.0])
    assert found[0][:3] == [0, 0, 0] and np.isfinite(found[0][3])


def test_powers_at_zero() -> None:
    by_base, by_exponent = gradients(ops.pow, [0.0, 0, 0, 2, -2], [0.0, 1, 2, 0, 2])
    assert by_base == [0, 1, 0, 0, -4]
    assert by_exponent[:3] == [0, 0, 0] and by_exponent[3] == pytest.approx(np.log(2))


@pytest.mark.parametrize("scale", [1e-25, 1.0, 1e25])
def test_angles_do_not_overflow_on_the_way_back(scale: float) -> None:
    by_y, by_x = gradients(ops.atan2, [3 * scale], [4 * scale])
    np.testing.assert_allclose([by_y[0] * scale, by_x[0] * scale], [4 / 25, -3 / 25], rtol=1e-5)


def test_the_tail_of_gelu_keeps_its_digits() -> None:
    (found,) = gradients(ops.nn.gelu, [-8.0, -6.0, -4.0])
    (wide,) = gradients(ops.nn.gelu, [-8.0, -6.0, -4.0], dtype="float64")
    np.testing.assert_allclose(found, wide, rtol=1e-4)


# Values at edges.


def test_soft_functions_are_right_far_out() -> None:
    x = tensor([-INF, -1e4, 0.0, 1e4, INF])
    np.testing.assert_allclose(ops.nn.softplus(x).numpy(), [0, 0, np.log(2), 1e4, INF], rtol=1e-6)
    np.testing.assert_allclose(ops.nn.logsigmoid(x).numpy(), [-INF, -1e4, -np.log(2), 0, 0], rtol=1e-6)
    assert gradients(ops.nn.softplus, [-1e4, 0.0, 1e4]) == [[0, 0.5, 1]]
    assert gradients(ops.nn.logsigmoid, [-1e4, 0.0, 1e4]) == [[1, 0.5, 0]]


def test_logaddexp_at_infinities() -> None:
    pairs = [(-INF, -INF), (INF, INF), (INF, 0.0), (0.0, -INF), (-INF, 0.0), (1e4, 0.0)]
    x, y = (tensor(list(side)) for side in zip(*pairs, strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ops.logaddexp(x, y).numpy().tolist() == [-INF, INF, INF, 0, 0, 1e4]
    by_x, by_y = gradients(ops.logaddexp, x.numpy(), y.numpy())
    assert by_x == [0.5, 0.5, 1, 1, 0, 1] and by_y == [0.5, 0.5, 0, 0, 1, 0]


def test_not_a_number_is_passed_on() -> None:
    nan = tensor([np.nan, 1.0])
    for result in (
        ops.clip(nan, 0.0, 2.0), ops.clip(tensor([1.0, 1.0]), nan, 2.0), ops.clip(tensor([1.0, 1.0]), 0.0, nan),
        ops.maximum(nan, 0.0), ops.minimum(0.0, nan), ops.relu(nan), ops.nn.relu6(nan), ops.sign(nan),
    ):  # fmt: skip
        assert np.isnan(result.numpy()).tolist() == [True, False]


@pytest.mark.filterwarnings("error")
def test_kernels_raise_no_warnings_of_their_own() -> None:
    x = tensor([-1e4, -100.0, 0.0, 100.0, 1e4])
    for function in (ops.sigmoid, ops.nn.softplus, ops.nn.logsigmoid, ops.nn.gelu, ops.nn.silu, ops.nn.hswish):
        function(x)
    ops.safe_divide(x, 0.0)
    ops.safe_multiply(tensor([0.0, 1.0]), tensor([INF, INF]))
    gradients(ops.sqrt, [0.0, 1.0])


# Mixed operands, and what is refused.


def test_a_boolean_operand_beside_a_number_counts_as_one() -> None:
    x, mask = tensor([1.0, 2.0]), tensor([True, False])
    assert (x - mask).numpy().tolist() == [0, 2] and (x**mask).numpy().tolist() == [1, 1]
    assert (tensor([3, 4]) - mask).dtype == np.int32


def test_booleans_alone_have_no_difference() -> None:
    mask = tensor([True, False])
    for wrong in (lambda: mask - mask, lambda: -mask, lambda: mask**mask, lambda: mask // mask):
        with pytest.raises(DTypeError, match="bool"):
            wrong()


@pytest.mark.parametrize("sign", [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift])
def test_bits_of_floats_are_refused(sign: Any) -> None:
    for other in (tensor([1.0, 2.0]), tensor([1, 2])):
        with pytest.raises(DTypeError, match="float32"):
            sign(tensor([1.0, 2.0]), other)


def test_an_integer_to_a_negative_power_is_refused() -> None:
    for exponent in (-1, tensor([-1, 1])):
        with pytest.raises(OperatorError, match="negative power"):
            tensor([1, 2]) ** exponent
    assert (tensor([1, 2]) ** -1.0).numpy().tolist() == [1, 0.5]


def test_shapes_that_do_not_broadcast_are_named() -> None:
    with pytest.raises(ShapeError, match=r"\(2,\).*\(3,\)"):
        tensor([1.0, 2.0]) ** tensor([1.0, 2.0, 3.0])


def test_magnitudes_of_integers_are_integers() -> None:
    assert abs(tensor([-1, 2])).dtype == np.int32 and ops.abs(tensor([3 + 4j])).item() == 5


def test_powers_and_products_in_place_rebind_the_handle() -> None:
    x = y = tensor([[2.0]])
    x **= 3
    assert y is x and y.item() == 8
    x @= tensor([[0.5]])
    assert y is x and y.item() == 4
    with pytest.raises(ShapeError, match="in-place"):
        x **= tensor([1.0, 2.0])


def test_a_condition_must_be_boolean_and_takes_no_part_in_promotion() -> None:
    with pytest.raises(DTypeError, match="boolean condition"):
        ops.where(tensor([1, 0]), 1.0, 2.0)
    assert ops.where(tensor([True, False]), tensor([1, 2]), 0).dtype == np.int32


# Batching, for every mode.

SAMPLES = [(op, inputs) for op, inputs in samples() if not any(0 in x.shape for x in inputs)]


@pytest.mark.parametrize("mode", sorted(ROWS))
def test_a_batch_is_its_examples(mode: str) -> None:
    op = Elemwise(mode)
    for _, inputs in (sample for sample in SAMPLES if sample[0] == op):
        for chosen in itertools.product([None, 0, -1], repeat=len(inputs)):
            if all(axis is None for axis in chosen):
                continue
            batched = [x if a is None else np.stack([x, x[::-1] if x.ndim else x], a) for x, a in zip(inputs, chosen)]
            with np.errstate(all="ignore"):
                result = vmap(lambda *xs: apply(op, *xs)[0], in_axes=chosen)(*map(from_value, batched)).numpy()
                for i in (0, 1):
                    one = [x if a is None else np.take(x, i, a) for x, a in zip(batched, chosen)]
                    np.testing.assert_array_equal(result[i], apply(op, *one)[0])
