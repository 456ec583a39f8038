"""What functions of neural networks promise beyond MegEngine's cases."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import scipy.special

import ops
from interp import DTypeError, OpDef, OperatorError, ShapeError, apply, tensor
from interp.errors import IndexOutOfRangeError
from interp.value import spec_of
from ops import nn
from ops.nn.convolution import Convolution, ConvolutionBackwardData, ConvolutionBackwardFilter
from ops.nn.normalization import Standardize
from ops.nn.pooling import Pooling
from ops.nn.softmax import LogSoftmax, Softmax
from tests.golden_data import mask_of
from tests.samples.nn import samples
from transformations import Grad, grad, jvp, vmap
from transformations.backward_graph import make_backward_graph

random = np.random.default_rng(0)


def normal(*shape: int) -> Any:
    return random.normal(size=shape)


def convolved(x: Any, w: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    """Convolution by its definition, an output element at a time."""
    x = np.pad(x, [(0, 0), (0, 0), *padding])
    reach = [d * (k - 1) + 1 for k, d in zip(w.shape[2:], dilation, strict=True)]
    counts = [(n - r) // s + 1 for n, r, s in zip(x.shape[2:], reach, stride, strict=True)]
    y = np.zeros((x.shape[0], w.shape[0], *counts))
    for out in range(w.shape[0]):
        first = out // (w.shape[0] // groups) * w.shape[1]
        for place in np.ndindex(*counts):
            window = [slice(p * s, p * s + r, d) for p, s, r, d in zip(place, stride, reach, dilation, strict=True)]
            seen = x[(slice(None), slice(first, first + w.shape[1]), *window)]
            y[(slice(None), out, *place)] = np.sum(seen * w[out], axis=tuple(range(1, x.ndim)))
    return y


CONVOLUTIONS = [(op, inputs) for op, inputs in samples() if isinstance(op, Convolution)]


@pytest.mark.parametrize(("op", "inputs"), CONVOLUTIONS, ids=[repr(op) for op, _ in CONVOLUTIONS])
@pytest.mark.parametrize("batch", [1, 2, 40])
def test_convolution_is_what_its_definition_says(op: Convolution, inputs: Any, batch: int) -> None:
    x = normal(batch, *inputs[0].shape[1:])
    wanted = convolved(x, inputs[1], op.stride, op.padding, op.dilation, op.groups)
    np.testing.assert_allclose(apply(op, x, inputs[1])[0], wanted, atol=1e-12)


@pytest.mark.parametrize("batch", [1, 40])
def test_the_transposes_of_convolution_are_its_adjoints(batch: int) -> None:
    parameters = ((2, 1), ((1, 0), (0, 2)), (1, 2), 2)
    x, w = normal(batch, 4, 7, 6), normal(6, 2, 3, 2)
    (y,) = apply(Convolution(*parameters), x, w)
    change = normal(*y.shape)
    inner = np.sum(y * change)
    (dx,) = apply(ConvolutionBackwardData(*parameters), w, change, x.shape)
    (dw,) = apply(ConvolutionBackwardFilter(*parameters), x, change, w.shape)
    assert np.isclose(np.sum(dx * x), inner) and np.isclose(np.sum(dw * w), inner)


def test_padding_same_keeps_the_length_and_groups_may_be_an_axis() -> None:
    x, w = normal(2, 4, 5, 6), normal(6, 2, 3, 2)
    y = nn.conv2d(x, w, padding="same", groups=2)
    assert y.shape == (2, 6, 5, 6)
    np.testing.assert_array_equal(nn.conv2d(x, w.reshape(2, 3, 2, 3, 2), padding="same", groups=2), y)


def test_convolution_promotes_and_its_gradients_keep_their_dtypes() -> None:
    x, w = tensor(normal(1, 1, 4)), tensor(normal(1, 1, 2).astype("float32"))
    assert nn.conv1d(x, w).dtype == np.float64
    assert [g.dtype for g in grad(lambda x, w: ops.sum(nn.conv1d(x, w)), (0, 1))(x, w)] == [x.dtype, w.dtype]
    assert nn.conv1d(np.ones((1, 1, 3), "int32"), np.ones((1, 1, 2), "int32")).dtype == np.int32


@pytest.mark.parametrize(
    ("x", "w", "options", "error"),
    [
        ((1, 2, 5, 5), (3, 3, 3, 3), {}, ShapeError),
        ((1, 2, 2, 2), (3, 2, 3, 3), {}, ShapeError),
        ((1, 2, 5), (3, 2, 3), {}, ShapeError),
        ((1, 2, 5, 5), (3, 1, 3, 3), {"groups": 2}, ShapeError),
        ((1, 2, 5, 5), (3, 2, 3, 3), {"stride": 0}, OperatorError),
        ((1, 2, 5, 5), (3, 2, 3, 3), {"padding": "same", "stride": 2}, OperatorError),
    ],
)
def test_what_does_not_convolve_is_a_typed_error(x: Any, w: Any, options: Any, error: Any) -> None:
    with pytest.raises(error):
        nn.conv2d(np.ones(x), np.ones(w), **options)


OPERATORS = list({repr((op, [spec_of(x) for x in xs])): (op, xs) for op, xs in samples()}.values())


@pytest.mark.parametrize(("op", "inputs"), OPERATORS, ids=[repr(op) for op, _ in OPERATORS])
def test_a_batched_operator_is_the_operator_on_each_lane(op: OpDef, inputs: tuple[Any, ...]) -> None:
    arrays = [i for i, x in enumerate(inputs) if isinstance(x, (np.ndarray, np.generic))]
    for axes in itertools.product(*[(None, inputs[i].ndim, 0) for i in arrays]):
        if set(axes) == {None}:
            continue
        lanes = [inputs[i] if axis is None else np.stack([inputs[i]] * 2, axis) for i, axis in zip(arrays, axes, strict=True)]

        def f(*given: Any) -> Any:
            full = list(inputs)
            for i, x in zip(arrays, given, strict=True):
                full[i] = x
            return apply(op, *full)

        batched = vmap(f, in_axes=axes)(*map(tensor, lanes))
        for y, wanted in zip(batched, apply(op, *inputs), strict=True):
            np.testing.assert_allclose(y.numpy(), np.stack([wanted] * 2), atol=1e-12)


@pytest.mark.parametrize(("op", "inputs"), OPERATORS, ids=[repr(op) for op, _ in OPERATORS])
def test_rules_hold_for_every_shape_of_a_rank(op: OpDef, inputs: tuple[Any, ...]) -> None:
    graph = make_backward_graph(op, inputs)
    assert graph is None or not graph.specific


@pytest.mark.parametrize(
    ("op", "inputs", "kept"),
    [
        (Convolution((1,), ((0, 0),), (1,)), (normal(1, 1, 4), normal(1, 1, 2)), "xw.g"),
        (Pooling("max", (2,), (2,), ((0, 0),)), (normal(1, 4),), "xyg"),
        (Pooling("average", (2,), (2,), ((0, 0),)), (normal(1, 4),), "..g"),
        (Softmax(1), (normal(2, 3),), ".yg"),
        (LogSoftmax(1), (normal(2, 3),), ".yg"),
        (Standardize((1,)), (normal(2, 3),), ".y.rggg"),
    ],
    ids=lambda x: type(x).__name__,
)
def test_the_backward_pass_keeps_what_it_needs(op: OpDef, inputs: Any, kept: str) -> None:
    assert mask_of(op, inputs) == tuple(letter != "." for letter in kept)


def test_a_maximum_reached_twice_shares_the_gradient_evenly() -> None:
    x = tensor([[2.0, 2.0, 1.0, 0.0], [2.0, 1.0, 3.0, 0.0]])
    got = grad(lambda x: ops.sum(nn.max_pool2d(x, 2)))(x)
    np.testing.assert_allclose(got, [[1 / 3, 1 / 3, 0, 0], [1 / 3, 0, 1, 0]], rtol=1e-6)


def test_padding_is_never_the_maximum_and_counts_in_means_only_when_asked() -> None:
    x = tensor([[-1.0, -2.0]])
    np.testing.assert_array_equal(nn.max_pool1d(x, 2, 2, padding=1), [[-1, -2]])
    np.testing.assert_array_equal(nn.avg_pool1d(x, 2, 2, padding=1), [[-1, -2]])
    np.testing.assert_array_equal(nn.avg_pool1d(x, 2, 2, padding=1, mode="average"), [[-0.5, -1]])
    np.testing.assert_array_equal(nn.max_pool1d([-3, -2], 2, 2, padding=1), [-3, -2])
    infinite = tensor([float("-inf"), float("-inf")])
    got = grad(lambda x: ops.sum(nn.max_pool1d(x, 2, 1, padding=(1,))[0:1]))(infinite)
    np.testing.assert_array_equal(got, [1, 0])


@pytest.mark.parametrize("sizes", [(3, 2), (1, 1), (5, 7), (4, 3), 2])
def test_adaptive_windows_cover_the_axes_evenly(sizes: Any) -> None:
    x = normal(2, 5, 7)
    rows, columns = sizes if isinstance(sizes, tuple) else (sizes, sizes)
    for function, reduce in [(nn.adaptive_max_pool2d, np.max), (nn.adaptive_avg_pool2d, np.mean)]:
        wanted = [
            [
                reduce(x[:, i * 5 // rows : -(-(i + 1) * 5 // rows), j * 7 // columns : -(-(j + 1) * 7 // columns)], (1, 2))
                for j in range(columns)
            ]
            for i in range(rows)
        ]
        np.testing.assert_allclose(function(x, sizes), np.moveaxis(np.array(wanted), 2, 0), rtol=1e-12)


def test_softmax_is_stable_and_takes_infinite_logits() -> None:
    x = tensor([[1e4, 1e4 - 10, float("-inf")]])
    np.testing.assert_allclose(nn.softmax(x, 1), scipy.special.softmax([[10.0, 0.0, -np.inf]], 1), rtol=1e-6)
    np.testing.assert_allclose(nn.log_softmax(x, 1)[0, 0], -np.log1p(np.exp(-10.0)), rtol=1e-3)
    seed = tensor([[1.0, 0.0]])
    for f in (nn.softmax, nn.log_softmax):
        got = grad(lambda x, f=f: ops.sum(f(x, 1)[:, :2] * seed))(x)
        assert np.isfinite(got.numpy()).all()
    assert nn.softmax([1, 2]).dtype == np.float32


def test_cross_entropy_of_integers_and_of_probabilities_agree() -> None:
    x, label = tensor(normal(3, 4, 2)), np.array([[1, 0], [3, 3], [0, 2]])
    dense = nn.one_hot(label, 4, axis=1, dtype="float64")
    for smooth, logits in itertools.product((0.0, 0.2), (True, False)):
        pred = x if logits else nn.softmax(x, 1)
        options: dict[str, Any] = {"with_logits": logits, "label_smooth": smooth, "reduction": "none"}
        sparse = nn.cross_entropy(pred, label, **options)
        assert sparse.shape == (3, 2)
        np.testing.assert_allclose(sparse, nn.cross_entropy(pred, dense, **options), rtol=1e-12)
    np.testing.assert_allclose(nn.nll_loss(nn.log_softmax(x, 1), label), nn.cross_entropy(x, label), rtol=1e-12)
    got = grad(lambda x: nn.cross_entropy(x, label, reduction="sum"))(x)
    np.testing.assert_allclose(got, nn.softmax(x, 1) - dense, atol=1e-12)


def test_a_label_that_is_no_class_is_an_error() -> None:
    with pytest.raises(IndexOutOfRangeError):
        nn.cross_entropy(np.ones((1, 3)), np.array([3]))
    with pytest.raises(ShapeError, match="labels of shape"):
        nn.cross_entropy(np.ones((2, 3)), np.array([[0, 1]]))
    with pytest.raises(OperatorError, match="reduction"):
        nn.cross_entropy(np.ones((1, 3)), np.array([0]), reduction="average")


def test_binary_cross_entropy_is_accurate_and_right_at_certainty() -> None:
    logits = tensor([-40.0, 40.0, 0.5], "float64")
    label = tensor([0.0, 1.0, 0.25], "float64")
    p = scipy.special.expit(0.5)
    wanted = [np.exp(-40.0), np.exp(-40.0), -(0.25 * np.log(p) + 0.75 * np.log(1 - p))]
    np.testing.assert_allclose(nn.binary_cross_entropy(logits, label, reduction="none"), wanted, rtol=1e-12)
    with np.errstate(divide="ignore"):
        certain = nn.binary_cross_entropy(tensor([0.0, 1.0]), tensor([0, 1]), with_logits=False, reduction="none")
    np.testing.assert_array_equal(certain, [0, 0])


def test_normalised_data_has_mean_zero_and_variance_one() -> None:
    x = tensor(normal(4, 6, 3, 5) * 3 + 2)
    for y, shape, axis in [
        (nn.layer_norm(x, (3, 5)), (4, 6, 15), 2),
        (nn.instance_norm(x), (4, 6, 15), 2),
        (nn.group_norm(x, 2), (4, 2, 45), 2),
        (nn.batch_norm(x, training=True), (4, 6, 15), (0, 2)),
    ]:
        parts = y.numpy().reshape(shape)
        np.testing.assert_allclose(parts.mean(axis), 0, atol=1e-12)
        np.testing.assert_allclose(parts.std(axis), 1, atol=1e-4)
    y = nn.layer_norm(x, 5, weight=np.full(5, 2.0), bias=np.full(5, 1.0))
    np.testing.assert_allclose(y, nn.layer_norm(x, 5) * 2.0 + 1.0, rtol=1e-12)
    with pytest.raises(ShapeError):
        nn.layer_norm(x, 4)
    with pytest.raises(ShapeError):
        nn.group_norm(x, 4)


def test_batch_norm_moves_running_statistics_without_a_gradient() -> None:
    x = tensor(normal(4, 3, 5))
    mean, var = tensor(np.zeros(3)), tensor(np.ones(3))
    y, new_mean, new_var = nn.batch_norm(x, mean, var, training=True, momentum=0.8, inplace=False)
    np.testing.assert_allclose(new_mean, 0.2 * x.numpy().mean((0, 2)), rtol=1e-12)
    np.testing.assert_allclose(new_var, 0.8 + 0.2 * x.numpy().var((0, 2), ddof=1), rtol=1e-9)
    np.testing.assert_array_equal(mean, 0)
    found: list[Any] = []
    with Grad() as g:
        g.wrt(x, callback=found.append)
        again = nn.batch_norm(x, mean, var, training=True, momentum=0.8, eps=0.0)
        g(ops.sum(mean * 1.0) + ops.sum(again * again), tensor(np.array(1.0)))
    np.testing.assert_allclose(again, y, rtol=1e-4)
    np.testing.assert_allclose(mean, new_mean, rtol=1e-12)
    np.testing.assert_allclose(found[0], 0, atol=1e-12)  # the sum of squares of normalised data is constant
    y = nn.batch_norm(x, new_mean, new_var, eps=0.0)
    shaped = [s.numpy()[:, None] for s in (new_mean, new_var)]
    np.testing.assert_allclose(y, (x.numpy() - shaped[0]) / np.sqrt(shaped[1]), rtol=1e-12)
    with pytest.raises(OperatorError):
        nn.batch_norm(x)


def test_local_response_is_divided_by_its_neighbours() -> None:
    x = normal(2, 5, 3)
    padded = np.pad(x, [(0, 0), (1, 1), (0, 0)]) ** 2
    total = padded[:, :-2] + padded[:, 1:-1] + padded[:, 2:]
    wanted = x / (2 + 0.5 * total) ** 0.75
    np.testing.assert_allclose(nn.local_response_norm(x, 3, alpha=0.5), wanted, rtol=1e-12)


def test_dropout_keeps_the_expectation_and_needs_a_source() -> None:
    x = tensor(np.ones(10_000, "float32"))
    y = nn.dropout(x, 0.25, np.random.default_rng(0))
    assert y.dtype == np.float32 and set(np.unique(y.numpy())) == {0, np.float32(1 / 0.75)}
    assert abs(y.numpy().mean() - 1) < 0.02
    np.testing.assert_array_equal(grad(lambda x: ops.sum(nn.dropout(x, 0.25, np.random.default_rng(0))))(x), y)
    np.testing.assert_array_equal(nn.dropout(x, 0.25, training=False), x)
    np.testing.assert_array_equal(nn.dropout(x, 1.0, np.random.default_rng(0)), 0)
    with pytest.raises(OperatorError, match="rng"):
        nn.dropout(x)


def test_one_hot_and_embedding() -> None:
    np.testing.assert_array_equal(nn.one_hot(np.array([0, 2, 5, -1]), 3), [[1, 0, 0], [0, 0, 1], [0, 0, 0], [0, 0, 0]])
    assert nn.one_hot(np.array([[0, 1]]), 3, axis=0).shape == (3, 1, 2)
    got = grad(lambda w: ops.sum(nn.embedding(np.array([1, 1, 0]), w)))(tensor(np.ones((3, 2))))
    np.testing.assert_array_equal(got, [[1, 1], [2, 2], [0, 0]])
    for function in (lambda: nn.one_hot(np.ones(2), 3), lambda: nn.embedding(np.ones(2), np.ones((3, 2)))):
        with pytest.raises(DTypeError):
            function()
    with pytest.raises(IndexOutOfRangeError):
        nn.embedding(np.array([3]), np.ones((3, 2)))


def test_interpolation_reads_between_the_pixels() -> None:
    x = normal(1, 2, 3, 4)
    corners = nn.interpolate(x, (5, 7), align_corners=True).numpy()
    np.testing.assert_allclose(corners[..., ::2, ::2], x, atol=1e-12)
    np.testing.assert_allclose(corners[..., 1, 0], (x[..., 0, 0] + x[..., 1, 0]) / 2, rtol=1e-12)
    double = nn.interpolate(x, scale_factor=2).numpy()
    assert double.shape == (1, 2, 6, 8)
    np.testing.assert_allclose(double[..., 0, 0], x[..., 0, 0], rtol=1e-12)
    np.testing.assert_allclose(double[..., 0, 1], 0.75 * x[..., 0, 0] + 0.25 * x[..., 0, 1], rtol=1e-12)
    np.testing.assert_array_equal(nn.interpolate(x, (6, 8), mode="nearest"), x.repeat(2, 2).repeat(2, 3))
    total = grad(lambda x: ops.sum(nn.interpolate(x, (5, 3))))(tensor(x))
    assert np.isclose(ops.sum(total).item(), 2 * 5 * 3)
    for options, error in [({}, OperatorError), ({"size": 3, "mode": "cubic"}, OperatorError),
                           ({"size": 3, "mode": "linear"}, ShapeError)]:  # fmt: skip
        with pytest.raises(error):
            nn.interpolate(x, **options)


def test_windows_slide_and_add_back() -> None:
    x = np.arange(16.0).reshape(4, 4)
    windows = nn.sliding_window(x, 2, stride=2)
    np.testing.assert_array_equal(windows[1, 0], [[8, 9], [12, 13]])
    np.testing.assert_array_equal(nn.sliding_window_transpose(windows, 4, 2, stride=2), x)
    assert nn.sliding_window(x, (3,), padding=1, dilation=2).shape == (4, 2, 3)


def test_recurrent_cells_are_what_their_formulas_say() -> None:
    x, h, c = normal(2, 3), normal(2, 4), normal(2, 4)
    sigmoid = scipy.special.expit

    def weights(n: int) -> tuple[Any, ...]:
        return normal(4 * n, 3), normal(4 * n, 4), normal(4 * n), normal(4 * n)

    w, u, a, b = weights(1)
    np.testing.assert_allclose(nn.rnn_cell(x, h, w, u, a, b), np.tanh(x @ w.T + a + h @ u.T + b), rtol=1e-12)
    w, u, a, b = weights(4)
    i, f, g, o = np.split(x @ w.T + a + h @ u.T + b, 4, 1)
    new_c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    got_h, got_c = nn.lstm_cell(x, (h, c), w, u, a, b)
    np.testing.assert_allclose(got_c, new_c, rtol=1e-12)
    np.testing.assert_allclose(got_h, sigmoid(o) * np.tanh(new_c), rtol=1e-12)
    w, u, a, b = weights(3)
    (r, z, n), (rh, zh, nh) = np.split(x @ w.T + a, 3, 1), np.split(h @ u.T + b, 3, 1)
    r, z = sigmoid(r + rh), sigmoid(z + zh)
    wanted = (1 - z) * np.tanh(n + r * nh) + z * h
    np.testing.assert_allclose(nn.gru_cell(x, h, w, u, a, b), wanted, rtol=1e-12)


def test_losses_are_what_their_formulas_say() -> None:
    pred, label = normal(3, 4), normal(3, 4)
    np.testing.assert_allclose(nn.mse_loss(pred, label), np.mean((pred - label) ** 2))
    np.testing.assert_allclose(nn.l1_loss(pred, label, "sum"), np.sum(np.abs(pred - label)))
    np.testing.assert_allclose(nn.huber_loss(pred, label, 0.5), np.mean(scipy.special.huber(0.5, pred - label)))
    signs = np.sign(label)
    np.testing.assert_allclose(
        nn.hinge_loss(pred, signs, "L2"), np.mean(np.sum(np.maximum(1 - pred * signs, 0) ** 2, 1))
    )
    p, q = scipy.special.softmax(pred, 1), scipy.special.softmax(label, 1)
    p[0, 0] = 0.0
    np.testing.assert_allclose(nn.kl_div(np.log(q), p, "none"), scipy.special.rel_entr(p, q), atol=1e-12)
    with pytest.raises(ShapeError):
        nn.mse_loss(pred, label[0])


def network(p: Any, x: Any) -> Any:
    """Logits of a small convolutional network for images of shape (channels, height, width) or a batch of them."""
    x = x if x.ndim == 4 else ops.expand_dims(x, axis=0)
    x = nn.gelu(nn.conv2d(x, p["filter"], p["bias"], padding=1))
    x = nn.max_pool2d(nn.group_norm(x, 2), 2)
    return nn.linear(ops.reshape(x, (x.shape[0], -1)), p["weight"])


def loss(p: Any, x: Any, label: Any) -> Any:
    return nn.cross_entropy(network(p, x), ops.reshape(label, (-1,)))


def test_gradients_of_each_example_of_a_network_at_once_are_those_one_by_one() -> None:
    p = {"filter": tensor(normal(4, 2, 3, 3)), "bias": tensor(normal(4)), "weight": tensor(normal(3, 16))}
    x, label = tensor(normal(5, 2, 4, 4)), tensor(np.array([0, 2, 1, 1, 0]))
    at_once = vmap(grad(loss), in_axes=(None, 0, 0))(p, x, label)
    whole = grad(loss)(p, x, label)
    for name in p:
        for i in range(5):
            np.testing.assert_allclose(at_once[name][i], grad(loss)(p, x[i], label[i])[name], atol=1e-10)
        np.testing.assert_allclose(at_once[name].numpy().mean(0), whole[name], atol=1e-10)


def test_a_hessian_of_a_network_times_a_vector_is_the_change_of_its_gradient() -> None:
    p = {"filter": tensor(normal(4, 2, 3, 3)), "bias": tensor(normal(4)), "weight": tensor(normal(3, 16))}
    v = {name: tensor(normal(*w.shape)) for name, w in p.items()}
    x, label = tensor(normal(5, 2, 4, 4)), tensor(np.array([0, 2, 1, 1, 0]))

    def gradient(p: Any) -> Any:
        return grad(loss)(p, x, label)

    forward = jvp(gradient, (p,), (v,))[1]
    reverse = grad(lambda p: sum(ops.sum(g * v[name]) for name, g in gradient(p).items()))(p)
    near = [gradient({name: w + h * v[name] for name, w in p.items()}) for h in (1e-5, -1e-5)]
    for name in p:
        wanted = (near[0][name].numpy() - near[1][name].numpy()) / 2e-5
        np.testing.assert_allclose(forward[name], wanted, atol=1e-6)
        np.testing.assert_allclose(reverse[name], wanted, atol=1e-6)
