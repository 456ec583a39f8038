"""Evaluation put off until somebody reads."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, ClassVar

from interp import (
    CreateTensor,
    GetAttr,
    GetId,
    GetName,
    IsScalar,
    RenameValue,
    Segment,
    Transformation,
    Wrapper,
    apply,
    rules,
)
from interp.dispatch import at_level, current_level, deliver, levels_from
from interp.dtypes import DType
from interp.evaluate import infer
from interp.operator import Operator, OperatorKind
from interp.value import Scope, Spec, spec_of

__all__ = ["LazyEvalTransformation", "LazyValue"]


class _Pending:
    """One operator that has not run: its inputs, and whoever still waits for its outputs."""

    __slots__ = ("inputs", "op", "outputs")

    def __init__(self, op: Operator, inputs: Sequence[Any]) -> None:
        self.op = op
        self.inputs: list[Any] = list(inputs)
        self.outputs: list[weakref.ref[LazyValue]] = []


class LazyValue(Wrapper):
    """A result that is computed when it is read. Alive, it keeps what it is computed from alive."""

    __slots__ = ("__weakref__", "computed", "name", "pending", "spec")

    def __init__(self, scope: Scope, spec: Spec, pending: _Pending) -> None:
        self.scope = scope
        self.spec = spec
        self.name = ""
        self.pending: _Pending | None = pending
        self.computed: Any = None

    def flatten(self) -> tuple[Any, ...]:
        return ()

    def unflatten(self, leaves: tuple[Any, ...]) -> Wrapper:
        return self

    def unwrap(self) -> Any:
        return self if self.pending is not None else self.computed

    def settled(self) -> Any:
        return super().settled() if self.pending is not None else self.computed

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
        return f"LazyValue({self.spec!r}, {'pending' if self.pending is not None else 'computed'})"


class LazyEvalTransformation(Transformation):
    """Runs nothing until a value is read or the scope closes, and then only what is alive or needed for that.

    >>> import interp, ops
    >>> with interp.log_dispatch() as events, LazyEvalTransformation():
    ...     x = ops.exp(ops.zeros((2,)))
    ...     unused = ops.log(x)
    ...     del unused
    ...     y = x + 1.0
    >>> y, any("LOG" in str(event.op) and "Eval" in event.layer and "Lazy" not in event.layer for event in events)
    (tensor([2., 2.]), False)
    """

    segment: ClassVar[Segment] = Segment.TRACE

    def __init__(self) -> None:
        self._alive: weakref.WeakValueDictionary[int, LazyValue] = weakref.WeakValueDictionary()

    def mine(self, value: Any) -> bool:
        """Whether `value` is one of this layer's."""
        return isinstance(value, LazyValue) and value.scope is self.scope

    def takes_program(self, op: Operator) -> bool:
        """Programs wait as one operator."""
        return True

    def apply_transformation(self, op: Operator, inputs: Sequence[Any]) -> Sequence[Any]:
        if op.computes:
            if getattr(op, "shape_from_data", False) or (op.is_program and type(op) not in rules.infer):
                return self.pass_on(op, inputs)  # what comes out is known only by computing it
            return self.put_off(op, inputs)
        if not inputs or not self.mine(inputs[0]):
            return self.pass_on(op, inputs)
        value = inputs[0]
        if isinstance(op, GetAttr) and op.attr in (GetAttr.Attr.SHAPE, GetAttr.Attr.DTYPE, GetAttr.Attr.DEVICE):
            return ({GetAttr.Attr.SHAPE: value.shape, GetAttr.Attr.DTYPE: value.dtype}.get(op.attr, "cpu"),)
        if isinstance(op, RenameValue):
            value.name = op.name
            return (value,)
        if isinstance(op, GetName):
            return (value.name,)
        if isinstance(op, GetId):
            return (id(value),)
        if isinstance(op, IsScalar):
            return (not value.shape,)
        if isinstance(op, CreateTensor) or (op.kind is OperatorKind.IDENTITY_LIKE and not op.stays_in_programs):
            return (value,)
        if op.stays_in_programs:
            return self.waiting(op, inputs, [value.spec])
        return self.pass_on(op, inputs)

    def put_off(self, op: Operator, inputs: Sequence[Any]) -> Sequence[Any]:
        """The outputs of a computing operator, known by shape and dtype."""
        return self.waiting(op, inputs, infer(op, [spec_of(value) for value in inputs]))

    def waiting(self, op: Operator, inputs: Sequence[Any], specs: Sequence[Spec]) -> Sequence[Any]:
        scope = self.scope
        assert scope is not None
        pending = _Pending(op, [self.known(value) for value in inputs])
        outputs = [LazyValue(scope, spec, pending) for spec in specs]
        for value in outputs:
            pending.outputs.append(weakref.ref(value))
            self._alive[id(value)] = value
        return outputs

    def known(self, value: Any) -> Any:
        """A value of this layer that was computed already, as the layer below sees it; others as they are."""
        return value.computed if self.mine(value) and value.pending is None else value

    def pass_on(self, op: Operator, inputs: Sequence[Any]) -> Sequence[Any]:
        """Compute the inputs, and let the layer below answer."""
        self.compute([value for value in inputs if self.mine(value)])
        return apply(op, *[value.computed if self.mine(value) else value for value in inputs])

    def compute(self, values: Sequence[LazyValue]) -> None:
        """Run what these values wait for, at the current position."""
        for pending in _in_order([value.pending for value in values if value.pending is not None]):
            results = deliver(pending.op, [self.known(value) for value in pending.inputs])
            for reference, result in zip(pending.outputs, results, strict=True):
                value = reference()
                if value is not None:
                    value.computed = result
                    value.pending = None
            pending.inputs = []

    def on_unregister(self) -> None:
        level = next((each for each in levels_from(current_level()) if each.layer is self), None)
        if level is None or level.below is None:
            return
        with at_level(level.below):
            self.compute(list(self._alive.values()))


def _in_order(roots: Sequence[_Pending]) -> list[_Pending]:
    """What must run for the roots, inputs first; without recursion."""
    order: list[_Pending] = []
    seen: set[int] = set()
    todo: list[tuple[_Pending, bool]] = [(root, False) for root in reversed(roots)]
    while todo:
        pending, ready = todo.pop()
        if ready:
            order.append(pending)
            continue
        if id(pending) in seen:
            continue
        seen.add(id(pending))
        todo.append((pending, True))
        for value in pending.inputs:
            if isinstance(value, LazyValue) and value.pending is not None and id(value.pending) not in seen:
                todo.append((value.pending, False))
    return order
