"""Fourier transforms: numpy's values, and gradients that are those of the matrix of the transform."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ops
from interp import DTypeError, OperatorError, ShapeError, tensor
from transformations import grad, jacfwd, jvp, trace, vjp, vmap

RNG = np.random.default_rng(0)
Z = RNG.normal(size=(3, 4, 5)) + 1j * RNG.normal(size=(3, 4, 5))
NORMS = ("backward", "ortho", "forward")
REAL = ("rfft", "rfftn", "ihfft")


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("n", [None, 1, 3, 4, 7])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_transforms_of_one_axis_are_numpys(name: str, n: int | None, norm: str) -> None:
    x = Z.real if name in REAL else Z
    for axis in (0, -1):
        got = getattr(ops.fft, name)(tensor(x), n=n, axis=axis, norm=norm)
        wanted = getattr(np.fft, name)(x, n, axis, norm)
        assert got.dtype == wanted.dtype
        np.testing.assert_allclose(got.numpy(), wanted, atol=1e-12)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(("s", "axes"), [(None, None), (None, (0, 2)), ((2, 7), (2, 1)), ((-1, 6), (0, 1)), (None, (1,))])
@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn"])
def test_transforms_of_several_axes_are_numpys(name: str, s: Any, axes: Any, norm: str) -> None:
    x = Z.real if name in REAL else Z
    got = getattr(ops.fft, name)(tensor(x), s=s, axes=axes, norm=norm)
    if s is not None:  # numpy fills -1 in differently for the last axis of irfftn, of which there is none here
        s = tuple(x.shape[axis] if n == -1 else n for n, axis in zip(s, axes, strict=True))
    np.testing.assert_allclose(got.numpy(), getattr(np.fft, name)(x, s, axes, norm), atol=1e-12)


@pytest.mark.parametrize(("given", "spectrum"), [("float16", "complex64"), ("float32", "complex64"),
                                                 ("int32", "complex64"), ("float64", "complex128")])  # fmt: skip
def test_precision_stays(given: str, spectrum: str) -> None:
    x = tensor(np.arange(4), given)
    assert ops.fft.fft(x).dtype == ops.fft.rfft(x).dtype == spectrum
    assert ops.fft.irfft(x).dtype == ("float64" if given == "float64" else "float32")


def _pulled(f: Callable[[Any], Any], x: Any) -> tuple[Any, Any, Any]:
    """The gradient for a random cotangent; and the transpose of the Jacobian, column by column, times it."""
    y, pull = vjp(f, tensor(x))
    g = RNG.normal(size=y.shape) + (1j * RNG.normal(size=y.shape) if y.dtype.kind == "c" else 0)
    g = g.astype(y.dtype)
    got = pull(tensor(g))[0].numpy()
    wanted = np.zeros(x.shape, complex)
    for place in np.ndindex(x.shape):
        e = np.zeros(x.shape, x.dtype)
        e[place] = 1
        wanted[place] = np.sum(g * f(tensor(e)).numpy()).real if y.dtype.kind == "f" or x.dtype.kind == "f" else (
            np.sum(g * f(tensor(e)).numpy())
        )
        if x.dtype.kind == "c" and y.dtype.kind == "f":
            wanted[place] -= 1j * np.sum(g * f(tensor(1j * e)).numpy())
    return got, wanted, y


CALLS: list[tuple[str, dict[str, Any]]] = [
    *[(name, {"n": n, "norm": norm}) for name in ("fft", "ifft", "irfft", "hfft", "rfft", "ihfft")
      for n, norm in ((None, "ortho"), (2, "backward"), (5, "forward"), (6, "backward"))],
    *[(name, {"s": s, "axes": (0, 1)}) for name in ("fftn", "ifftn", "rfftn", "irfftn") for s in (None, (3, 4))],
]  # fmt: skip


@pytest.mark.parametrize(("name", "options"), CALLS, ids=[f"{name}-{options}" for name, options in CALLS])
def test_gradients_are_transposes(name: str, options: dict[str, Any]) -> None:
    for x in (Z[0, :2, :4].real,) if name in REAL else (Z[0, :2, :4], Z[0, :2, :4].real):
        got, wanted, _ = _pulled(lambda t: getattr(ops.fft, name)(t, **options), x)
        np.testing.assert_allclose(got, wanted if np.iscomplexobj(x) else wanted.real, atol=1e-12)


@pytest.mark.parametrize("name", ["fft", "rfft", "irfft", "ihfft", "hfft", "ifft"])
def test_every_layer_takes_them(name: str) -> None:
    x = tensor(Z[0].real)
    f = getattr(ops.fft, name)
    each = np.stack([f(row).numpy() for row in x])
    np.testing.assert_allclose(vmap(f)(x).numpy(), each, atol=1e-12)
    np.testing.assert_allclose(vmap(lambda t: f(t, axis=0), in_axes=1)(x).numpy(), f(x, axis=0).numpy().T, atol=1e-12)
    np.testing.assert_allclose(jvp(f, (x,), (x,))[1].numpy(), f(x).numpy(), atol=1e-12)
    traced = trace(f)
    for _ in range(2):
        np.testing.assert_allclose(traced(x).numpy(), f(x).numpy(), atol=1e-12)


def test_the_energy_of_a_signal_has_its_known_gradient_and_curvature() -> None:
    def energy(t: Any) -> Any:
        return ops.sum(ops.abs(ops.fft.fft(t, norm="ortho")) ** 2)

    x = tensor(Z[0, 0].real)
    np.testing.assert_allclose(grad(energy)(x).numpy(), 2 * x.numpy(), atol=1e-12)  # Parseval
    np.testing.assert_allclose(jacfwd(grad(energy))(x).numpy(), 2 * np.eye(5), atol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 5, 6])
def test_frequencies_are_numpys(n: int) -> None:
    np.testing.assert_allclose(ops.fft.fftfreq(n, d=0.5, dtype="float64").numpy(), np.fft.fftfreq(n, 0.5))
    np.testing.assert_allclose(ops.fft.rfftfreq(n, d=0.5, dtype="float64").numpy(), np.fft.rfftfreq(n, 0.5))
    assert ops.fft.fftfreq(n).dtype == ops.float32
    for axes in (None, 0, (0, 1)):
        x = RNG.normal(size=(n, 4))
        np.testing.assert_array_equal(ops.fft.fftshift(tensor(x), axes=axes).numpy(), np.fft.fftshift(x, axes))
        np.testing.assert_array_equal(ops.fft.ifftshift(tensor(x), axes=axes).numpy(), np.fft.ifftshift(x, axes))


def test_what_cannot_be_transformed_is_told() -> None:
    x = tensor(Z[0])
    for call, error, text in [
        (lambda: ops.fft.fft(x, n=0), ShapeError, "fft: n must be at least 1, not 0"),
        (lambda: ops.fft.fft(x, n=2.5), DTypeError, "fft: n must be an integer"),
        (lambda: ops.fft.fft(x, axis=2), ShapeError, "fft: axis 2 does not exist"),
        (lambda: ops.fft.fft(x, norm="unitary"), OperatorError, "fft: norm must be one of"),
        (lambda: ops.fft.ifft(ops.zeros((2, 0))), ShapeError, "ifft: at least one element"),
        (lambda: ops.fft.rfft(x), DTypeError, "rfft takes real numbers in x"),
        (lambda: ops.fft.fftn(x, s=(2,), axes=(0, 1)), ShapeError, r"fftn: s \(2,\) does not say a length"),
        (lambda: ops.fft.irfft(x[:, :1]), ShapeError, "irfft: axis 1 of shape .* holds no spectrum"),
        (lambda: ops.fft.rfftn(ops.real(x), axes=()), ShapeError, "rfftn: axes"),
        (lambda: ops.fft.fftfreq(0), ShapeError, "fftfreq: n must be at least 1"),
        (lambda: ops.fft.rfftfreq(3, d=0.0), OperatorError, "rfftfreq: the spacing d must not be zero"),
        (lambda: ops.fft.fftfreq(3, dtype="int32"), DTypeError, "fftfreq: dtype must be real floating, not int32"),
    ]:
        with pytest.raises(error, match=text):
            call()
