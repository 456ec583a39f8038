"""Element-wise operators: one class, one table row each.

A row holds the numpy kernel and the partial derivative by each input; inference, evaluation, gradient, tangent
and batching of every mode follow from it, here. Rows stand beside their public functions, in `arithmetic.py`,
`exponential.py`, `trigonometric.py`, `comparison.py`, `activation.py` and others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Union

import attrs
import numpy as np

from interp import DTypeError, OpDef, OperatorError, ShapeError, Spec, apply, rules
from interp.dtypes import DType, default_dtype, dtype_of_scalar, is_floating, promote, real_counterpart

__all__ = ["ROWS", "Elemwise", "Row", "row"]

Partial = Union[Callable[..., Any], int, None]
ndarray = np.ndarray
_BOOL = np.dtype(np.bool_)
_FLOAT32 = np.dtype(np.float32)


@attrs.frozen
class Row:
    """What is known of one element-wise mode.

    `kernel` takes arrays of one dtype. `partials` has, for each input, the partial derivative as a function of
    the inputs and the output, written with public functions; or 1 or -1; or None where there is no gradient.
    `result` says how the dtype follows: "same" (the operands' common dtype), "float" (the same, integers
    becoming the default dtype first), "bool" (compares), "real" (the same, the real counterpart of complex).
    `kinds` lists the numpy kinds of common dtype taken. `singular` marks partials that can be infinite or NaN: they are
    multiplied so that a zero cotangent gives a zero gradient. So many leading inputs as `conditions` says are booleans,
    which take no part in promotion. `takes_numbers`: the kernel takes a Python number beside an array, weakly, as
    numpy's own functions do. `vjp(*inputs, output, cotangent)` and `jvp(*inputs, output, *tangents)` replace
    what would follow from the partials.
    """

    mode: str
    kernel: Callable[..., Any]
    arity: int
    partials: tuple[Partial, ...]
    result: str = "same"
    kinds: str = "biufc"
    singular: bool = False
    conditions: int = 0
    vjp: Callable[..., Any] | None = None
    jvp: Callable[..., Any] | None = None
    takes_numbers: bool = False


ROWS: dict[str, Row] = {}


@attrs.frozen
class Elemwise(OpDef):
    """Apply the element-wise function `mode` (a key of `ROWS`), broadcasting the inputs."""

    checks_first: ClassVar[bool] = False
    keeps_weak: ClassVar[bool] = True
    mode: str

    @property
    def row(self) -> Row:
        """The table row of the mode. Raises OperatorError for a mode that does not exist."""
        try:
            return ROWS[self.mode]
        except KeyError:
            raise OperatorError(f"Elemwise has no mode {self.mode!r}; see ops.elemwise.ROWS") from None


def row(
    mode: str,
    kernel: Callable[..., Any],
    partials: Sequence[Partial],
    result: str = "same",
    kinds: str = "biufc",
    singular: bool = False,
    conditions: int = 0,
    vjp: Callable[..., Any] | None = None,
    jvp: Callable[..., Any] | None = None,
    takes_numbers: bool = False,
) -> Elemwise:
    """Add a mode to the table and return its operator. Raises OperatorError when the mode exists."""
    if mode in ROWS:
        raise OperatorError(f"Elemwise mode {mode} exists already")
    takes_numbers = takes_numbers or (isinstance(kernel, np.ufunc) and len(partials) == 2)
    ROWS[mode] = Row(
        mode, kernel, len(partials), tuple(partials), result, kinds, singular, conditions, vjp, jvp, takes_numbers
    )
    op = Elemwise(mode)
    setattr(Elemwise, mode, op)
    return op


# Inference.


def broadcast(shapes: Sequence[tuple[int, ...]], op: Any) -> tuple[int, ...]:
    """The shape that shapes broadcast to.

    Where one of the shapes is the answer for all inputs of their ranks and equalities, that very tuple is
    returned: recorded rules then know two shapes to be one, whatever its lengths. Raises ShapeError.
    """
    first = shapes[0]
    for shape in shapes[1:]:
        if shape is first or shape == ():
            continue
        if first == ():
            first = shape
            continue
        try:
            first = np.broadcast_shapes(first, shape)
        except ValueError:
            listed = ", ".join(map(str, shapes))
            raise ShapeError(f"{op!r}: shapes {listed} do not broadcast together") from None
    return first


def result_dtype(row: Row, operands: Sequence[tuple[DType, bool]], op: Any) -> tuple[DType, DType, bool]:
    """The dtype to compute in, the dtype of the result, and whether that is weak. Raises DTypeError."""
    for dtype, _ in operands[: row.conditions]:
        if dtype != _BOOL:
            raise DTypeError(f"{op!r} takes a boolean condition, not {dtype}")
    operands = operands[row.conditions :]
    dtype, weak = promote(list(operands))
    if dtype.kind not in row.kinds:
        taken = ", ".join(_KINDS[kind] for kind in row.kinds)
        raise DTypeError(f"{op!r} takes {taken}; it was given {', '.join(str(d) for d, _ in operands)}")
    weak = weak and not row.conditions
    if row.result == "bool":
        return dtype, _BOOL, False
    if row.result == "float" and dtype.kind in "biu":
        dtype = default_dtype()
    return dtype, real_counterpart(dtype) if row.result == "real" else dtype, weak


_KINDS = {"b": "bool", "i": "signed integers", "u": "unsigned integers", "f": "floats", "c": "complex numbers"}


@rules.infer.register(Elemwise)
def infer_elemwise(op: Elemwise, *specs: Spec) -> Spec:
    entry = op.row
    if len(specs) != entry.arity:
        raise OperatorError(f"{op!r} takes {entry.arity} inputs, not {len(specs)}")
    _, dtype, weak = result_dtype(entry, [(spec.dtype, spec.weak) for spec in specs], op)
    return Spec(broadcast([spec.shape for spec in specs], op), dtype, weak)


# Evaluation. The common cases (arrays of one dtype, an array with a Python scalar) go straight to numpy.

# The dtypes (by numpy's characters) whose results need no cast. Half precision is not among them: scipy has no loops
# for it and gives wider results.
_CHARS = {"b": "?", "i": "bhilqp", "u": "BHILQP", "f": "fdg", "c": "FDG"}


@rules.kernel.register(Elemwise, per_operator=True)
def kernel_elemwise(op: Elemwise) -> Callable[..., Any]:
    entry = op.row
    kinds = [kind for kind in entry.kinds if entry.result != "float" or kind in "fc"]
    direct = "".join(_CHARS[kind] for kind in kinds)
    if entry.conditions:
        return lambda *arrays: _general(op, entry, arrays)
    if entry.arity == 1:
        return _unary(op, entry, direct)
    if entry.arity == 2:
        return _binary(op, entry, direct)
    return lambda *arrays: _general(op, entry, arrays)


def _unary(op: Elemwise, entry: Row, direct: str) -> Callable[..., Any]:
    function = entry.kernel

    def evaluate(x: Any) -> Any:
        if (type(x) is ndarray or isinstance(x, np.generic)) and x.dtype.char in direct:
            return function(x)
        return _general(op, entry, (x,))

    return evaluate


def _binary(op: Elemwise, entry: Row, direct: str) -> Callable[..., Any]:
    function = entry.kernel
    weakly = entry.takes_numbers and "f" in direct
    quick = _FLOAT32 if "f" in direct else None

    def evaluate(x: Any, y: Any) -> Any:
        try:
            dtype = x.dtype
            if dtype is y.dtype and (dtype is quick or dtype.char in direct):
                return function(x, y)
        except AttributeError:  # a Python number beside an array that decides the dtype
            if weakly and type(x) is ndarray and (type(y) is float or type(y) is int) and x.dtype.kind == "f":
                return function(x, y)
            if weakly and type(y) is ndarray and (type(x) is float or type(x) is int) and y.dtype.kind == "f":
                return function(x, y)
        return _general(op, entry, (x, y))

    return evaluate


def _general(op: Elemwise, entry: Row, arrays: tuple[Any, ...]) -> Any:
    if len(arrays) != entry.arity:
        raise OperatorError(f"{op!r} takes {entry.arity} inputs, not {len(arrays)}")
    operands = [
        (x.dtype, False) if isinstance(x, (ndarray, np.generic)) else (dtype_of_scalar(x), True) for x in arrays
    ]
    common, dtype, weak = result_dtype(entry, operands, op)
    broadcast([np.shape(x) for x in arrays], op)
    if weak:  # Python scalars alone: computed in double precision, as Python would
        wide = np.dtype({"f": "float64", "c": "complex128", "b": "bool"}.get(common.kind, "int64"))
        return entry.kernel(*[np.asarray(x, wide) for x in arrays]).item()
    n = entry.conditions
    if entry.result == "bool" and common.kind in "iu" and entry.takes_numbers:
        return entry.kernel(*arrays)  # numpy compares with a Python integer that the array's dtype could not hold
    cast = [_in_dtype(op, x, common) for x in arrays[n:]]
    result = entry.kernel(*arrays[:n], *cast)
    return result if result.dtype == dtype else result.astype(dtype)


def _in_dtype(op: Elemwise, x: Any, dtype: DType) -> Any:
    """An operand in the dtype to compute in. Raises DTypeError for a Python integer that it cannot hold."""
    if isinstance(x, (ndarray, np.generic)):
        return np.asarray(x).astype(dtype, copy=False)
    try:
        return np.asarray(x, dtype)
    except OverflowError:
        raise DTypeError(f"{op!r}: the Python integer {x} does not fit {dtype}; cast the array first") from None


# Derivatives, from the partials of the row.


def _scaled(entry: Row, change: Any, partial: Partial, inputs: Sequence[Any], output: Any) -> Any:
    """A cotangent or tangent times one partial derivative."""
    from .arithmetic import multiply, negative, safe_multiply

    if partial == 1:
        return change
    if partial == -1:
        return negative(change)
    assert callable(partial)
    factor = partial(*inputs, output)
    return safe_multiply(change, factor) if entry.singular else multiply(change, factor)


@rules.vjp.register(Elemwise)
def vjp_elemwise(op: Elemwise, inputs: Sequence[Any], outputs: Sequence[Any], cotangents: Sequence[Any]) -> Any:
    from .broadcasting import like

    entry = op.row
    if entry.vjp is not None:
        changes = entry.vjp(*inputs, outputs[0], cotangents[0])
        return [None if d is None else like(d, x) for d, x in zip(changes, inputs, strict=True)]
    gradients: list[Any] = []
    for partial, x in zip(entry.partials, inputs, strict=True):
        if partial is None or not is_floating(x.dtype):
            gradients.append(None)
        else:
            gradients.append(like(_scaled(entry, cotangents[0], partial, inputs, outputs[0]), x))
    return gradients


@rules.jvp.register(Elemwise)
def jvp_elemwise(op: Elemwise, inputs: Sequence[Any], outputs: Sequence[Any], tangents: Sequence[Any]) -> Any:
    from .arithmetic import add
    from .broadcasting import spread

    entry = op.row
    if entry.jvp is not None:
        return [entry.jvp(*inputs, outputs[0], *tangents)]
    total = None
    for partial, tangent in zip(entry.partials, tangents, strict=True):
        if partial is None or tangent is None:
            continue
        term = _scaled(entry, tangent, partial, inputs, outputs[0])
        total = term if total is None else add(total, term)
    return [None if total is None else spread(total, outputs[0])]


@rules.batch.register(Elemwise)
def batch_elemwise(op: Elemwise, size: int, inputs: Sequence[Any], axes: Sequence[Any]) -> Any:
    from .broadcasting import batch_to_front

    ndim = max(x.ndim - (axis is not None) for x, axis in zip(inputs, axes, strict=True))
    aligned = [batch_to_front(x, axis, ndim) for x, axis in zip(inputs, axes, strict=True)]
    return list(apply(op, *aligned)), [0]
