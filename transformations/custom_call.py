"""The operator that carries a function together with a gradient of its own, and how layers treat it.

The gradient layer that meets it first runs the forward half below itself and keeps what it returns for the backward
half. A layer that wrapped the inputs (vmap, say) hands down the same call on the leaves of its wrappers, whose halves
open the layer again around what they run; so the rule reaches the gradient layers below.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import attrs
import numpy as np

from interp import OpDef, RuleError, Tensor, TraceError, Transformation, Wrapper, apply, pytree, read
from interp.dispatch import Level, at_level, current_level
from interp.recorder import record_flat
from interp.tensor import from_value
from interp.value import spec_of
from ops.broadcasting import BroadcastTo, shape_value

from .forward_mode import register_jvp_rule
from .grad_transformation import register_grad_rule
from .gradient import vjp
from .jvp_graph import is_linear
from .tape import CustomBackward, OutputAttr

__all__ = ["CustomCall", "zeros_of"]

Flat = Sequence[Any]


@attrs.frozen(eq=False)
class CustomCall(OpDef):
    """Call a function of values that brings its own gradient.

    `function(values) -> outputs` computes; `forward(values) -> (outputs, residuals)` computes for a backward pass
    in which `backward(residuals, cotangents) -> gradients` is called (a cotangent is None where none came; a
    gradient is None where there is none). `jvp(primals, tangents) -> (outputs, tangents)`, where it is given, is the
    rule for forward mode; else that is derived from `backward`.
    """

    is_program: ClassVar[bool] = True
    label: str
    function: Callable[[Flat], Flat] = attrs.field(repr=False)
    forward: Callable[[Flat], tuple[Flat, Any]] = attrs.field(repr=False)
    backward: Callable[[Any, Flat], Flat] = attrs.field(repr=False)
    jvp: Callable[[Flat, Flat], tuple[Flat, Flat]] | None = attrs.field(default=None, repr=False)

    def inline(self, inputs: Flat) -> Flat:
        return self.function(inputs)

    def inlined_by(self, layer: Any, inputs: Flat) -> bool:
        """A layer that wrapped none of the inputs passes the call on whole, so that the rule is kept."""
        return any(_wrapped(value, layer) for value in inputs) and not layer.takes_program(self)

    def through(self, layer: Transformation, inputs: Flat) -> Flat:
        """Below the layer, the same call on the leaves of its wrappers, its halves run under the layer."""
        lift = _Lift(self, layer, inputs)
        below = current_level().below
        assert below is not None
        with at_level(below):
            return lift.rewrapped(apply(lift.call(), *lift.leaves))


def _differentiate(op: CustomCall, inputs: Flat, wanted: Sequence[bool], backward: CustomBackward) -> Flat:
    outputs, residuals = op.forward(inputs)
    specs = [spec_of(value) for value in inputs]

    def run(cotangents: Flat) -> list[Any]:
        gradients = list(op.backward(residuals, cotangents))
        if len(gradients) != len(specs):
            raise RuleError(
                f"the backward of {op.label} gave {len(gradients)} gradients for {len(specs)} inputs; "
                "return one for each, None where there is none"
            )
        return [_checked(op.label, i, g, specs[i]) for i, g in enumerate(gradients)]

    backward.op_name = op.label
    backward.backward = run
    backward.input_has_grads = list(wanted)
    backward.output_attrs = [OutputAttr(spec_of(value).dtype.kind in "fc") for value in outputs]
    return outputs


def _checked(label: str, i: int, gradient: Any, spec: Any) -> Any:
    """One gradient as a value of its input's shape and dtype. Raises RuleError where it is neither."""
    if gradient is None:
        return None
    got = spec_of(gradient)
    if got.weak and got.shape == spec.shape and not isinstance(gradient, Wrapper):
        return np.asarray(gradient, spec.dtype)
    if got.shape != spec.shape or got.dtype != spec.dtype:
        raise RuleError(f"the backward of {label} gave {got!r} as the gradient of input {i}, which is {spec!r}")
    return gradient


register_grad_rule(CustomCall, _differentiate)


def zeros_of(described: tuple[Any, Any]) -> Any:
    """Zeros of a `(shape value, dtype)`, made by operators."""
    shape, dtype = described
    return apply(BroadcastTo(), np.zeros((), dtype), shape)[0]


def described(value: Any) -> tuple[Any, Any]:
    """What `zeros_of` needs to know of a value; keeps no data alive."""
    return shape_value(value), spec_of(value).dtype


def _wrapped(value: Any, layer: Transformation) -> bool:
    return isinstance(value, Wrapper) and value.scope is layer.scope


def _under(layer: Transformation, run: Callable[[], Any]) -> Any:
    """Run with `layer` on top of the current position."""
    with at_level(Level(layer, current_level())):
        return run()


def _unflattened(layer: Transformation, template: Wrapper | None, leaves: Flat) -> Any:
    """A value as `layer` sees it, from its leaves."""
    if template is None:
        return leaves[0]
    value = template.unflatten(tuple(leaves))
    assert layer.scope is not None
    value.scope = layer.scope
    return value


class _Lift:
    """One call on its way through one layer that wrapped some of its inputs."""

    def __init__(self, op: CustomCall, layer: Transformation, inputs: Flat) -> None:
        self.op = op
        self.layer = layer
        self.templates = [value if _wrapped(value, layer) else None for value in inputs]
        parts = [value.flatten() if _wrapped(value, layer) else (value,) for value in inputs]
        self.counts = [len(part) for part in parts]
        self.leaves = [leaf for part in parts for leaf in part]
        self.outputs: list[tuple[Wrapper | None, int]] = []

    def call(self) -> CustomCall:
        return CustomCall(self.op.label, self.function, self.forward, self.backward)

    def values(self, layer: Transformation, leaves: Flat) -> list[Any]:
        rest = iter(leaves)
        return [
            _unflattened(layer, template, [next(rest) for _ in range(count)])
            for template, count in zip(self.templates, self.counts, strict=True)
        ]

    def flat(self, outputs: Flat) -> list[Any]:
        """The leaves of the outputs; remembers how to put them together again."""
        flat: list[Any] = []
        self.outputs = []
        for value in outputs:
            mine = _wrapped(value, self.layer)
            leaves = value.flatten() if mine else (value,)
            self.outputs.append((value if mine else None, len(leaves)))
            flat += leaves
        return flat

    def rewrapped(self, leaves: Flat) -> list[Any]:
        rest = iter(leaves)
        return [_unflattened(self.layer, template, [next(rest) for _ in range(n)]) for template, n in self.outputs]

    def function(self, leaves: Flat) -> list[Any]:
        return self.flat(_under(self.layer, lambda: self.op.function(self.values(self.layer, leaves))))

    def forward(self, leaves: Flat) -> tuple[list[Any], Any]:
        outputs, residuals = _under(self.layer, lambda: self.op.forward(self.values(self.layer, leaves)))
        flat = self.flat(outputs)
        return flat, (_packed(residuals, self.layer), list(map(described, flat)))

    def backward(self, kept: Any, cotangents: Flat) -> list[Any]:
        packed, shapes = kept
        layer = self.layer.renewed()
        residuals = _unpacked(packed, layer)
        rest = iter(zip(cotangents, shapes, strict=True))
        seen: list[Any] = []
        for template, count in self.outputs:
            part = [next(rest) for _ in range(count)]
            if all(c is None for c, _ in part):
                seen.append(None)
            else:
                filled = [zeros_of(shape) if c is None else c for c, shape in part]
                seen.append(_unflattened(layer, template, filled))
        gradients = _under(layer, lambda: self.op.backward(residuals, seen))
        flat: list[Any] = []
        for gradient, template, count in zip(gradients, self.templates, self.counts, strict=True):
            flat += (None,) * count if gradient is None else layer.gradient_for(gradient, template)
        return flat


def _push(op: CustomCall, primals: Flat, tangents: Flat) -> tuple[Flat, Flat]:
    """The tangents of the outputs: by the call's own rule, or by transposing its backward half.

    Raises RuleError where that is not linear in the cotangents, or cannot be recorded to find out.
    """
    if op.jvp is not None:
        return op.jvp(primals, tangents)
    outputs, residuals = op.forward(primals)
    floating = [i for i, y in enumerate(outputs) if spec_of(y).dtype.kind in "fc"]
    moving = [i for i, t in enumerate(tangents) if t is not None]
    points = [zeros_of(described(outputs[i])) for i in floating]
    inputs = [described(primals[i]) for i in moving]

    def pulled(cotangents: Flat) -> list[Any]:
        given: list[Any] = [None] * len(outputs)
        for i, cotangent in zip(floating, cotangents, strict=True):
            given[i] = cotangent
        gradients = op.backward(residuals, given)
        return [
            zeros_of(like) if gradients[i] is None else gradients[i] for i, like in zip(moving, inputs, strict=True)
        ]

    ask = f"forward mode through {op.label} needs a tangent rule (custom_jvp)"
    try:
        program, _ = record_flat(pulled, [spec_of(point) for point in points])
    except TraceError as error:
        raise RuleError(f"{ask}: its backward half reads data, so it cannot be transposed ({error})") from None
    if not is_linear(program):
        raise RuleError(f"{ask}: its backward half is not linear in the cotangent, so it has no transpose")
    _, push = vjp(lambda *cs: tuple(map(from_value, pulled([c._value for c in cs]))), *map(from_value, points))
    found = push(tuple(from_value(tangents[i]) for i in moving))
    pushed: list[Any] = [None] * len(outputs)
    for i, tangent in zip(floating, found, strict=True):
        pushed[i] = tangent._value
    return outputs, pushed


register_jvp_rule(CustomCall, _push)


class _Recipe:
    """How residuals are put together again from values: their structure, and the layer's wrappers among them."""

    def __init__(self, structure: Any, leaves: list[tuple[bool, Wrapper | None, int]]) -> None:
        self.structure = structure
        self.leaves = leaves


def _packed(residuals: Any, layer: Transformation) -> tuple[list[Any], _Recipe]:
    """Residuals as values below `layer`, which may go through further layers in turn, and the recipe."""
    leaves, structure = pytree.flatten(residuals)
    values: list[Any] = []
    recipe: list[tuple[bool, Wrapper | None, int]] = []
    for leaf in leaves:
        value = read(leaf) if isinstance(leaf, Tensor) else leaf
        mine = _wrapped(value, layer)
        parts = value.flatten() if mine else (value,)
        recipe.append((isinstance(leaf, Tensor), value if mine else None, len(parts)))
        values += parts
    return values, _Recipe(structure, recipe)


def _unpacked(packed: tuple[list[Any], _Recipe], layer: Transformation) -> Any:
    values, recipe = packed
    rest = iter(values)
    leaves = []
    for handle, template, count in recipe.leaves:
        value = _unflattened(layer, template, [next(rest) for _ in range(count)])
        leaves.append(from_value(value) if handle else value)
    return pytree.unflatten(recipe.structure, leaves)
