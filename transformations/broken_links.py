"""`why_zero`: where the link between an argument and the output was cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from interp import GetAttr, Transformation, apply, pytree
from interp.errors import Line, user_line
from interp.operator import Operator, OperatorKind
from interp.tensor import from_value
from interp.value import LeafWrapper, Scope, Wrapper, dtype_of, short
from ops.elemwise import Elemwise

from .backward_graph import backward_graph_for
from .custom_call import CustomCall
from .grad_operators import DetachGrad, SetGrad
from .gradient import value_of

__all__ = ["why_zero"]


class TaintedValue(LeafWrapper):
    """A value computed from the arguments. `cut` is None while gradients still flow through it."""

    __slots__ = ("cut", "value")

    passes_as_constant: ClassVar[bool] = True

    def __init__(self, scope: Scope, value: Any, cut: str | None) -> None:
        self.scope = scope
        self.value = value
        self.cut = cut

    def flatten(self) -> tuple[Any, ...]:
        return (self.value,)

    def unflatten(self, leaves: tuple[Any, ...]) -> Wrapper:
        return TaintedValue(self.scope, leaves[0], self.cut)

    def settled(self) -> Any:
        return self.value


class _Follow(Transformation):
    """Marks whatever is computed from the arguments, and notes where gradients stop."""

    def __init__(self) -> None:
        self.cuts: list[str] = []
        self.reads = 0

    def takes_program(self, op: Operator) -> bool:
        return isinstance(op, CustomCall)

    def mine(self, value: Any) -> bool:
        return isinstance(value, TaintedValue) and value.scope is self.scope

    def wrap(self, value: Any, cut: str | None) -> TaintedValue:
        assert self.scope is not None
        return TaintedValue(self.scope, value, cut)

    def cut(self, what: str, line: Line) -> str:
        text = f"{what} at {line}"
        self.cuts.append(text)
        return text

    def apply_transformation(self, op: Operator, inputs: Sequence[Any]) -> Sequence[Any]:
        mine = [self.mine(value) for value in inputs]
        below = [value.value if m else value for value, m in zip(inputs, mine, strict=True)]
        outputs = apply(op, *below)
        if not any(mine):
            return outputs
        self.reads += 1
        live = [i for i, m in enumerate(mine) if m and inputs[i].cut is None]
        first = next((inputs[i].cut for i, m in enumerate(mine) if m and inputs[i].cut), None)
        if isinstance(op, GetAttr):
            if op.attr in (GetAttr.Attr.VALUE, GetAttr.Attr.DATA) and live:
                self.cut("the data was read (numpy(), item(), float() or the like)", user_line())
            return outputs
        if isinstance(op, DetachGrad):
            return [self.wrap(v, first or self.cut("stop_gradient() or detach()", user_line())) for v in outputs]
        if op.kind is OperatorKind.IDENTITY_LIKE or isinstance(op, (CustomCall, SetGrad)):
            return [self.wrap(value, None if live else first) for value in outputs]
        if not op.computes:
            return outputs
        reason = None if self.flows(op, below, live) else first
        if reason is None and live and not self.flows(op, below, live):
            reason = self.cut(self.describe(op, below, live), user_line())
        return [self.wrap(value, reason) for value in outputs]

    def flows(self, op: Operator, values: Sequence[Any], live: Sequence[int]) -> bool:
        """Whether the operator has a gradient by one of the inputs `live`."""
        mask = sum(1 << i for i in live)
        return bool(mask) and backward_graph_for(op, values, mask) is not None

    def describe(self, op: Operator, values: Sequence[Any], live: Sequence[int]) -> str:
        name = op.mode if isinstance(op, Elemwise) else type(op).__name__
        inputs = ", ".join(short(values[i]) for i in live)
        integer = "" if any(dtype_of(values[i]).kind in "fc" for i in live) else " (not a floating value)"
        return f"{name} of {inputs} has no gradient{integer}"


def why_zero(f: Callable[..., Any], *args: Any) -> str:
    """Say why the gradient of `f` at these arguments is zero for structural reasons, or that it is not.

    Runs `f` once. Names the first place where the link was cut, with the user's own line, or says that nothing
    read the argument. A gradient that is zero because the numbers make it so is not found here.

    >>> import interp, ops
    >>> from transformations import stop_gradient, why_zero
    >>> why_zero(lambda x: ops.floor(x) * 2.0, interp.tensor(1.5))
    'the gradient is zero because FLOOR of float32[]=1.5 has no gradient at ...'
    >>> why_zero(lambda x: interp.tensor(1.0), interp.tensor(1.5))
    'the gradient is zero because nothing read the argument'
    """
    leaves, tree = pytree.flatten(args)
    layer = _Follow()
    with layer:
        tainted = [
            from_value(layer.wrap(value, None)) if dtype_of(value).kind in "fc" else from_value(value)
            for value in map(value_of, leaves)
        ]
        result = f(*pytree.unflatten(tree, tainted))
        outputs = [value_of(leaf) for leaf in pytree.leaves_of(result)]
        if any(layer.mine(value) and value.cut is None for value in outputs):
            return "the output depends on the arguments by operators that have gradients; nothing cuts the link"
        cuts = [value.cut for value in outputs if layer.mine(value)]
    if cuts:
        return f"the gradient is zero because {cuts[0]}"
    if layer.cuts:
        return f"the gradient is zero because {layer.cuts[0]}"
    if layer.reads:
        return "the gradient is zero because what was computed from the argument does not reach the output"
    return "the gradient is zero because nothing read the argument"
