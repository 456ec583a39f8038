"""What layers are made of besides convolution: affine maps, tables of vectors, dropout, and recurrent cells."""

from __future__ import annotations

from typing import Any

import numpy as np

from interp import DTypeError, OperatorError, ShapeError, Tensor
from interp.dtypes import default_dtype, is_floating

from ..activation import relu, sigmoid
from ..arithmetic import add, multiply, subtract
from ..axes import as_handle
from ..casting import astype
from ..comparison import equal
from ..indexing import getitem
from ..joining import split
from ..manipulation import expand_dims
from ..matmul import matmul
from ..trigonometric import tanh

__all__ = ["dropout", "embedding", "gru_cell", "linear", "lstm_cell", "one_hot", "rnn_cell"]


def linear(x: Any, weight: Any, bias: Any = None) -> Tensor:
    """`x @ weight.T + bias`: `x` (..., features in), `weight` (features out, features in), `bias` (features out).

    Raises ShapeError, DTypeError.

    >>> import interp
    >>> linear(interp.tensor([1.0, 2.0]), interp.tensor([[1.0, 1.0]]), interp.tensor([0.5]))
    tensor([3.5])
    """
    y = matmul(x, weight, transpose_b=True)
    return y if bias is None else add(y, bias)


def embedding(indices: Any, weight: Any) -> Tensor:
    """The rows of `weight` (rows, ...) that integer `indices` of any shape name: (*indices.shape, ...).

    Raises IndexOutOfRangeError for a row that is not there, DTypeError for indices that are no integers.

    >>> import interp
    >>> embedding(interp.tensor([2, 0]), interp.tensor([[0.0], [1.0], [2.0]]))
    tensor([[2.],
            [0.]])
    """
    indices, weight = as_handle(indices), as_handle(weight)
    if indices.dtype.kind not in "iu":
        raise DTypeError(f"embedding: indices are integers, not {indices.dtype}")
    if weight.ndim < 1:
        raise ShapeError("embedding: weight is a table of rows, but has no axes")
    return getitem(weight, indices)


def one_hot(x: Any, num_classes: int, dtype: Any = None, axis: int = -1) -> Tensor:
    """Ones where a new axis `axis` of length `num_classes` counts up to the integers of `x`, zeros elsewhere.

    An integer outside of the classes gives zeros only. `dtype` is the default one unless given. No gradient.
    Raises DTypeError for what is no integer.

    >>> import interp
    >>> one_hot(interp.tensor([1, 0]), 3)
    tensor([[0., 1., 0.],
            [1., 0., 0.]])
    """
    x = as_handle(x)
    if x.dtype.kind not in "iu":
        raise DTypeError(f"one_hot: classes are integers, not {x.dtype}")
    spread = expand_dims(x, axis=axis)
    place = axis if axis >= 0 else axis + spread.ndim
    classes = np.arange(num_classes, dtype=x.dtype).reshape((-1,) + (1,) * (spread.ndim - 1 - place))
    return astype(equal(spread, classes), default_dtype() if dtype is None else dtype)


def dropout(x: Any, p: float = 0.5, rng: Any = None, training: bool = True, *, mask: Any = None) -> Tensor:
    """When training, zero each element of `x` with probability `p` and divide the others by `1 - p`; else `x`.

    Which elements stay says `mask`, booleans that broadcast to `x`, or else `rng`, a numpy Generator or anything with
    its `random(shape)`. There is no hidden source: Raises OperatorError where neither is given, or `p` is no
    probability. Source: Srivastava et al., "Dropout", 2014.

    >>> import interp
    >>> dropout(interp.tensor([1.0, 2.0]), 0.5, mask=interp.tensor([True, False]))
    tensor([2., 0.])
    """
    data = as_handle(x)
    if not 0.0 <= p <= 1.0:
        raise OperatorError(f"dropout: p is a probability, not {p!r}")
    if not training or p == 0.0:
        return data
    if mask is None:
        if rng is None:
            raise OperatorError("dropout needs a source of randomness: rng=numpy.random.default_rng(seed), or a mask")
        mask = rng.random(data.shape) >= p
    scale = 0.0 if p == 1.0 else 1.0 / (1.0 - p)
    dtype = data.dtype if is_floating(data.dtype) else default_dtype()
    return multiply(data, multiply(astype(mask, dtype), scale))


def rnn_cell(
    x: Any, h: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None, nonlinearity: str = "tanh"
) -> Tensor:
    """One step of a recurrent network: `tanh(x @ w_ih.T + b_ih + h @ w_hh.T + b_hh)`, or relu of it.

    `x` (batch, features), `h` (batch, hidden), `w_ih` (hidden, features), `w_hh` (hidden, hidden). Returns the new
    `h`. Raises OperatorError for another nonlinearity, ShapeError.
    """
    functions = {"tanh": tanh, "relu": relu}
    if nonlinearity not in functions:
        raise OperatorError(f"rnn_cell: nonlinearity is one of {', '.join(functions)}, not {nonlinearity!r}")
    return functions[nonlinearity](add(linear(x, w_ih, b_ih), linear(h, w_hh, b_hh)))


def lstm_cell(
    x: Any, state: tuple[Any, Any], w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None
) -> tuple[Tensor, Tensor]:
    """One step of a long short-term memory, from `state = (h, c)` to the new one.

    `x` (batch, features), `h` and `c` (batch, hidden); weights and biases have the input, forget, cell and output gates
    in this order along their first axis of 4 * hidden. Raises ShapeError.
    Source: Hochreiter and Schmidhuber, "Long short-term memory", 1997; forget gates: Gers et al., 2000.
    """
    h, c = state
    i, f, g, o = split(add(linear(x, w_ih, b_ih), linear(h, w_hh, b_hh)), 4, axis=-1)
    c = add(multiply(sigmoid(f), c), multiply(sigmoid(i), tanh(g)))
    return multiply(sigmoid(o), tanh(c)), c


def gru_cell(x: Any, h: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Tensor:
    """One step of a gated recurrent unit: `(1 - z) * n + z * h`, with gates of `x` and `h`. Returns the new `h`.

    Weights and biases have the reset, update and new gates in this order along their first axis of 3 * hidden.
    Raises ShapeError. Source: Cho et al., "Learning phrase representations", 2014.
    """
    r_x, z_x, n_x = split(linear(x, w_ih, b_ih), 3, axis=-1)
    r_h, z_h, n_h = split(linear(h, w_hh, b_hh), 3, axis=-1)
    r, z = sigmoid(add(r_x, r_h)), sigmoid(add(z_x, z_h))
    n = tanh(add(n_x, multiply(r, n_h)))
    return add(n, multiply(z, subtract(h, n)))
