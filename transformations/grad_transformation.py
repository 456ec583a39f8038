"""The layer that records what is differentiated.

Each operator on an attached value goes down as it is; what its gradient needs is kept in a tape entry, and the
outputs come back attached to that. Nothing is computed twice, and no rule is run until a backward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from interp import CreateTensor, GetAttr, GradError, OpDef, Segment, Transformation, apply, rules
from interp.dispatch import deliver
from interp.operator import Operator, OperatorKind
from interp.value import Scope, Wrapper, computed_from, layers_of, short

from .backward_graph import backward_graph_for
from .grad_operators import (
    AttachGrad,
    DetachGrad,
    GetBackwardClosure,
    GetGradKey,
    GetGradSlot,
    GradBackward,
    InsertGradCallback,
    IsAttachedTo,
    SetGrad,
)
from .tape import (
    BackwardGraphWithClosure,
    CustomBackward,
    GradFn,
    GradKey,
    GradSlot,
    GradValue,
    OutputAttr,
    check_seed,
)

__all__ = ["GradTransformation", "register_grad_rule"]

GradRule = Callable[[Any, Sequence[Any], Sequence[bool], CustomBackward], "Sequence[Any] | None"]
_custom_rules: dict[type[Operator], GradRule] = {}


def register_grad_rule(owner: type[OpDef], rule: GradRule, *, replace: bool = False) -> GradRule:
    """Give operators of a class a gradient rule that computes the outputs itself.

    `rule(op, inputs, inputs_require_grad, backward)` returns the outputs, having filled in
    `backward.backward`, `backward.input_has_grads` and `backward.output_attrs`; or None to decline, and then the
    vjp rule is used. Raises GradError when the class has one already.
    """
    if owner in _custom_rules and not replace:
        raise GradError(f"{owner.__name__} already has a custom gradient rule; pass replace=True to give it another")
    _custom_rules[owner] = rule
    return rule


class GradTransformation(Transformation):
    """Records operators on the values attached to its key, for one backward pass.

    `functional` layers, which `grad` and its like open, refuse to have the data of an attached value read: what is
    computed from it outside of the stack would lose its gradient without a word.
    """

    segment: ClassVar[Segment] = Segment.GRAD
    only_wrapped: ClassVar[type[Wrapper] | None] = GradValue

    def __init__(self, key: GradKey | None = None, *, functional: bool = False) -> None:
        self._key = key
        self.functional = functional
        self._suppressed = 0

    @property
    def name(self) -> str:
        label = self.scope.name if self.scope is not None else ""
        return f"GradTransformation({label!r})" if label else "GradTransformation"

    @property
    def key(self) -> GradKey | None:
        """The key in use; None when the layer is not registered, or its backward pass was asked for."""
        scope = self.scope
        return scope if isinstance(scope, GradKey) else None

    def make_scope(self) -> Scope:
        key = GradKey() if self._key is None else self._key
        self._key = None
        if not key.live:
            raise GradError(f"{key!r} is finished; register the layer with a new key")
        return key

    def suppress(self) -> None:
        """Record nothing until `resume`: attached values are unwrapped, and results are plain."""
        self._suppressed += 1

    def resume(self) -> None:
        """Undo one `suppress`."""
        if not self._suppressed:
            raise GradError(f"{self.name}: resume() without suppress()")
        self._suppressed -= 1

    def takes_program(self, op: Operator) -> bool:
        """Programs with a gradient rule of their own are recorded whole."""
        return type(op) in _custom_rules or type(op) in rules.vjp

    def mine(self, value: Any) -> bool:
        """Whether `value` is attached to this layer's key."""
        return isinstance(value, GradValue) and value.scope is self.scope

    def apply_transformation(self, op: Operator, inputs: Sequence[Any]) -> Sequence[Any]:
        """Run a computing operator below, and record it where an input is attached."""
        if not op.computes or self._suppressed:
            return self.answer(op, inputs, bool(self._suppressed))
        values: Sequence[Any]
        key: Any = self.scope
        if len(inputs) == 2:  # most often, and then without a loop
            left, right = inputs
            first = type(left) is GradValue and left.scope is key
            if type(right) is GradValue and right.scope is key:
                if first:
                    mask = 3
                    parents = [left.fn, right.fn]
                    slots = [left.index, right.index] if left.index or right.index else None
                    values = (left.value, right.value)
                else:
                    mask = 2
                    parents = [right.fn]
                    slots = [right.index] if right.index else None
                    values = (left, right.value)
            elif first:
                mask = 1
                parents = [left.fn]
                slots = [left.index] if left.index else None
                values = (left.value, right)
            else:
                return deliver(op, inputs)
        else:
            mask, parents, slots, values = _taken_apart(inputs, key)
            if not mask:
                return deliver(op, inputs)
        if type(op) in _custom_rules:
            answered = self.differentiate_by_rule(op, inputs, values, mask)
            if answered is not None:
                return answered
        graph = backward_graph_for(op, values, mask)
        outputs = deliver(op, values)
        if graph is None:
            return outputs
        if graph.mask != mask:  # some of the attached inputs have no gradient
            parents, slots = graph.select(mask, parents, slots)
        closure: Any  # a tuple of values
        if graph.keeps_inputs:
            closure = values
        else:
            closure = () if graph.keep is None else graph.keep(values, outputs)
        if graph.precomp is not None:
            closure = (*graph.precomp.run([*values, *outputs]), *closure)
        fn = BackwardGraphWithClosure(op, graph, closure, parents, slots)
        if graph.single:
            return (GradValue(key, outputs[0], fn, 0),)
        if graph.n_outputs > 1:
            fn.describe(outputs)
        return _attached(key, fn, outputs, graph.grads_read)

    def answer(self, op: Operator, inputs: Sequence[Any], suppressed: bool) -> Sequence[Any]:
        """The operators that ask rather than compute; and all for somebody for whom nothing is recorded."""
        if suppressed and type(op) in _unless_suppressed:
            return self.pass_on(op, inputs)
        answer = _answers.get(type(op))
        if answer is not None:
            return answer(self, op, inputs)
        if op.kind is OperatorKind.IDENTITY_LIKE and not suppressed and self.mine(inputs[0]):
            value = inputs[0]
            return (value.unflatten(apply(op, value.value, *inputs[1:])),)
        return self.pass_on(op, inputs)

    def pass_on(self, op: Operator, inputs: Sequence[Any]) -> Sequence[Any]:
        """Hand `op` to the layer below, on the values below."""
        return apply(op, *[value.value if self.mine(value) else value for value in inputs])

    def differentiate_by_rule(
        self, op: Operator, inputs: Sequence[Any], values: Sequence[Any], mask: int
    ) -> Sequence[Any] | None:
        """Run the custom rule of the operator, unless it declines."""
        backward = CustomBackward()
        backward.op_name = repr(op)
        rule = _custom_rules[type(op)]
        outputs = rule(op, values, [bool(mask >> i & 1) for i in range(len(values))], backward)
        return None if outputs is None else self.record(op, backward, inputs, outputs)

    def record(
        self, op: Operator, backward: CustomBackward, inputs: Sequence[Any], outputs: Sequence[Any]
    ) -> Sequence[Any]:
        """Make a tape entry for `outputs`, which a custom rule leads back from to the slots of the inputs."""
        key = self.scope
        assert isinstance(key, GradKey)
        used = [value for i, value in enumerate(inputs) if backward.input_has_grad(i)]
        parents = [value.fn if self.mine(value) else None for value in used]
        slots = [value.index if self.mine(value) else 0 for value in used]
        fn = GradFn(op, backward, len(outputs), parents, slots)
        return _attached(key, fn, outputs, [backward.output_requires_grad(i) for i in range(len(outputs))])

    def release_key(self) -> GradKey:
        """Freeze the key and let go of it: from now on the layer passes everything through."""
        key = self.key
        assert key is not None
        key.freeze()
        self.scope = None
        return key

    def closure(self, ys: Sequence[Any], release: bool) -> Callable[[Sequence[Any]], None]:
        """Freeze the key; a function that runs the backward pass, on the stack of whoever calls it."""
        slots = [y.slot if self.mine(y) else None for y in ys]
        below = [y.value if self.mine(y) else y for y in ys]
        key = self.release_key()

        def run(cotangents: Sequence[Any]) -> None:
            if len(cotangents) != len(slots):
                raise GradError(f"{len(slots)} outputs need {len(slots)} gradients, not {len(cotangents)}")
            seeds = [None if dy is None else check_seed(dy, y) for dy, y in zip(cotangents, below, strict=True)]
            key.backward(slots, seeds, release)

        return run

    def __repr__(self) -> str:
        return f"<{self.name}{'' if self.key is None else f' {self.key!r}'}>"


# Comprehensions have their place here: within `apply_transformation` they would slow its variables down.


def _taken_apart(inputs: Sequence[Any], key: Any) -> tuple[int, list[GradFn], list[int] | None, Sequence[Any]]:
    """The mask of the attached inputs, their entries and slots (None: all first), and the values below."""
    mask = 0
    bit = 1
    parents: list[GradFn] = []
    slots: list[int] = []
    values: list[Any] = []
    for value in inputs:
        if type(value) is GradValue and value.scope is key:
            mask += bit
            parents.append(value.fn)
            slots.append(value.index)
            value = value.value
        values.append(value)
        bit += bit
    return mask, parents, slots if any(slots) else None, tuple(values)


def _attached(key: Any, fn: GradFn, outputs: Sequence[Any], which: Sequence[bool]) -> Sequence[Any]:
    """The outputs of `fn`, those of `which` attached to it."""
    return [GradValue(key, y, fn, i) if has else y for i, (y, has) in enumerate(zip(outputs, which))]


# How the layer answers operators that ask rather than compute.


def _get_attr(layer: GradTransformation, op: Any, inputs: Sequence[Any]) -> Sequence[Any]:
    reads = op.attr in (GetAttr.Attr.VALUE, GetAttr.Attr.DATA)
    if reads and layer.functional and layer.mine(inputs[0]):
        value = inputs[0]
        raise GradError(
            f"the data of {short(value)}{computed_from(value)} was read under {layer.scope!r} (layers: "
            f"{layers_of(value)}); what is computed from it outside of the stack has no gradient. "
            "Use stop_gradient(x) first if that is meant, or stay with ops"
        )
    return layer.pass_on(op, inputs)


def _create(layer: GradTransformation, op: Any, inputs: Sequence[Any]) -> Sequence[Any]:
    return apply(op, *inputs)


def _attach(layer: GradTransformation, op: AttachGrad, inputs: Sequence[Any]) -> Sequence[Any]:
    value, callback = inputs
    if op.key is layer.scope:
        return (op.key.attach(value, callback, op.label),)
    if layer.mine(value):
        return (value.unflatten(apply(op, value.value, callback)),)
    return apply(op, value, callback)


def _is_attached(layer: GradTransformation, op: IsAttachedTo, inputs: Sequence[Any]) -> Sequence[Any]:
    if op.key is layer.scope:
        return (layer.mine(inputs[0]),)
    return layer.pass_on(op, inputs)


def _backward(layer: GradTransformation, op: GradBackward, inputs: Sequence[Any]) -> Sequence[Any]:
    if op.key is not layer.scope:
        return layer.pass_on(op, inputs)
    if len(inputs) % 2:
        raise GradError(f"GradBackward takes outputs and as many gradients, not {len(inputs)} inputs")
    half = len(inputs) // 2
    cotangents = [dy.value if layer.mine(dy) else dy for dy in inputs[half:]]
    layer.closure(inputs[:half], release=True)(cotangents)
    return ()


def _closure(layer: GradTransformation, op: GetBackwardClosure, inputs: Sequence[Any]) -> Sequence[Any]:
    if op.key is not layer.scope:
        return layer.pass_on(op, inputs)
    return (layer.closure(inputs, release=True),)


def _set_grad(layer: GradTransformation, op: SetGrad, inputs: Sequence[Any]) -> Sequence[Any]:
    n = op.nr_inputs
    outputs = layer.pass_on(op, inputs)
    backward = CustomBackward()
    backward.op_name = "SetGrad"
    backward.backward = op.grad_fn
    backward.input_has_grads = [True] * n
    backward.output_attrs = [OutputAttr() for _ in outputs]
    return layer.record(op, backward, inputs[:n], outputs)


def _detach(layer: GradTransformation, op: DetachGrad, inputs: Sequence[Any]) -> Sequence[Any]:
    value = inputs[0]
    if not layer.mine(value):
        return apply(op, value)
    return apply(op, value.value) if op.everywhere else (value.value,)


def _grad_key(layer: GradTransformation, op: GetGradKey, inputs: Sequence[Any]) -> Sequence[Any]:
    if any(layer.mine(value) for value in inputs):
        return (layer.scope,)
    return apply(op, *inputs)


def _grad_slot(layer: GradTransformation, op: GetGradSlot, inputs: Sequence[Any]) -> Sequence[Any]:
    value = inputs[0]
    return (GradSlot(value.fn, value.index),) if layer.mine(value) else apply(op, value)


def _insert_callback(layer: GradTransformation, op: InsertGradCallback, inputs: Sequence[Any]) -> Sequence[Any]:
    value, callback = inputs
    if not layer.mine(value):
        return apply(op, value, callback)
    value.fn.add_callback(value.index, callback)
    return ()


_answers: dict[type[Operator], Callable[[GradTransformation, Any, Sequence[Any]], Sequence[Any]]] = {
    GetAttr: _get_attr,
    CreateTensor: _create,
    AttachGrad: _attach,
    IsAttachedTo: _is_attached,
    GradBackward: _backward,
    GetBackwardClosure: _closure,
    SetGrad: _set_grad,
    DetachGrad: _detach,
    GetGradKey: _grad_key,
    GetGradSlot: _grad_slot,
    InsertGradCallback: _insert_callback,
}
_unless_suppressed = (GetAttr, SetGrad)
