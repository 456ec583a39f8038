"""New arrays: filled, counted up, spaced evenly, taken over from elsewhere."""

from __future__ import annotations

from typing import Any, ClassVar

import attrs
import numpy as np

from interp import DTypeError, OpDef, OperatorError, ShapeError, Spec, Tensor, read, rules, tensor
from interp.dtypes import DType, default_dtype, dtype_of_scalar
from interp.tensor import as_operand, call_one, from_value
from interp.value import dtype_of

from .arithmetic import add, multiply, subtract
from .axes import Values, as_handle, reused
from .broadcasting import broadcast_to, shape_operand, shape_value
from .casting import astype
from .manipulation import reshape

__all__ = [
    "Arange",
    "Eye",
    "Fill",
    "Linspace",
    "arange",
    "asarray",
    "empty",
    "empty_like",
    "eye",
    "from_dlpack",
    "full",
    "full_like",
    "linspace",
    "meshgrid",
    "ones",
    "ones_like",
    "zeros",
    "zeros_like",
]


def _dtype(value: Any) -> DType:
    dtype: DType = np.dtype(value)
    if dtype.kind not in "biufc":
        raise DTypeError(f"{dtype} is not numeric or boolean")
    return dtype


@attrs.frozen
class Fill(OpDef):
    """An array of the shape that is the input, every element of which is `value`. MegEngine's name."""

    checks_first: ClassVar[bool] = False
    value: complex
    dtype: DType = attrs.field(converter=_dtype)


make_fill = reused(Fill)


@attrs.frozen
class Arange(OpDef):
    """start, start + step, start + 2 * step and so on, below `stop`. No inputs."""

    start: float
    stop: float
    step: float
    dtype: DType = attrs.field(converter=_dtype)


@attrs.frozen
class Linspace(OpDef):
    """`num` numbers at one distance from `start` to `stop`, which is the last where `endpoint`. No inputs."""

    start: complex
    stop: complex
    num: int
    endpoint: bool
    dtype: DType = attrs.field(converter=_dtype)


@attrs.frozen
class Eye(OpDef):
    """A matrix with ones on the `k`-th diagonal, else zeros. No inputs."""

    rows: int
    columns: int
    k: int
    dtype: DType = attrs.field(converter=_dtype)


@rules.infer.register(Fill)
def _infer_fill(op: Fill, shape: Any) -> Spec:
    if any(n < 0 for n in shape):
        raise ShapeError(f"full: lengths must not be negative; the shape is {tuple(shape)}")
    return Spec(shape, op.dtype)


@rules.kernel.register(Fill)
def _kernel_fill(op: Fill, shape: Any) -> Any:
    return np.full(shape, op.value, op.dtype) if op.value else np.zeros(shape, op.dtype)


@rules.infer.register(Arange)
def _infer_arange(op: Arange) -> Spec:
    if not op.step:
        raise OperatorError("arange: step must not be zero")
    whole = all(isinstance(value, int) for value in (op.start, op.stop, op.step))
    count = -((op.start - op.stop) // op.step) if whole else np.ceil((op.stop - op.start) / op.step)
    return Spec((max(0, int(count)),), op.dtype)


@rules.kernel.register(Arange)
def _kernel_arange(op: Arange) -> Any:
    count = _infer_arange(op).shape[0]
    steps = np.arange(count, dtype="int64" if isinstance(op.step, int) else "float64")
    return (op.start + steps * op.step).astype(op.dtype)


@rules.infer.register(Linspace)
def _infer_linspace(op: Linspace) -> Spec:
    if op.num < 0:
        raise OperatorError(f"linspace: num must not be negative; it is {op.num}")
    return Spec((op.num,), op.dtype)


@rules.kernel.register(Linspace)
def _kernel_linspace(op: Linspace) -> Any:
    return np.linspace(op.start, op.stop, op.num, op.endpoint, dtype=op.dtype)


@rules.infer.register(Eye)
def _infer_eye(op: Eye) -> Spec:
    if op.rows < 0 or op.columns < 0:
        raise ShapeError(f"eye: lengths must not be negative; they are {op.rows} and {op.columns}")
    return Spec((op.rows, op.columns), op.dtype)


@rules.kernel.register(Eye)
def _kernel_eye(op: Eye) -> Any:
    return np.eye(op.rows, op.columns, op.k, op.dtype)


@rules.vjp.register(Fill, Arange, Linspace, Eye)
def _vjp(op: OpDef, inputs: Values, outputs: Values, cotangents: Values) -> Any:
    return [None] * len(inputs)


@rules.jvp.register(Fill, Arange, Linspace, Eye)
def _jvp(op: OpDef, inputs: Values, outputs: Values, tangents: Values) -> Any:
    return [None]


@rules.batch.register(Fill, Arange, Linspace, Eye)
def _batch(op: OpDef, size: int, inputs: Values, axes: Values) -> Any:
    return [call_one(op, *inputs)], [None]  # the same in every lane


# Filled arrays.


def _device(device: Any, function: str) -> None:
    if device not in (None, "cpu"):
        raise DTypeError(f'{function}: the only device is "cpu", not {device!r}')


def _filled(shape: Any, value: Any, dtype: Any, device: Any, function: str) -> Tensor:
    _device(device, function)
    make = make_fill if type(value) is int else Fill  # 0.0 and -0.0 are equal, but not the same
    return call_one(make(value, default_dtype() if dtype is None else dtype), shape_operand(shape))


def zeros(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """An array of zeros, of the default dtype unless `dtype` says otherwise. Raises ShapeError for negative lengths.

    >>> zeros((2, 1))
    tensor([[0.],
            [0.]])
    """
    return _filled(shape, 0, dtype, device, "zeros")


def ones(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """An array of ones, of the default dtype unless `dtype` says otherwise. Raises ShapeError for negative lengths."""
    return _filled(shape, 1, dtype, device, "ones")


def empty(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """An array whose elements nobody should rely on (they are zeros), otherwise as `zeros`."""
    return _filled(shape, 0, dtype, device, "empty")


def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """An array of one value: a Python number, whose dtype it takes unless `dtype` says otherwise, or a Tensor
    of one element, by which the result has a gradient.

    Raises ShapeError for negative lengths.

    >>> full((2,), 7)
    tensor([7, 7], dtype=int32)
    """
    value = as_operand(fill_value)
    if isinstance(value, (bool, int, float, complex)):
        return _filled(shape, value, dtype_of_scalar(value) if dtype is None else dtype, device, "full")
    _device(device, "full")
    return broadcast_to(value if dtype is None else astype(value, dtype), shape)


def full_like(x: Any, /, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """An array of one value with the shape of `x`, and its dtype unless `dtype` says otherwise.

    Nothing of `x` but that is needed: there is no gradient by it.

    >>> full_like([1.0, 2.0], 3)
    tensor([3., 3.])
    """
    x = as_operand(x)
    return full(shape_value(x), fill_value, dtype=dtype_of(x) if dtype is None else dtype, device=device)


def zeros_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Zeros with the shape of `x`, and its dtype unless `dtype` says otherwise."""
    return full_like(x, 0, dtype=dtype, device=device)


def ones_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Ones with the shape of `x`, and its dtype unless `dtype` says otherwise."""
    return full_like(x, 1, dtype=dtype, device=device)


def empty_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """An array whose elements nobody should rely on, otherwise as `zeros_like`."""
    return full_like(x, 0, dtype=dtype, device=device)


# Sequences and matrices.


def _number(value: Any) -> Any:
    """A Python number; of a Tensor or an array, its one element."""
    return value.item() if hasattr(value, "item") else value


def arange(
    start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None
) -> Tensor:
    """start, start + step, ... below `stop`; with one argument, from 0 below it.

    The dtype is int32 when all are ints, else the default dtype, unless `dtype` says otherwise. Raises OperatorError
    for a step of zero.

    >>> arange(3), arange(1.0, 2.0, 0.5)
    (tensor([0, 1, 2], dtype=int32), tensor([1. , 1.5]))
    """
    _device(device, "arange")
    start, stop, step = _number(start), _number(stop), _number(step)
    if stop is None:
        start, stop = 0, start
    if dtype is None:
        whole = all(isinstance(value, int) for value in (start, stop, step))
        widest = max((start, stop), key=abs) if whole else 0.0
        dtype = dtype_of_scalar(int(widest) if whole else 0.0)
    return call_one(Arange(start, stop, step, dtype))


def linspace(
    start: Any, stop: Any, /, num: int, *, dtype: Any = None, device: Any = None, endpoint: bool = True
) -> Tensor:
    """`num` numbers at one distance from `start` to `stop`, which is the last one where `endpoint`.

    The dtype is the default one unless `dtype` says otherwise. The ends may be Tensors without axes, by which the
    result has a gradient. Raises OperatorError for a negative `num`.

    >>> linspace(0.0, 1.0, 3)
    tensor([0. , 0.5, 1. ])
    """
    _device(device, "linspace")
    first, last = as_operand(start), as_operand(stop)
    if not isinstance(first, Tensor) and not isinstance(last, Tensor):
        first, last = _number(first), _number(last)
        if dtype is None:
            dtype = dtype_of_scalar(0j if isinstance(first, complex) or isinstance(last, complex) else 0.0)
        return call_one(Linspace(first, last, int(num), bool(endpoint), dtype))
    steps = call_one(Linspace(0.0, 1.0, int(num), bool(endpoint), default_dtype() if dtype is None else dtype))
    return add(multiply(first, subtract(1.0, steps)), multiply(last, steps))


def eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None
) -> Tensor:
    """A matrix with ones on its `k`-th diagonal and zeros elsewhere, square unless `n_cols` is given.

    Of the default dtype unless `dtype` says otherwise. Raises ShapeError for negative lengths.

    >>> eye(2)
    tensor([[1., 0.],
            [0., 1.]])
    """
    _device(device, "eye")
    columns = n_rows if n_cols is None else n_cols
    return call_one(Eye(int(n_rows), int(columns), int(k), default_dtype() if dtype is None else dtype))


def meshgrid(*arrays: Any, indexing: str = "xy") -> list[Tensor]:
    """Coordinates on a grid: each vector stretched along the axes of all others.

    "ij" gives the i-th vector the i-th axis; "xy" exchanges the first two. Raises ShapeError for what is no
    vector, OperatorError for another `indexing`.

    >>> [x.tolist() for x in meshgrid(arange(2), arange(3))]
    [[[0, 1], [0, 1], [0, 1]], [[0, 0], [1, 1], [2, 2]]]
    """
    if indexing not in ("xy", "ij"):
        raise OperatorError(f"""meshgrid: indexing is "xy" or "ij", not {indexing!r}""")
    handles = [reshape(x, (1,)) if not x.ndim else x for x in map(as_handle, arrays)]
    if any(x.ndim != 1 for x in handles):
        raise ShapeError(f"meshgrid takes vectors; the shapes are {', '.join(str(x.shape) for x in handles)}")
    order = list(range(len(handles)))
    if indexing == "xy" and len(order) > 1:
        order[:2] = [1, 0]
    shape = [0] * len(order)
    for place, x in zip(order, handles):
        shape[place] = x.shape[0]
    return [
        broadcast_to(reshape(x, [-1 if i == place else 1 for i in range(len(order))]), shape)
        for place, x in zip(order, handles)
    ]


# Taken over.


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None) -> Tensor:
    """A Tensor of a number, an array, a nested sequence or a Tensor, which stays itself when its dtype does.

    Python floats become the default dtype, ints int32. Raises DTypeError for what is not numeric, ShapeError for
    ragged sequences, OperatorError where `copy` is False and a copy is needed.

    >>> asarray([1.0, 2.0])
    tensor([1., 2.])
    """
    _device(device, "asarray")
    if copy is False and (not isinstance(obj, Tensor) or (dtype is not None and obj.dtype != np.dtype(dtype))):
        raise OperatorError("asarray: host data, and another dtype, cannot be had without a copy")
    if isinstance(obj, Tensor) and copy:
        obj = from_value(read(obj))
    if isinstance(obj, Tensor) and dtype is None:
        return obj
    return tensor(obj, dtype)


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A Tensor of the data of any array that speaks DLPack. Raises DTypeError for dtypes that numpy does not have."""
    _device(device, "from_dlpack")
    if isinstance(x, Tensor):
        return x
    try:
        return tensor(np.from_dlpack(x))
    except (BufferError, RuntimeError) as error:
        raise DTypeError(f"from_dlpack: {type(x).__name__} cannot be taken over: {error}") from error
