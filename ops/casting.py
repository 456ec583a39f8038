"""Changing the dtype of values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import attrs
import numpy as np

from interp import DTypeError, OpDef, Spec, Tensor, rules
from interp.dtypes import DType, is_floating
from interp.tensor import call_one, syntax

from .broadcasting import like

__all__ = ["TypeCvt", "astype"]


def _dtype(value: Any) -> DType:
    dtype = np.dtype(value)
    if dtype.kind not in "biufc":
        raise DTypeError(f"astype: {dtype} is not numeric or boolean")
    return dtype  # type: ignore[no-any-return]


@attrs.frozen
class TypeCvt(OpDef):
    """The input in another dtype. MegEngine's name."""

    checks_first: ClassVar[bool] = False

    dtype: DType = attrs.field(converter=_dtype)


@rules.infer.register(TypeCvt)
def _infer(op: TypeCvt, x: Spec) -> Spec:
    return Spec(x.shape, op.dtype)


@rules.kernel.register(TypeCvt)
def _kernel(op: TypeCvt, x: Any) -> Any:
    return (x.real if x.dtype.kind == "c" and op.dtype.kind != "c" else x).astype(op.dtype)


@rules.vjp.register(TypeCvt)
def _vjp(op: TypeCvt, inputs: Sequence[Any], outputs: Sequence[Any], cotangents: Sequence[Any]) -> Any:
    return [like(cotangents[0], inputs[0]) if is_floating(inputs[0].dtype) and is_floating(op.dtype) else None]


@rules.jvp.register(TypeCvt)
def _jvp(op: TypeCvt, inputs: Sequence[Any], outputs: Sequence[Any], tangents: Sequence[Any]) -> Any:
    return [astype(tangents[0], op.dtype) if is_floating(op.dtype) else None]


@rules.batch.register(TypeCvt)
def _batch(op: TypeCvt, size: int, inputs: Sequence[Any], axes: Sequence[Any]) -> Any:
    return [astype(inputs[0], op.dtype)], axes


def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """`x` in another dtype; a complex number loses its imaginary part when the dtype is real.

    Raises DTypeError for dtypes that are not numeric or boolean.

    >>> import interp
    >>> astype(interp.tensor([1.7, -1.7]), "int32")
    tensor([ 1, -1], dtype=int32)
    """
    return call_one(TypeCvt(dtype), x)


syntax.call["astype"] = astype
