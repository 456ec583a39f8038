"""numpy's functions on Tensors compute through operators, or say that they do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ops
from interp import Tensor, tensor
from ops.array_protocols import _FUNCTIONS, _UFUNCS, _counterpart
from transformations import grad

RNG = np.random.default_rng(0)
X = RNG.uniform(0.1, 0.9, (3, 4))
Y = RNG.uniform(0.1, 0.9, (3, 4))
SQUARE = X @ X.T + np.eye(3)

UFUNCS = [
    np.add, np.subtract, np.multiply, np.divide, np.power, np.arctan2, np.hypot, np.maximum, np.minimum, np.greater,
    np.equal, np.logaddexp, np.copysign, np.floor_divide, np.remainder,
]  # fmt: skip
UNARY = [
    np.sin, np.arccos, np.exp, np.log, np.sqrt, np.absolute, np.negative, np.floor, np.rint, np.tanh, np.isnan,
    np.conjugate, np.square, np.reciprocal, np.expm1, np.log1p, np.sign, np.positive, np.signbit, np.logical_not,
]  # fmt: skip


@pytest.mark.parametrize("ufunc", UNARY + UFUNCS, ids=lambda f: f.__name__)
def test_ufuncs_compute_here(ufunc: Any) -> None:
    args = (X,) if ufunc.nin == 1 else (X, Y)
    got = ufunc(*[tensor(x) for x in args])
    assert isinstance(got, Tensor)
    np.testing.assert_allclose(got.numpy(), ufunc(*args), rtol=1e-12)
    if ufunc.nin == 2:
        np.testing.assert_allclose(ufunc(X, tensor(Y)).numpy(), ufunc(X, Y), rtol=1e-12)


def test_every_row_has_a_counterpart() -> None:
    for path, (target, _) in _FUNCTIONS.items():
        assert not isinstance(target, str) or _counterpart(target), path
        found = {"linalg": np.linalg, "fft": np.fft}.get(path.partition(".")[0], np) if "." in path else np
        assert callable(getattr(found, path.rsplit(".", 1)[-1])), path
    for name, target in _UFUNCS.items():
        assert _counterpart(target), name
        assert isinstance(getattr(np, name), np.ufunc)


FUNCTIONS: list[tuple[str, Any]] = [
    ("sum", lambda x, y: np.sum(x, axis=0)),
    ("sum of all", lambda x, y: np.sum(a=x)),
    ("mean", lambda x, y: np.mean(x, 1, keepdims=True)),
    ("std", lambda x, y: np.std(x, axis=1, ddof=1)),
    ("max", lambda x, y: np.max(x, axis=1)),
    ("argmax", lambda x, y: np.argmax(x, axis=1)),
    ("cumsum", lambda x, y: np.cumsum(x, 1)),
    ("concatenate", lambda x, y: np.concatenate([x, y], axis=1)),
    ("concatenate flat", lambda x, y: np.concatenate((x, y), None)),
    ("stack", lambda x, y: np.stack([x, y], -1)),
    ("vstack", lambda x, y: np.vstack([x, y[0]])),
    ("hstack", lambda x, y: np.hstack([x[0], y[0]])),
    ("split", lambda x, y: np.split(x, 2, axis=1)[1]),
    ("reshape", lambda x, y: np.reshape(x, (4, 3))),
    ("ravel", lambda x, y: np.ravel(x)),
    ("transpose", lambda x, y: np.transpose(x)),
    ("moveaxis", lambda x, y: np.moveaxis(x, 0, 1)),
    ("expand_dims", lambda x, y: np.expand_dims(x, 1)),
    ("squeeze", lambda x, y: np.squeeze(x[:1])),
    ("flip", lambda x, y: np.flip(x, 1)),
    ("roll", lambda x, y: np.roll(x, 1, 0)),
    ("tile", lambda x, y: np.tile(x, 2)),
    ("repeat", lambda x, y: np.repeat(x, 2, axis=0)),
    ("pad", lambda x, y: np.pad(x, 1)),
    ("broadcast_to", lambda x, y: np.broadcast_to(x, (2, 3, 4))),
    ("where", lambda x, y: np.where(x > y, x, y)),
    ("nonzero", lambda x, y: np.where(x > y)[0]),
    ("sort", lambda x, y: np.sort(x, 0)),
    ("argsort", lambda x, y: np.argsort(x)),
    ("take", lambda x, y: np.take(x, [0, 2], axis=1)),
    ("take_along_axis", lambda x, y: np.take_along_axis(x, np.argsort(y, 1), 1)),
    ("clip", lambda x, y: np.clip(x, 0.3, 0.6)),
    ("zeros_like", lambda x, y: np.zeros_like(x)),
    ("full_like", lambda x, y: np.full_like(x, 2)),
    ("dot", lambda x, y: np.dot(x, y.T)),
    ("matmul", lambda x, y: np.matmul(x, y.T)),
    ("array @ tensor", lambda x, y: X @ y.T),
    ("array + tensor", lambda x, y: X + y),
    ("array > tensor", lambda x, y: X > y),  # noqa: SIM300
    ("outer", lambda x, y: np.outer(x, y)),
    ("multiply.outer", lambda x, y: np.multiply.outer(x, y)),
    ("add.reduce", lambda x, y: np.add.reduce(x)),
    ("tensordot", lambda x, y: np.tensordot(x, y, axes=([0], [0]))),
    ("einsum", lambda x, y: np.einsum("ij,kj->ik", x, y)),
    ("trace", lambda x, y: np.trace(x)),
    ("diagonal", lambda x, y: np.diagonal(x, 1)),
    ("diag", lambda x, y: np.diag(x[0])),
    ("tril", lambda x, y: np.tril(x, -1)),
    ("norm", lambda x, y: np.linalg.norm(x)),
    ("norm along an axis", lambda x, y: np.linalg.norm(x, axis=1)),
    ("nuclear norm", lambda x, y: np.linalg.norm(x, "nuc")),
    ("inv", lambda x, y: np.linalg.inv(x @ x.T)),
    ("solve", lambda x, y: np.linalg.solve(x @ x.T, y)),
    ("svd", lambda x, y: np.linalg.svd(x, full_matrices=False)[1]),
    ("fft", lambda x, y: np.fft.fft(x, 3, axis=0)),
    ("rfftn", lambda x, y: np.fft.rfftn(x, norm="ortho")),
    ("irfft", lambda x, y: np.fft.irfft(x, n=5)),
    ("ihfft", lambda x, y: np.fft.ihfft(x, n=5)),
    ("fftshift", lambda x, y: np.fft.fftshift(x, axes=1)),
    ("round", lambda x, y: np.round(x)),
    ("unique", lambda x, y: np.unique(x)),
]


@pytest.mark.parametrize("function", [f for _, f in FUNCTIONS], ids=[name for name, _ in FUNCTIONS])
def test_functions_compute_here(function: Any) -> None:
    got = function(tensor(X), tensor(Y))
    assert isinstance(got, Tensor)
    wanted = function(X, Y)
    assert got.shape == np.shape(wanted)
    np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-9)


def test_numpy_code_is_differentiable() -> None:
    def f(x: Any) -> Any:
        return np.sum(np.concatenate([np.sin(x), X * x]) ** 2)

    wanted = 2 * np.sin(X) * np.cos(X) + 2 * X**3
    np.testing.assert_allclose(grad(f)(tensor(X)).numpy(), wanted, rtol=1e-9)


def test_shapes_are_answered_without_data() -> None:
    x = tensor(X)
    assert (np.shape(x), np.ndim(x), np.size(x), np.size(x, 0)) == ((3, 4), 2, 12, 3)
    assert np.result_type(x, np.float32) == np.float64
    assert np.array_equal(x, X)
    assert not np.array_equal(x, Y)


def test_what_has_no_counterpart_is_a_type_error() -> None:
    x = tensor(X)
    for call, text in [
        (lambda: np.add(x, 1, out=np.zeros((3, 4))), "out= is not supported"),
        (lambda: np.sin(x, where=X > 0), "where= is not supported"),
        (lambda: np.sum(x, out=np.zeros(())), "out= is not supported"),
        (lambda: np.concatenate([x, x], dtype="f4"), "dtype= is not supported"),
        (lambda: np.spacing(x), "numpy.spacing of a Tensor: there is no counterpart"),
        (lambda: np.interp(x, X, Y), "numpy.interp of a Tensor: there is no counterpart"),
        (lambda: np.add.accumulate(x), "numpy.add.accumulate"),
        (lambda: np.round(x, 2), "decimals="),
        (lambda: np.unique(x, return_index=True), "return_index="),
    ]:
        with pytest.raises(TypeError, match=text):
            call()
    with pytest.raises(TypeError, match="out="):
        array = X.copy()
        array += x


def test_the_namespace_is_ops() -> None:
    assert tensor(X).__array_namespace__() is ops
    assert tensor(X).__array_namespace__(api_version="2023.12") is ops
    with pytest.raises(ValueError, match="1999"):
        tensor(X).__array_namespace__(api_version="1999.01")


def test_data_is_exchanged_without_being_writable() -> None:
    x = tensor(X)
    shared = np.from_dlpack(x)
    np.testing.assert_array_equal(shared, X)
    assert not shared.flags.writeable
    assert np.shares_memory(shared, x.numpy())
    np.testing.assert_array_equal(ops.from_dlpack(x).numpy(), X)
    assert "dltensor" in repr(x.__dlpack__())
    with pytest.raises(BufferError):
        x.__dlpack__(copy=False)


def test_the_namespace_knows_its_dtypes_and_constants() -> None:
    info = ops.__array_namespace_info__()
    assert info.default_dtypes()["real floating"] == ops.float32
    assert set(info.dtypes(kind="signed integer")) == {"int8", "int16", "int32", "int64"}
    assert ops.result_type(tensor(X), ops.float32) == ops.float64
    assert ops.result_type(tensor(1.0), ops.float64) == ops.float64
    assert ops.finfo(tensor(X)).bits == 64
    assert ops.iinfo(ops.int8).max == 127
    assert ops.isdtype(ops.bool, "bool")
    assert not ops.can_cast(ops.int64, ops.int32)
    assert tensor(X)[ops.newaxis].shape == (1, 3, 4)
    assert (ops.pi, ops.inf) == (np.pi, np.inf)
