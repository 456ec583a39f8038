"""What the operators on stacks of square or oblong matrices share."""

from __future__ import annotations

from typing import Any

from interp import DTypeError, OpDef, ShapeError, Spec, Tensor
from interp.dtypes import default_dtype
from interp.tensor import call

from ..axes import Values, as_handle
from ..broadcasting import batch_to_front
from ..casting import astype
from ..manipulation import expand_dims

__all__ = ["as_floating", "batch_front", "check_matrix", "check_square", "columns", "rows", "shape_of_stack"]


def as_floating(x: Any) -> Tensor:
    """A Tensor of a floating dtype: integers become the default dtype."""
    handle = as_handle(x)
    return handle if handle.dtype.kind in "fc" else astype(handle, default_dtype())


def check_matrix(name: str, x: Spec, kinds: str = "fc") -> None:
    """Raise ShapeError unless `x` is a stack of matrices, DTypeError unless LAPACK knows its dtype."""
    if x.ndim < 2:
        raise ShapeError(f"{name} takes a stack of matrices, with at least two axes, not {x!r}")
    if x.dtype.kind not in kinds or x.dtype.itemsize < 4:
        wanted = "float32 or float64" + (" (or complex)" if "c" in kinds else "")
        raise DTypeError(f"{name} takes {wanted}, not {x!r}; cast it with ops.astype")


def check_square(name: str, x: Spec, kinds: str = "fc") -> None:
    """As `check_matrix`, and raise ShapeError unless the matrices are square."""
    check_matrix(name, x, kinds)
    if x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"{name} takes square matrices, not {x!r}")


def shape_of_stack(x: Spec) -> tuple[tuple[int, ...], int, int]:
    """The leading axes, the number of rows and the number of columns."""
    return x.shape[:-2], x.shape[-2], x.shape[-1]


def rows(x: Any) -> Tensor:
    """A stack of vectors as matrices of one row: what stretches to scale columns."""
    return expand_dims(x, axis=-2)


def columns(x: Any) -> Tensor:
    """A stack of vectors as matrices of one column: what stretches to scale rows."""
    return expand_dims(x, axis=-1)


def batch_front(op: OpDef, size: int, inputs: Values, axes: Values) -> Any:
    """The batch rule of an operator on one stack of matrices: the examples are further matrices."""
    outputs = call(op, batch_to_front(inputs[0], axes[0], 0))
    return list(outputs), [0] * len(outputs)
