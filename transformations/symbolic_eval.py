"""Shapes and dtypes without data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from interp import (
    CreateTensor,
    GetAttr,
    IsScalar,
    Segment,
    Spec,
    Tensor,
    TraceError,
    Transformation,
    Wrapper,
    apply,
    rules,
)
from interp.dtypes import DType
from interp.evaluate import infer
from interp.operator import Operator, OperatorKind
from interp.tensor import from_value
from interp.value import Scope, computed_from, spec_of

__all__ = ["SymbolTransformation", "SymbolicValue"]


class SymbolicValue(Wrapper):
    """A value of which only the Spec is known."""

    __slots__ = ("label", "spec")

    def __init__(self, scope: Scope, spec: Spec, label: str = "") -> None:
        self.scope = scope
        self.spec = spec
        self.label = label

    def flatten(self) -> tuple[Any, ...]:
        return ()

    def unflatten(self, leaves: tuple[Any, ...]) -> Wrapper:
        return self

    def unwrap(self) -> Any:
        return self

    def source(self) -> str:
        return self.label

    @property
    def shape(self) -> tuple[int, ...]:
        return self.spec.shape

    @property
    def dtype(self) -> DType:
        return self.spec.dtype

    @property
    def weak(self) -> bool:
        return self.spec.weak

    def symbolic_spec(self) -> Any:
        return self.spec

    def __repr__(self) -> str:
        return f"<{self.spec!r} without data>"


class SymbolTransformation(Transformation):
    """Answers every operator that has an input without data with what inference says of the result.

    `symbol(spec)` makes such an input. Reading data raises TraceError; `ops.eval_shape` is this for one function.

    >>> import interp, ops
    >>> with SymbolTransformation() as shapes:
    ...     x = shapes.symbol(interp.Spec((2, 3), "float32"))
    ...     print((x @ ops.ones((3, 5))).shape)
    (2, 5)
    """

    segment: ClassVar[Segment] = Segment.SYMBOL
    only_wrapped: ClassVar[type[Wrapper] | None] = SymbolicValue

    def symbol(self, spec: Spec, label: str = "") -> Tensor:
        """A Tensor of this layer with a shape and a dtype, and no data."""
        return from_value(self._value(spec, label))

    def _value(self, spec: Spec, label: str = "") -> SymbolicValue:
        assert self.scope is not None
        return SymbolicValue(self.scope, spec, label)

    def mine(self, value: Any) -> bool:
        """Whether `value` is one of this layer's."""
        return isinstance(value, SymbolicValue) and value.scope is self.scope

    def takes_program(self, op: Operator) -> bool:
        """Programs that can be inferred are one operator."""
        return type(op) in rules.infer

    def apply_transformation(self, op: Operator, inputs: Sequence[Any]) -> Sequence[Any]:
        if not any(self.mine(value) for value in inputs):
            return apply(op, *inputs)
        if op.computes:
            return [self._value(spec) for spec in infer(op, [spec_of(value) for value in inputs])]
        value = inputs[0]
        if isinstance(op, GetAttr):
            if op.attr is GetAttr.Attr.SHAPE:
                return (value.shape,)
            if op.attr is GetAttr.Attr.DTYPE:
                return (value.dtype,)
            if op.attr is GetAttr.Attr.DEVICE:
                return ("cpu",)
            what = "a Python branch on" if op.attr is GetAttr.Attr.TRUTH else "the data of"
            raise TraceError(
                f"{what} {value!r}{computed_from(value)} was asked for under {self.scope!r}, which knows shapes and "
                "dtypes only; use ops.where or ops.cond to choose by value"
            )
        if op.kind is OperatorKind.IDENTITY_LIKE or isinstance(op, CreateTensor):
            return (value,)
        if isinstance(op, IsScalar):
            return (not value.shape,)
        return op.fallback(inputs)
