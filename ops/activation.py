"""Activation functions of neural networks, with MegEngine's fused modes and gradients as operators.

Their public functions are part of `ops.nn` (and `sigmoid` and `relu` of `ops`, for their use elsewhere).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.special

from interp import Tensor
from interp.tensor import call_one

from .arithmetic import divide, multiply, negative, square, subtract
from .comparison import SWITCH_GT0, where
from .elemwise import Elemwise, Partial, row
from .exponential import erfc, exp

__all__ = [
    "gelu", "hsigmoid", "hswish", "leaky_relu", "logsigmoid", "prelu", "relu", "relu6", "sigmoid", "silu", "softplus",
]  # fmt: skip

ROOT_HALF = float(np.sqrt(0.5))
BELL = float(1 / np.sqrt(2 * np.pi))


def _row(mode: str, kernel: Callable[..., Any], partials: Sequence[Partial]) -> Elemwise:
    """A row of a real function whose integers become floats first."""
    return row(mode, kernel, partials, result="float", kinds="biuf")


def _step(condition: Any, x: Any) -> Any:
    """1 where the condition holds, else 0, in the dtype of x."""
    from .casting import astype

    return astype(condition, x.dtype)


def _between(x: Any, low: float, high: float, inside: Any, above: Any = 0.0) -> Any:
    """`inside` for low < x < high, `above` from high on, 0 up to low."""
    return where(x <= low, 0.0, where(x >= high, above, inside))


# The functions in numpy, each from pieces that neither overflow nor cancel.


def _relu(x: Any) -> Any:
    return np.maximum(x, x.dtype.type(0))


def _relu6(x: Any) -> Any:
    return np.minimum(_relu(x), x.dtype.type(6))


def _hsigmoid(x: Any) -> Any:
    return _relu6(x + 3) / x.dtype.type(6)


def _softplus(x: Any) -> Any:
    return np.logaddexp(x, x.dtype.type(0))


def _logsigmoid(x: Any) -> Any:
    return -np.logaddexp(-x, x.dtype.type(0))


def _gelu(x: Any) -> Any:
    return x * scipy.special.ndtr(x)


def _silu(x: Any) -> Any:
    return x * scipy.special.expit(x)


# Derivatives, as programs.


def _bell(x: Any) -> Any:
    return multiply(exp(multiply(square(x), -0.5)), BELL)


def _gelu_slope(x: Any) -> Any:
    return multiply(erfc(multiply(x, -ROOT_HALF)), 0.5) + x * _bell(x)


def _gelu_curve(x: Any) -> Any:
    return _bell(x) * subtract(2.0, square(x))


def _silu_slope(x: Any) -> Any:
    s = sigmoid(x)
    return s + x * s * subtract(1.0, s)


def _silu_curve(x: Any) -> Any:
    s = sigmoid(x)
    return s * subtract(1.0, s) * (subtract(1.0, multiply(s, 2.0)) * x + 2.0)


def _hswish_slope(x: Any) -> Any:
    return _between(x, -3.0, 3.0, divide(x * 2.0 + 3.0, 6.0), 1.0)


def _sigmoid_slope(out: Any) -> Any:
    return out * subtract(1.0, out)


def _passed(x: Any, out: Any, change: Any) -> Any:
    """The change where the output is positive, else 0."""
    return call_one(SWITCH_GT0, out, change)


RELU = row(
    "RELU", _relu, [1], kinds="biuf",
    vjp=lambda x, out, g: [_passed(x, out, g)], jvp=_passed,
)  # fmt: skip
RELU6 = row("RELU6", _relu6, [lambda x, out: _between(x, 0.0, 6.0, 1.0)], kinds="iuf")
SIGMOID = _row("SIGMOID", scipy.special.expit, [lambda x, out: _sigmoid_slope(out)])
HSIGMOID = _row("HSIGMOID", _hsigmoid, [lambda x, out: _between(x, -3.0, 3.0, 1.0 / 6.0)])
H_SWISH = _row("H_SWISH", lambda x: x * _hsigmoid(x), [lambda x, out: _hswish_slope(x)])
SOFTPLUS = _row("SOFTPLUS", _softplus, [lambda x, out: sigmoid(x)])
LOGSIGMOID = _row("LOGSIGMOID", _logsigmoid, [lambda x, out: sigmoid(negative(x))])
SILU = _row("SILU", _silu, [lambda x, out: _silu_slope(x)])
GELU = _row("GELU", _gelu, [lambda x, out: _gelu_slope(x)])
PRELU = row(
    "PRELU",
    lambda x, w: np.where(x > 0, x, x * w),
    [lambda x, w, out: where(x > 0, 1.0, w), lambda x, w, out: where(x > 0, 0.0, x)],
    kinds="iuf",
)

# Gradients as operators of (input or output, gradient).
SIGMOID_GRAD = _row(
    "SIGMOID_GRAD",
    lambda y, dy: y * (1 - y) * dy,
    [lambda y, dy, out: subtract(1.0, multiply(y, 2.0)) * dy, lambda y, dy, out: _sigmoid_slope(y)]
)
RELU6_GRAD = _row(
    "RELU6_GRAD",
    lambda x, dy: np.where((x > 0) & (x < 6), dy, dy.dtype.type(0)),
    [None, lambda x, dy, out: _between(x, 0.0, 6.0, 1.0)]
)
HSIGMOID_GRAD = _row(
    "HSIGMOID_GRAD",
    lambda x, dy: np.where((x > -3) & (x < 3), dy / dy.dtype.type(6), dy.dtype.type(0)),
    [None, lambda x, dy, out: _between(x, -3.0, 3.0, 1.0 / 6.0)]
)
H_SWISH_GRAD = _row(
    "H_SWISH_GRAD",
    lambda x, dy: np.where(x <= -3, dy.dtype.type(0), np.where(x >= 3, dy, dy * (2 * x + 3) / dy.dtype.type(6))),
    [lambda x, dy, out: dy * _between(x, -3.0, 3.0, 1.0 / 3.0), lambda x, dy, out: _hswish_slope(x)]
)
SOFTPLUS_GRAD = _row(
    "SOFTPLUS_GRAD",
    lambda x, dy: dy * scipy.special.expit(x),
    [lambda x, dy, out: dy * _sigmoid_slope(sigmoid(x)), lambda x, dy, out: sigmoid(x)]
)
LOGSIGMOID_GRAD = _row(
    "LOGSIGMOID_GRAD",
    lambda x, dy: dy * scipy.special.expit(-x),
    [lambda x, dy, out: negative(dy * _sigmoid_slope(sigmoid(x))), lambda x, dy, out: sigmoid(negative(x))]
)


def _silu_grad(x: Any, dy: Any) -> Any:
    s = scipy.special.expit(x)
    return dy * s * (1 + x * (1 - s))


def _gelu_grad(x: Any, dy: Any) -> Any:
    bell = np.exp(x * x * x.dtype.type(-0.5)) * x.dtype.type(BELL)
    return dy * (scipy.special.ndtr(x) + x * bell)


SILU_GRAD = _row(
    "SILU_GRAD", _silu_grad, [lambda x, dy, out: dy * _silu_curve(x), lambda x, dy, out: _silu_slope(x)]
)
GELU_GRAD = _row(
    "GELU_GRAD", _gelu_grad, [lambda x, dy, out: dy * _gelu_curve(x), lambda x, dy, out: _gelu_slope(x)]
)
PRELU_GRAD = row(
    "PRELU_GRAD",
    lambda x, dy, w: np.where(x > 0, dy, dy * w),
    [None, lambda x, dy, w, out: where(x > 0, 1.0, w), lambda x, dy, w, out: where(x > 0, 0.0, dy)],
    kinds="iuf",
)


# A sum and an activation in one.
def _h_swish_of_sum(x: Any, y: Any) -> Any:
    total = x + y
    return total * _hsigmoid(total)


def _both(slope: Any) -> list[Any]:
    return [lambda x, y, out: slope(x, y, out), lambda x, y, out: slope(x, y, out)]


FUSE_ADD_RELU = row(
    "FUSE_ADD_RELU", lambda x, y: _relu(x + y), _both(lambda x, y, out: _step(out > 0, out)), kinds="biuf"
)
FUSE_ADD_SIGMOID = _row(
    "FUSE_ADD_SIGMOID",
    lambda x, y: scipy.special.expit(x + y),
    _both(lambda x, y, out: _sigmoid_slope(out))
)
FUSE_ADD_TANH = _row(
    "FUSE_ADD_TANH",
    lambda x, y: np.tanh(x + y),
    _both(lambda x, y, out: subtract(1.0, square(out)))
)
FUSE_ADD_H_SWISH = _row(
    "FUSE_ADD_H_SWISH", _h_swish_of_sum, _both(lambda x, y, out: _hswish_slope(x + y))
)


def relu(x: Any, /) -> Tensor:
    """max(x, 0); its gradient at 0 is 0.

    >>> relu(-1.0)
    tensor(0.)
    """
    return call_one(RELU, x)


def relu6(x: Any, /) -> Tensor:
    """min(max(x, 0), 6); its gradient at 0 and 6 is 0.

    >>> relu6(7.0)
    tensor(6.)
    """
    return call_one(RELU6, x)


def sigmoid(x: Any, /) -> Tensor:
    """1 / (1 + exp(-x)).

    >>> sigmoid(0.0)
    tensor(0.5)
    """
    return call_one(SIGMOID, x)


def hsigmoid(x: Any, /) -> Tensor:
    """relu6(x + 3) / 6.

    >>> hsigmoid(0.0)
    tensor(0.5)
    """
    return call_one(HSIGMOID, x)


def hswish(x: Any, /) -> Tensor:
    """x * relu6(x + 3) / 6.

    >>> hswish(3.0)
    tensor(3.)
    """
    return call_one(H_SWISH, x)


def softplus(x: Any, /) -> Tensor:
    """log(1 + exp(x)), stable at both ends.

    >>> softplus(100.0)
    tensor(100.)
    """
    return call_one(SOFTPLUS, x)


def logsigmoid(x: Any, /) -> Tensor:
    """log(sigmoid(x)), stable at both ends.

    >>> logsigmoid(-100.0)
    tensor(-100.)
    """
    return call_one(LOGSIGMOID, x)


def silu(x: Any, /) -> Tensor:
    """x * sigmoid(x).

    >>> silu(0.0)
    tensor(0.)
    """
    return call_one(SILU, x)


def gelu(x: Any, /) -> Tensor:
    """x times the normal distribution function of x (Hendrycks and Gimpel, 2016), exact.

    >>> gelu(0.0)
    tensor(0.)
    """
    return call_one(GELU, x)


def prelu(x: Any, weight: Any, /) -> Tensor:
    """x where it is positive, else weight * x.

    >>> prelu(-2.0, 0.25)
    tensor(-0.5)
    """
    return call_one(PRELU, x, weight)


def leaky_relu(x: Any, /, negative_slope: float = 0.01) -> Tensor:
    """x where it is positive, else negative_slope * x.

    >>> leaky_relu(-2.0, 0.5)
    tensor(-1.)
    """
    return call_one(PRELU, x, negative_slope)
