"""`vmap`: a function of one example, run on many at once.

A `VmapTransformation` gives each value that varies between the examples one axis more than the function sees. How an
operator works on such values is its batch rule; an operator without one is run example by example, and says so once.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from interp import (
    CreateTensor,
    GetAttr,
    IsScalar,
    OpDef,
    RuleError,
    Segment,
    ShapeError,
    Spec,
    TraceError,
    Transformation,
    apply,
    pytree,
    rules,
)
from interp.dispatch import deliver
from interp.dtypes import DType
from interp.operator import Operator, OperatorKind
from interp.tensor import from_value
from interp.value import Scope, Wrapper, computed_from, dtype_of, layers_of, shape_of, short, spec_of

from .gradient import name_of, value_of

__all__ = ["BatchedValue", "VmapTransformation", "vmap"]


class BatchedValue(Wrapper):
    """A value that varies between the examples: `axis` of `value` counts them, and is not seen from above."""

    __slots__ = ("axis", "origin", "value")

    def __init__(self, scope: Scope, value: Any, axis: int, origin: str = "") -> None:
        self.scope = scope
        self.value = value
        self.axis = axis
        self.origin = origin  # for errors: which argument it was computed from

    def source(self) -> str:
        return self.origin

    def flatten(self) -> tuple[Any, ...]:
        return (self.value,)

    def unflatten(self, leaves: tuple[Any, ...]) -> BatchedValue:
        return BatchedValue(self.scope, leaves[0], self.axis, self.origin)

    @property
    def shape(self) -> tuple[int, ...]:
        full = shape_of(self.value)
        return full[: self.axis] + full[self.axis + 1 :]

    @property
    def dtype(self) -> DType:
        return dtype_of(self.value)

    @property
    def weak(self) -> bool:
        return False

    @property
    def ndim(self) -> int:
        below = self.value
        return int(below.ndim) - 1

    def symbolic_spec(self) -> Any:
        spec = spec_of(self.value)
        return Spec(spec.shape[: self.axis] + spec.shape[self.axis + 1 :], spec.dtype)

    def __repr__(self) -> str:
        return f"BatchedValue(axis {self.axis} of {short(self.value)})"


class VmapTransformation(Transformation):
    """Runs every operator on all examples at once, by its batch rule."""

    segment: ClassVar[Segment] = Segment.MIDDLE
    only_wrapped: ClassVar[type[Wrapper] | None] = BatchedValue

    def __init__(self, size: int) -> None:
        self.size = size

    def batched(self, value: Any, axis: int, origin: str = "") -> BatchedValue:
        """A value of this layer, of which `axis` counts the examples."""
        assert self.scope is not None
        return BatchedValue(self.scope, value, axis, origin)

    def mine(self, value: Any) -> bool:
        """Whether `value` varies between the examples of this layer."""
        return isinstance(value, BatchedValue) and value.scope is self.scope

    def apply_transformation(self, op: Operator, inputs: Sequence[Any]) -> Sequence[Any]:
        mine = [self.mine(value) for value in inputs]
        if not any(mine):
            return apply(op, *inputs)
        if op.computes:
            return self.vectorize(op, inputs, mine)  # type: ignore[arg-type]
        if isinstance(op, GetAttr) and op.attr in (GetAttr.Attr.VALUE, GetAttr.Attr.DATA, GetAttr.Attr.TRUTH):
            what = "a Python branch on" if op.attr is GetAttr.Attr.TRUTH else "the data of"
            raise TraceError(
                f"{what} {inputs[0]!r}{computed_from(inputs[0])} was asked for under {self.scope!r} (layers: "
                f"{layers_of(inputs[0])}): it differs between the {self.size} "
                "examples. Use ops.where to choose by value, or return it from the function to read it"
            )
        if isinstance(op, GetAttr) and op.attr is GetAttr.Attr.SHAPE:
            return (inputs[0].shape,)
        if isinstance(op, IsScalar):
            return (not inputs[0].ndim,)
        values = [value.value if m else value for value, m in zip(inputs, mine, strict=True)]
        outputs = apply(op, *values)
        if op.kind is OperatorKind.IDENTITY_LIKE or isinstance(op, CreateTensor):
            return [self.batched(outputs[0], inputs[0].axis)]
        return outputs

    def vectorize(self, op: OpDef, inputs: Sequence[Any], mine: Sequence[bool]) -> Sequence[Any]:
        """Run a computing operator on all examples."""
        values = [value.value if m else value for value, m in zip(inputs, mine, strict=True)]
        axes = [value.axis if m else None for value, m in zip(inputs, mine, strict=True)]
        rule = rules.batch.lookup(type(op))
        if rule is None:
            return self.loop(op, values, axes)
        handles = [value if isinstance(value, tuple) else from_value(value) for value in values]
        try:
            outputs, out_axes = rule(op, self.size, handles, axes)
        except Exception as error:
            error.add_note(f"in {rules.batch.blame(op)}")
            raise
        if len(outputs) != len(out_axes):
            raise RuleError(
                f"the batch rule of {type(op).__name__} gave {len(outputs)} outputs and {len(out_axes)} axes"
            )
        results = []
        for output, axis in zip(outputs, out_axes, strict=True):
            value = getattr(output, "_value", output)
            shape = shape_of(value)
            if axis is not None and not (-len(shape) <= axis < len(shape) and shape[axis] == self.size):
                raise RuleError(
                    f"the batch rule of {type(op).__name__} says that axis {axis} of {short(value)} counts the "
                    f"{self.size} examples"
                )
            origin = next(value.origin for value, m in zip(inputs, mine, strict=True) if m)
            place = None if axis is None else axis % len(shape)
            results.append(value if place is None else self.batched(value, place, origin))
        return results

    def gradient_for(self, gradient: Any, template: Wrapper | None) -> tuple[Any, ...]:
        """A gradient summed over the examples where its input was the same for all, spread where it varied."""
        from ops.broadcasting import broadcast_to
        from ops.manipulation import expand_dims, moveaxis
        from ops.reduction import sum as sum_over

        if template is None:
            if not self.mine(gradient):
                return (gradient,)
            return (sum_over(from_value(gradient.value), axis=gradient.axis)._value,)
        assert isinstance(template, BatchedValue)
        if self.mine(gradient):
            return (moveaxis(from_value(gradient.value), gradient.axis, template.axis)._value,)
        wide = expand_dims(from_value(gradient), axis=template.axis)
        shape = shape_of(gradient)
        full = (*shape[: template.axis], self.size, *shape[template.axis :])
        return (broadcast_to(wide, full)._value,)

    def loop(self, op: OpDef, values: Sequence[Any], axes: Sequence[int | None]) -> Sequence[Any]:
        """Run an operator without a batch rule example by example."""
        from ops.joining import stack, unstack

        _say_once(type(op).__name__)
        parts = [
            None if axis is None else unstack(from_value(value), axis=axis)
            for value, axis in zip(values, axes, strict=True)
        ]
        rows = []
        for i in range(self.size):
            given = [v if part is None else part[i]._value for v, part in zip(values, parts, strict=True)]
            rows.append(deliver(op, given))
        if not rows:
            raise RuleError(rules.batch.missing(op) + "\n(there are no examples to loop over)")
        return [self.batched(stack([from_value(row[k]) for row in rows])._value, 0) for k in range(len(rows[0]))]


@functools.lru_cache(maxsize=1024)
def _say_once(name: str) -> None:
    warnings.warn(
        f"vmap runs {name} example by example: it has no batch rule. Write one with @rules.batch.register({name})",
        stacklevel=2,
    )


def _axes_for(tree: Any, axes: Any, what: str) -> list[Any]:
    """The axis of each leaf, from axes given for it or for a part of the pytree that it lies in."""
    if axes is None or isinstance(axes, int):
        return [axes] * len(pytree.leaves_of(tree))
    if isinstance(tree, dict) and isinstance(axes, dict) and tree.keys() == axes.keys():
        ordered = sorted(tree)
        return [axis for key in ordered for axis in _axes_for(tree[key], axes[key], f"{what}[{key!r}]")]
    if isinstance(tree, (tuple, list)) and isinstance(axes, (tuple, list)) and len(tree) == len(axes):
        pairs = enumerate(zip(tree, axes, strict=True))
        return [axis for i, (part, given) in pairs for axis in _axes_for(part, given, f"{what}[{i}]")]
    raise ShapeError(f"vmap: {what} is {axes!r}, which does not fit the structure {pytree.structure_of(tree)}")


def _size_of(f: Any, names: list[str], values: list[Any], axes: list[Any], size: int | None) -> int:
    """How many examples there are. Raises ShapeError where the arguments disagree."""
    found: dict[int, str] = {} if size is None else {size: "axis_size"}
    for name, value, axis in zip(names, values, axes, strict=True):
        if axis is None:
            continue
        shape = shape_of(value)
        if not -len(shape) <= axis < len(shape):
            raise ShapeError(f"vmap({name_of(f)}): {name} is {short(value)}, which has no axis {axis}")
        found.setdefault(shape[axis], f"{name} ({short(value)}, axis {axis})")
    if len(found) > 1:
        listed = "; ".join(f"{length} by {where}" for length, where in found.items())
        raise ShapeError(f"vmap({name_of(f)}): the arguments count different numbers of examples: {listed}")
    if not found:
        raise ShapeError(f"vmap({name_of(f)}): no argument is mapped over; give in_axes or axis_size")
    return next(iter(found))


def vmap(
    f: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0, axis_size: int | None = None
) -> Callable[..., Any]:
    """A function that runs `f`, written for one example, on many.

    `in_axes` says for each argument (or each part of a pytree) which axis counts the examples; None: it is the same
    for all. `out_axes` says where that axis stands in the results. Raises ShapeError where arguments disagree on the
    number of examples, or a result that varies is given no axis.

    >>> import interp, ops
    >>> dot = lambda x, y: ops.sum(x * y)
    >>> vmap(dot, in_axes=(0, None))(interp.tensor([[1.0, 2.0], [3.0, 4.0]]), interp.tensor([1.0, 1.0]))
    tensor([3., 7.])
    """

    @functools.wraps(f)
    def mapped(*args: Any) -> Any:
        from ops.joining import stack  # noqa: F401 - loaded before the layer opens

        given = list(in_axes) if isinstance(in_axes, (tuple, list)) else [in_axes] * len(args)
        axes = _axes_for(list(args), given, "in_axes")
        names, leaves, structure = pytree.flatten_arguments(args)
        values = [value_of(leaf) for leaf in leaves]
        size = _size_of(f, names, values, axes, axis_size)
        layer = VmapTransformation(size)
        with layer:
            wrapped = [
                from_value(
                    value
                    if axis is None
                    else layer.batched(value, axis % len(shape_of(value)), f"{name} of {name_of(f)}")
                )
                for name, value, axis in zip(names, values, axes, strict=True)
            ]
            result = f(*pytree.unflatten(structure, wrapped))
            outputs, out_structure = pytree.flatten(result)
            places = _axes_for(result, out_axes, "out_axes")
            results = [(value_of(leaf), place) for leaf, place in zip(outputs, places, strict=True)]
            settled = [(v.value, v.axis, place) if layer.mine(v) else (v, None, place) for v, place in results]
        return pytree.unflatten(out_structure, [_placed(f, size, *each) for each in settled])

    return mapped


def _placed(f: Any, size: int, value: Any, axis: int | None, place: int | None) -> Any:
    """A result with the axis of the examples where it is to stand."""
    from ops.broadcasting import broadcast_to
    from ops.manipulation import expand_dims, moveaxis

    x = from_value(value)
    if axis is None:
        if place is None:
            return x
        wide = broadcast_to(expand_dims(x, axis=0), (size, *shape_of(value)))
        return moveaxis(wide, 0, place)
    if place is None:
        raise ShapeError(f"vmap({name_of(f)}): out_axes is None for a result that varies between the examples: {x!r}")
    return x if axis == place else moveaxis(x, axis, place)
