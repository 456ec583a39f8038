"""Forward mode: dual numbers, a value and its tangent side by side.

`jvp`, `linearize` and `jacfwd` open a `JvpTransformation` around one call of a function. A tangent that is None is
zero, and nothing is computed for it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from interp import CreateTensor, GetAttr, GradError, OpDef, OperatorError, Segment, Transformation, apply, pytree, rules
from interp.dispatch import deliver
from interp.dtypes import is_floating
from interp.operator import Operator, OperatorKind
from interp.tensor import from_value
from interp.value import (
    LeafWrapper,
    Scope,
    Wrapper,
    computed_from,
    dtype_of,
    layers_of,
    shape_of,
    short,
    spec_of,
)

from .grad_operators import DetachGrad
from .gradient import name_of, positions_of, value_of, zeros_like
from .jvp_graph import jvp_graph_for

__all__ = ["DualValue", "JvpTransformation", "jacfwd", "jvp", "linearize", "register_jvp_rule"]


JvpRule = Callable[[Any, Sequence[Any], Sequence[Any]], "tuple[Sequence[Any], Sequence[Any]]"]
_custom_rules: dict[type[Operator], JvpRule] = {}


def register_jvp_rule(owner: type[OpDef], rule: JvpRule, *, replace: bool = False) -> JvpRule:
    """Give operators of a class a tangent rule that computes the outputs itself.

    `rule(op, primals, tangents)` gets values (None for a zero tangent) and returns the outputs and their tangents.
    Raises GradError when the class has one already.
    """
    if owner in _custom_rules and not replace:
        raise GradError(f"{owner.__name__} already has a custom tangent rule; pass replace=True to give it another")
    _custom_rules[owner] = rule
    return rule


class DualValue(LeafWrapper):
    """A primal value and its tangent, of one shape and dtype."""

    __slots__ = ("origin", "primal", "tangent")

    def __init__(self, scope: Scope, primal: Any, tangent: Any, origin: str = "") -> None:
        self.scope = scope
        self.primal = primal
        self.tangent = tangent
        self.origin = origin  # for errors: which argument it was computed from

    def source(self) -> str:
        return self.origin

    def flatten(self) -> tuple[Any, ...]:
        return (self.primal, self.tangent)

    def unflatten(self, leaves: tuple[Any, ...]) -> DualValue:
        return DualValue(self.scope, leaves[0], leaves[1], self.origin)

    def __repr__(self) -> str:
        return f"DualValue({short(self.primal)}, {short(self.tangent)})"


class JvpTransformation(Transformation):
    """Carries a tangent with every value computed from the inputs."""

    segment: ClassVar[Segment] = Segment.GRAD
    only_wrapped: ClassVar[type[Wrapper] | None] = DualValue

    def dual(self, primal: Any, tangent: Any, origin: str = "") -> DualValue:
        """A dual number of this layer."""
        assert self.scope is not None
        return DualValue(self.scope, primal, tangent, origin)

    def takes_program(self, op: Operator) -> bool:
        """Programs with a tangent rule of their own are pushed forward whole."""
        return type(op) in _custom_rules or type(op) in rules.jvp

    def mine(self, value: Any) -> bool:
        """Whether `value` is a dual number of this layer."""
        return isinstance(value, DualValue) and value.scope is self.scope

    def apply_transformation(self, op: Operator, inputs: Sequence[Any]) -> Sequence[Any]:
        primals = [value.primal if self.mine(value) else value for value in inputs]
        if op.computes:
            return self.push(op, inputs, primals)  # type: ignore[arg-type]
        if isinstance(op, GetAttr) and op.attr in (GetAttr.Attr.VALUE, GetAttr.Attr.DATA) and self.mine(inputs[0]):
            raise GradError(
                f"the data of {short(inputs[0])}{computed_from(inputs[0])} was read under {self.scope!r} (layers: "
                f"{layers_of(inputs[0])}); what is computed from it outside of the stack has no tangent. "
                "Use stop_gradient(x) first if that is meant, or stay with ops"
            )
        if isinstance(op, DetachGrad):
            return apply(op, primals[0]) if op.everywhere or not self.mine(inputs[0]) else (primals[0],)
        if op.kind is OperatorKind.IDENTITY_LIKE and self.mine(inputs[0]):
            return (self.dual(apply(op, *primals)[0], inputs[0].tangent, inputs[0].origin),)
        if isinstance(op, CreateTensor):
            return apply(op, *inputs)
        return apply(op, *primals)

    def push(self, op: OpDef, inputs: Sequence[Any], primals: list[Any]) -> Sequence[Any]:
        """Run a computing operator below, and its tangent program where an input has a tangent."""
        mask = 0
        tangents: list[Any] = []
        origin = ""
        for i, value in enumerate(inputs):
            if self.mine(value):
                mask += 1 << i
                tangents.append(value.tangent)
                origin = origin or value.origin
        if not mask:
            return deliver(op, primals)
        if type(op) in _custom_rules:
            given = [value.tangent if self.mine(value) else None for value in inputs]
            outputs, moves = _custom_rules[type(op)](op, primals, given)
            return [v if t is None else self.dual(v, t, origin) for v, t in zip(outputs, moves, strict=True)]
        outputs = deliver(op, primals)
        graph = jvp_graph_for(op, primals, mask)
        with np.errstate(all="ignore"):
            pushed = iter(graph.graph.run([*primals, *outputs, *tangents]) if any(graph.output_has_tangent) else ())
        return [
            self.dual(value, next(pushed), origin) if has else value
            for value, has in zip(outputs, graph.output_has_tangent, strict=True)
        ]


def _checked_tangent(f: Callable[..., Any], where: str, primal: Any, tangent: Any) -> Any:
    if not is_floating(dtype_of(primal)):
        raise GradError(f"{where} of {name_of(f)} is {short(primal)}; tangents are of floating values")
    got, wanted = spec_of(tangent), spec_of(primal)
    if got.shape != wanted.shape or (got.dtype != wanted.dtype and not got.weak):
        raise GradError(f"{where} of {name_of(f)} is {wanted!r}, but its tangent is {got!r}")
    if got.weak and not isinstance(tangent, Wrapper):
        return np.asarray(tangent, wanted.dtype)
    return tangent


def _pushed(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, list[Any], list[Any]]:
    """The structure of the output of `f`, its primal leaves, and their tangents."""
    names, leaves, tree = pytree.flatten_arguments(tuple(primals))
    moves, structure = pytree.flatten(tuple(tangents))
    if structure != tree:
        raise GradError(f"the tangents have the structure {structure}, the primals of {name_of(f)} {tree}")
    layer = JvpTransformation()
    with layer:
        duals = []
        for name, leaf, move in zip(names, leaves, moves, strict=True):
            primal = value_of(leaf)
            tangent = _checked_tangent(f, name, primal, value_of(move))
            duals.append(layer.dual(primal, tangent, f"{name} of {name_of(f)}"))
        result = f(*pytree.unflatten(tree, list(map(from_value, duals))))
        outputs, out_tree = pytree.flatten(result)
        values = [value_of(leaf) for leaf in outputs]
        primal_out = [value.primal if layer.mine(value) else value for value in values]
        tangent_out = [value.tangent if layer.mine(value) else None for value in values]
    return out_tree, primal_out, [
        zeros_like(p) if t is None else t for p, t in zip(primal_out, tangent_out, strict=True)
    ]


def jvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """`(f(*primals), tangent_out)`: the derivative of `f` along `tangents`.

    `primals` and `tangents` are tuples of one structure. Raises GradError where structures, shapes or dtypes of
    primals and tangents differ.

    >>> import interp, ops
    >>> jvp(lambda x: x * x, (interp.tensor(3.0),), (interp.tensor(1.0),))
    (tensor(9.), tensor(6.))
    """
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise OperatorError("jvp takes tuples of primals and tangents: jvp(f, (x,), (v,))")
    tree, outputs, pushed = _pushed(f, primals, tangents)
    return (
        pytree.unflatten(tree, list(map(from_value, outputs))),
        pytree.unflatten(tree, list(map(from_value, pushed))),
    )


def linearize(f: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """`(f(*primals), f_jvp)`: `f_jvp(*tangents)` is the derivative of `f` at `primals` along tangents.

    >>> import interp
    >>> y, push = linearize(lambda x: x * x, interp.tensor(3.0))
    >>> push(interp.tensor(2.0))
    tensor(12.)
    """
    result = f(*primals)

    def push(*tangents: Any) -> Any:
        return jvp(f, primals, tangents)[1]

    return result, push


def jacfwd(f: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """A function that returns the Jacobian of `f` by argument `argnums`, an input element at a time.

    For an output of shape S and a leaf of shape T, an array of shape S + T, as `jacrev` gives.

    >>> import interp
    >>> jacfwd(lambda x: x * x)(interp.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """

    @functools.wraps(f)
    def jacobian(*args: Any, **options: Any) -> Any:
        positions = positions_of(f, argnums, len(args))

        def by(*moving: Any) -> Any:
            given = list(args)
            for i, arg in zip(positions, moving, strict=True):
                given[i] = arg
            return f(*given, **options)

        primals = tuple(args[i] for i in positions)
        leaves, tree = pytree.flatten(primals)
        values = [value_of(leaf) for leaf in leaves]
        columns = [_columns(by, values, tree, i) for i in range(len(values))]
        out_tree = columns[0][0] if columns else pytree.structure_of(f(*args, **options))
        rows = []
        for o in range(out_tree.num_leaves):
            inner = pytree.unflatten(tree, [leaf_columns[o] for _, leaf_columns in columns])
            rows.append(inner[0] if isinstance(argnums, int) else inner)
        return pytree.unflatten(out_tree, rows)

    return jacobian


def _columns(f: Callable[..., Any], values: list[Any], tree: Any, moving: int) -> tuple[Any, list[Any]]:
    """The structure of the output, and for each of its leaves the Jacobian by one leaf of the arguments."""
    from ops.joining import stack
    from ops.manipulation import reshape

    shape, dtype = shape_of(values[moving]), dtype_of(values[moving])
    size = int(np.prod(shape, dtype=int))
    primals = pytree.unflatten(tree, list(map(from_value, values)))
    zeros = list(map(zeros_like, values))
    pushed: list[list[Any]] = []
    out_tree, outputs, _ = _pushed(f, primals, pytree.unflatten(tree, list(map(from_value, zeros))))
    for element in range(size):
        direction = np.zeros(size, dtype)
        direction[element] = 1
        tangents = [direction.reshape(shape) if i == moving else zero for i, zero in enumerate(zeros)]
        pushed.append(_pushed(f, primals, pytree.unflatten(tree, list(map(from_value, tangents))))[2])
    leaves = []
    for o, output in enumerate(outputs):
        full = (*shape_of(output), *shape)
        if size:
            stacked = stack([from_value(row[o]) for row in pushed], axis=-1)
            leaves.append(reshape(stacked, full))
        else:
            leaves.append(from_value(np.zeros(full, dtype_of(output))))
    return out_tree, leaves
