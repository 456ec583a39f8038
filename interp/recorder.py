"""Recording a function into a `Subgraph`, on an isolated stack that knows shapes and dtypes but no data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from . import pytree, rules
from .basic import CreateTensor, GetAttr, GetId, GetName, IsScalar
from .dispatch import Handle, Level, Segment, Transformation, current_level, read
from .errors import TraceError
from .evaluate import EvalTransformation, infer
from .operator import Operator, OperatorKind
from .position import local
from .subgraph import SHAPE, Expr, Subgraph
from .value import Scope, Spec, Wrapper, computed_from, spec_of

__all__ = ["RecordedValue", "Recorder", "record", "record_flat"]


class RecordedValue(Wrapper):
    """A variable of the program being recorded: a number, and what is known of it."""

    __slots__ = ("recorder", "spec", "var")

    def __init__(self, scope: Scope, recorder: Recorder, var: int, spec: Any) -> None:
        self.scope = scope
        self.recorder = recorder
        self.var = var
        self.spec = spec

    def flatten(self) -> tuple[Any, ...]:
        return ()

    def unflatten(self, leaves: tuple[Any, ...]) -> Wrapper:
        return self

    def unwrap(self) -> Any:
        return self

    def source(self) -> str:
        return self.recorder.source(self.var)

    @property
    def shape(self) -> Any:
        """The concrete shape; reading it makes the record good for this shape only."""
        if isinstance(self.spec, Spec):
            self.recorder.read_shapes = True
            return self.spec.shape
        return (len(self.spec),)

    @property
    def dtype(self) -> Any:
        return self.spec.dtype if isinstance(self.spec, Spec) else None

    @property
    def weak(self) -> bool:
        return isinstance(self.spec, Spec) and self.spec.weak

    @property
    def ndim(self) -> int:
        return len(self.spec.shape) if isinstance(self.spec, Spec) else 1

    def symbolic_shape(self) -> Any:
        return self.recorder.shape_variable(self)

    def symbolic_spec(self) -> Any:
        return self.spec

    def __repr__(self) -> str:
        return f"%{self.var}: {self.spec!r}"


class Recorder(Transformation):
    """Answers every computing operator with variables, and writes it down. The bottom of its own stack."""

    segment: ClassVar[Segment] = Segment.SYMBOL

    def __init__(self) -> None:
        self.exprs: list[Expr] = []
        self.constants: dict[int, Any] = {}
        self.specs: dict[int, Any] = {}
        self.read_shapes = False
        self.names: dict[int, str] = {}
        self._shapes: dict[int, RecordedValue] = {}
        self._known: dict[int, int] = {}
        self.scope = Scope(self.name)

    def variable(self, spec: Any) -> RecordedValue:
        """A new variable of the program."""
        assert self.scope is not None
        var = len(self.specs)
        self.specs[var] = spec
        return RecordedValue(self.scope, self, var, spec)

    def shape_variable(self, value: RecordedValue) -> Any:
        found = self._shapes.get(value.var)
        if found is None:
            if not isinstance(value.spec, Spec):
                return (len(value.spec),)
            found = self._shapes[value.var] = self.variable(value.spec.shape)
            self.exprs.append(Expr(SHAPE, (value.var,), (found.var,)))
        return found

    def number(self, value: Any) -> int:
        """The variable that stands for any value; a constant where it was not recorded."""
        if isinstance(value, RecordedValue) and value.scope is self.scope:
            return value.var
        known = self._known.get(id(value))
        if known is None:
            known = self._known[id(value)] = self.variable(spec_of(value)).var
            self.constants[known] = value  # keeps it alive, so the id stays its own
        return known

    def source(self, var: int) -> str:
        """How the input is called that a variable was computed from; "" without a name."""
        wanted = {var}
        for expr in reversed(self.exprs):
            if wanted.intersection(expr.outputs):
                wanted.update(expr.inputs)
        return next((self.names[var] for var in sorted(wanted) if var in self.names), "")

    def mine(self, value: Any) -> bool:
        return isinstance(value, RecordedValue) and value.scope is self.scope

    def apply_transformation(self, op: Operator, inputs: Sequence[Any]) -> Sequence[Any]:
        if not any(self.mine(value) for value in inputs):
            return _evaluator.apply_transformation(op, inputs)
        if not op.computes:
            return self.kept(op, inputs) if op.stays_in_programs else self.answer(op, inputs)
        if op.is_program and type(op) not in rules.infer:
            return op.inline(inputs)
        specs = infer(op, [spec_of(value) for value in inputs])
        numbers = [self.number(value) for value in inputs]
        outputs = [self.variable(spec) for spec in specs]
        self.exprs.append(Expr(op, numbers, [value.var for value in outputs]))
        return outputs

    def kept(self, op: Operator, inputs: Sequence[Any]) -> Sequence[Any]:
        """Write down an identity-like operator that layers will want to see when the program runs."""
        output = self.variable(spec_of(inputs[0]))
        self.exprs.append(Expr(op, [self.number(value) for value in inputs], [output.var]))
        return (output,)

    def answer(self, op: Operator, inputs: Sequence[Any]) -> Sequence[Any]:
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
                f"{what} {value!r}{computed_from(value)} was asked for under {self.scope!r}, while a program was "
                "recorded, when there is no data yet; use ops.where to choose by value"
            )
        if op.kind is OperatorKind.IDENTITY_LIKE or isinstance(op, CreateTensor):
            return (value,)
        if isinstance(op, IsScalar):
            return (not value.ndim,)
        if isinstance(op, (GetName, GetId)):
            return ("" if isinstance(op, GetName) else id(value),)
        return op.fallback(inputs)

    def finish(self, inputs: Sequence[RecordedValue], outputs: Sequence[Any]) -> Subgraph:
        """The program from these inputs to these outputs, without what they do not need."""
        numbers = [self.number(value) for value in outputs]
        assert self.scope is not None
        self.scope.close()
        program = Subgraph([v.var for v in inputs], self.constants, self.exprs, numbers, self.specs)
        return program.without_dead_code()


_evaluator = EvalTransformation()
_evaluator.scope = Scope("EvalTransformation")


def record_flat(
    f: Callable[[list[RecordedValue]], Sequence[Any]], specs: Sequence[Any], names: Sequence[str] = ()
) -> tuple[Subgraph, bool]:
    """Record `f`, from a list of recorded values (called `names` in errors) to a sequence of values.

    Returns the program, and whether it holds only for the concrete shapes in `specs`.
    """
    recorder = Recorder()
    thread = local.thread
    saved = thread.position
    reader = current_level().reader
    thread.position = Level(recorder, None)
    thread.position.reader = reader  # a handle that is read here is read on the caller's behalf
    try:
        inputs = [recorder.variable(spec) for spec in specs]
        recorder.names = {value.var: name for value, name in zip(inputs, names, strict=False)}
        outputs = f(inputs)
    finally:
        thread.position = saved
    return recorder.finish(inputs, outputs), recorder.read_shapes


def record(f: Callable[..., Any], *specs: Any) -> Subgraph:
    """The program of `f` on arguments that are pytrees of Specs (or of Tensors and arrays, for their specs).

    Nothing is computed, so `f` may not read data. Raises TraceError where it does.

    >>> import interp, ops
    >>> len(interp.record(lambda x, y: ops.sin(x) + y, interp.Spec((2,), "float32"), 1.0).exprs)
    2
    """
    from .tensor import from_value

    names, leaves, tree = pytree.flatten_arguments(specs)
    label = getattr(f, "__name__", type(f).__name__)
    flat = [leaf if isinstance(leaf, Spec) else spec_of(getattr(leaf, "_value", leaf)) for leaf in leaves]

    def body(values: list[RecordedValue]) -> list[Any]:
        result = f(*pytree.unflatten(tree, map(from_value, values)))
        return [read(v) if isinstance(v, Handle) else v for v in pytree.leaves_of(result)]

    return record_flat(body, flat, [f"{name} of {label}" for name in names])[0]
