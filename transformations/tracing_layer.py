"""The layer that records what passes through it, while it passes through.

Everything above it is computed below it as usual; every operator and every value from outside is written down. It is
asked what handles refer to, so the record knows which handles and host arrays the code read, and which it rebound.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import attrs
import numpy as np

from interp import (
    CreateTensor,
    Expr,
    GetAttr,
    GetId,
    GetName,
    HandleReader,
    IsScalar,
    Operator,
    OperatorKind,
    PopScope,
    PushScope,
    RenameValue,
    Segment,
    Tensor,
    TraceError,
    apply,
)
from interp.dispatch import Handle, Level, deliver, levels_from, read_at
from interp.errors import user_line
from interp.handle_reader import gradient_at, read_array_at
from interp.tensor import from_value
from interp.value import LeafWrapper, Scope, Wrapper, computed_from, settle, short, spec_of

from .trace_result import TraceResult, TraceVar, VarKind

__all__ = ["IOMarkVar", "Source", "TraceMarkVar", "TracingTransformation", "TracingValue"]

_SCALARS = (float, int, bool, complex)
_DATA = (GetAttr.Attr.VALUE, GetAttr.Attr.DATA)


@attrs.frozen
class TraceMarkVar(Operator):
    """The one input, marked in the trace."""

    kind: ClassVar[OperatorKind] = OperatorKind.IDENTITY_LIKE
    mark: str

    def fallback(self, inputs: Sequence[Any]) -> Sequence[Any]:
        return (inputs[0],)


@attrs.frozen
class IOMarkVar(TraceMarkVar):
    """The one input, marked as an input or an output of the trace."""


class TracingValue(LeafWrapper):
    """A value below, and the variable that stands for it in the trace."""

    __slots__ = ("layer", "value", "var")

    def __init__(self, scope: Scope, value: Any, var: int, layer: TracingTransformation) -> None:
        self.scope = scope
        self.value = value
        self.var = var
        self.layer = layer

    def flatten(self) -> tuple[Any, ...]:
        return (self.value,)

    def unflatten(self, leaves: tuple[Any, ...]) -> TracingValue:
        return TracingValue(self.scope, leaves[0], self.var, self.layer)

    def settled(self) -> Any:
        return self.value

    def source(self) -> str:
        return self.layer.source(self.var)

    def __repr__(self) -> str:
        return f"%{self.var}: {short(self.value)}"


class Source:
    """Something outside that the traced code read: a handle, the gradient of one, or a host array."""

    __slots__ = ("held", "kind", "value", "var")

    def __init__(self, kind: str, held: Any, value: TracingValue) -> None:
        self.kind = kind
        self.held = held
        self.value = value
        self.var = value.var

    def now(self, level: Level) -> Any:
        """What it is for code whose operators go to `level`. None where a gradient is gone."""
        if self.kind == "array":
            return read_array_at(level, self.held)
        handle = self.held if self.kind == "handle" else gradient_at(level, self.held)
        return None if handle is None else settle(read_at(level, handle))

    def may_change(self) -> bool:
        """Whether somebody else holds it still, who could change it."""
        if self.kind == "array" and self.held.base is not None:
            return True
        return self.kind == "gradient" or sys.getrefcount(self.held) > 2


class TracingTransformation(HandleReader):
    """Records every operator that passes, with the values that it reads from outside.

    With `capture_as_const` handles and arrays from outside are constants of the record, else inputs of it. With
    `symbolic` nothing below has data, unless somebody reads: Python branches are refused, and so is what depends on
    data in its shape. When the layer leaves, its values read as what they were below.

    >>> import interp, ops
    >>> w = interp.tensor([2.0])
    >>> with TracingTransformation() as tracing:
    ...     y = tracing.external(interp.tensor([3.0])) * w
    ...     result = tracing.result([y])
    >>> y, len(result.inputs())
    (tensor([6.]), 2)
    """

    segment: ClassVar[Segment] = Segment.TRACE

    def __init__(self, *, capture_as_const: bool = False, symbolic: bool = False) -> None:
        self.capture_as_const = capture_as_const
        self.symbolic = symbolic
        self.vars: list[TraceVar] = []
        self.seq: list[Expr] = []
        self.sources: dict[tuple[str, int], Source] = {}
        self.rebound: dict[int, tuple[Handle, Any]] = {}
        self.gradients: dict[int, tuple[Any, Tensor | None]] = {}
        self.had_gradient: dict[int, tuple[Any, bool]] = {}
        self._numbers: dict[int, int] = {}
        self._kept: list[Any] = []  # what the numbers above are of, so that ids stay their own
        self._below: set[int] | None = None

    # Variables.

    def variable(self, kind: VarKind, value: Any, bound: Any = None) -> TracingValue:
        """A new variable of the trace, for a value below."""
        scope = self.scope
        assert scope is not None
        self.vars.append(TraceVar(kind, spec_of(value), bound))
        return TracingValue(scope, value, len(self.vars) - 1, self)

    def external(self, x: Any, mark: str = "") -> Tensor:
        """An input of the trace. Raises TraceError for what the trace computed."""
        value = settle(read_at(_level_below(self), x) if isinstance(x, Handle) else x)
        made = value if self.mine(value) else self.variable(VarKind.EXTERNAL, value)
        if self.vars[made.var].kind is VarKind.INTERNAL:
            raise TraceError(f"{made!r} was computed in the trace, so it cannot be an input of it")
        self.vars[made.var].mark = mark
        return from_value(made)

    def mine(self, value: Any) -> bool:
        """Whether `value` is one of this layer's."""
        return type(value) is TracingValue and value.scope is self.scope

    def number(self, value: Any) -> int:
        """The variable that stands for any value; a constant of the record where it is not traced."""
        if type(value) is TracingValue and value.scope is self.scope:
            return value.var
        known = self._numbers.get(id(value))
        if known is None:
            known = self._numbers[id(value)] = self.variable(VarKind.CONSTANT, value, value).var
            self._kept.append(value)
        return known

    def source(self, var: int) -> str:
        """For errors: the mark of the input that a variable was computed from."""
        wanted = {var}
        for expr in reversed(self.seq):
            if wanted.intersection(expr.outputs):
                wanted.update(expr.inputs)
        return next((self.vars[i].mark for i in sorted(wanted) if self.vars[i].mark), "")

    # Operators.

    def takes_program(self, op: Operator) -> bool:
        """Programs are recorded as one operator, so that a rule of theirs is kept."""
        return True

    def apply_transformation(self, op: Operator, inputs: Sequence[Any]) -> Sequence[Any]:
        if self.scope is None:
            return apply(op, *inputs)
        if op.computes or op.stays_in_programs:
            if self.symbolic and getattr(op, "shape_from_data", False):
                raise TraceError(
                    f"the shape of what {op!r} gives depends on data, which differs from call to call of the program "
                    f"being recorded{_listed(inputs)}; use ops.where, or a function that keeps the shape"
                )
            return self.write(op, inputs)
        return self.answer(op, inputs)

    def write(self, op: Operator, inputs: Sequence[Any]) -> Sequence[Any]:
        """Run an operator below, and write it down."""
        scope = self.scope
        assert scope is not None
        numbers = []
        values = []
        for value in inputs:
            if type(value) is TracingValue and value.scope is scope:
                numbers.append(value.var)
                value = value.value
            else:
                numbers.append(self.number(value))
            values.append(value)
        outputs = []
        variables = self.vars
        for value in deliver(op, values):
            variables.append(TraceVar(VarKind.INTERNAL, spec_of(value)))
            outputs.append(TracingValue(scope, value, len(variables) - 1, self))
        self.seq.append(Expr(op, numbers, [value.var for value in outputs]))
        return outputs

    def answer(self, op: Operator, inputs: Sequence[Any]) -> Sequence[Any]:
        """The operators that ask and make rather than compute."""
        if isinstance(op, CreateTensor):
            return self.create(op, inputs[0])
        if isinstance(op, (PushScope, PopScope)):
            return apply(op, *inputs)
        if not inputs or not self.mine(inputs[0]):
            return self.pass_on(op, inputs)
        value = inputs[0]
        var = self.vars[value.var]
        if isinstance(op, GetAttr):
            return self.attribute(op, value, var)
        if isinstance(op, RenameValue):
            var.name = op.name
        elif isinstance(op, TraceMarkVar):
            var.mark = op.mark
        elif isinstance(op, (GetName, GetId, IsScalar)):
            return ({GetName: var.name, GetId: id(value), IsScalar: not value.shape}[type(op)],)
        elif op.kind is not OperatorKind.IDENTITY_LIKE:
            return self.pass_on(op, inputs)
        return (value,)

    def pass_on(self, op: Operator, inputs: Sequence[Any]) -> Sequence[Any]:
        """Let the layers below answer. In a symbolic trace they may not do what no replay would do again."""
        if self.symbolic and op.kind is OperatorKind.OTHER and any(self.mine(value) for value in inputs):
            raise TraceError(
                f"{type(op).__name__} was asked of a layer outside of the function being recorded{_listed(inputs)}; "
                "its answer would not be asked for again at the next call. Open the layer inside, or do it outside"
            )
        return apply(op, *[value.value if self.mine(value) else value for value in inputs])

    def create(self, op: CreateTensor, data: Any) -> Sequence[Any]:
        """Host data becomes a constant (CONST), an input (COMMON, UNIQUE), or stays out of the trace (NO_TRACE)."""
        if isinstance(data, Wrapper):
            return (data,)
        if op.create is CreateTensor.Kind.NO_TRACE:
            return apply(op, data)
        if op.create is CreateTensor.Kind.CONST or self.capture_as_const:
            made = apply(op, data)[0]
            return (self.variable(VarKind.CONSTANT, made, made),)
        return (self.seen("array", data, lambda: apply(op, data)[0]),)

    def attribute(self, op: GetAttr, value: TracingValue, var: TraceVar) -> Sequence[Any]:
        """What is asked of a traced value is noted beside its variable."""
        if op.attr is GetAttr.Attr.SHAPE:
            var.shape_required = True
        elif op.attr is GetAttr.Attr.TRUTH or op.attr in _DATA:
            if op.attr is GetAttr.Attr.TRUTH and self.symbolic:
                raise TraceError(
                    f"a Python branch on {value!r}{computed_from(value)} was asked for under {self.scope!r}: the "
                    "branch would be the same at every later call, whatever the value. Choose by value with ops.where "
                    "or ops.cond, or give what it depends on as a static argument"
                )
            data = apply(op, value.value)[0]
            var.value_required = var.value_required or op.attr is not GetAttr.Attr.DATA
            var.data_required = True
            if var.read is None:
                var.read = np.array(data)
                var.read_at = str(user_line())
            return (data,)
        return apply(op, value.value)

    # Handles.

    def read_handle(self, handle: Handle, below: Level) -> Any:
        rebound = self.rebound.get(id(handle))
        if rebound is not None:
            return rebound[1]
        found = self.sources.get(("handle", id(handle)))
        if found is not None:
            return found.value
        value = handle._value
        if self.scope is None:
            return read_at(below, handle)
        if type(value) is TracingValue or self.made_inside(value, below):
            return value
        return self.seen("handle", handle, lambda: settle(read_at(below, handle)))

    def rebind_handle(self, handle: Handle, value: Any, below: Level) -> None:
        if self.scope is None:
            super().rebind_handle(handle, value, below)
        elif id(handle) not in self.rebound and self.made_inside(handle._value, below):
            handle._value = value
        else:
            self.rebound[id(handle)] = (handle, value)

    def read_array(self, array: Any, below: Level) -> Any:
        if self.scope is None:
            return super().read_array(array, below)
        return self.seen("array", array, lambda: read_array_at(below, array))

    def read_gradient(self, handle: Any, below: Level) -> Any:
        if self.scope is None or self.made_inside(handle._value, below):
            return super().read_gradient(handle, below)
        if id(handle) in self.gradients:
            return self.gradients[id(handle)][1]
        gradient = super().read_gradient(handle, below)
        self.had_gradient[id(handle)] = (handle, gradient is not None)
        if gradient is None:
            return None
        made = from_value(self.seen("gradient", handle, lambda: settle(read_at(below, gradient))))
        self.gradients[id(handle)] = (handle, made)
        return made

    def write_gradient(self, handle: Any, gradient: Any, below: Level) -> None:
        if self.scope is None or self.made_inside(handle._value, below):
            super().write_gradient(handle, gradient, below)
        else:
            self.gradients[id(handle)] = (handle, gradient)

    def seen(self, kind: str, held: Any, value: Callable[[], Any]) -> TracingValue:
        """The input of the trace that stands for something outside; made when it is seen first."""
        key = (kind, id(held))
        found = self.sources.get(key)
        if found is None:
            below = value()
            if self.capture_as_const:
                made = self.variable(VarKind.CONSTANT, below, below)
            else:
                made = self.variable(VarKind.EXTERNAL, below)
            found = self.sources[key] = Source(kind, held, made)
        return found.value

    def made_inside(self, value: Any, below: Level) -> bool:
        """Whether a value was made by this layer, or by one above it."""
        while isinstance(value, Wrapper):
            scope = value.scope
            if scope is self.scope:
                return True
            if not scope.live:
                value = value.settled()
                continue
            if self._below is None:
                self._below = {id(level.scope) for level in levels_from(below)}
            return id(scope) not in self._below
        return False

    # The end.

    def result(self, outputs: Sequence[Any] = ()) -> TraceResult:
        """What was traced so far, with these values (or Tensors) as its outputs."""
        values = [value._value if isinstance(value, Handle) else value for value in outputs]
        return TraceResult(self.seq, self.vars, [self.number(settle(value)) for value in values])


def _level_below(layer: TracingTransformation) -> Level:
    """The level below the layer, where it is registered; else where the thread is."""
    from interp.dispatch import current_level

    level: Level | None = current_level()
    top = level
    while level is not None and level.layer is not layer:
        level = level.below
    if level is None or level.below is None:
        assert top is not None
        return top
    return level.below


def _listed(inputs: Sequence[Any]) -> str:
    wrapped = [value for value in inputs if isinstance(value, Wrapper)]
    return f" ({short(wrapped[0])}{computed_from(wrapped[0])})" if wrapped else ""
