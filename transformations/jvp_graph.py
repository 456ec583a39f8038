"""From the tangent rule of an operator to the program that runs beside it in forward mode.

An operator without a jvp rule gets one from its vjp rule: a backward program is linear in the output gradients, so
differentiating it by them, along the tangents, transposes it back (Radul et al., "You only linearize once", 2023,
tell the opposite direction of the same fact).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from interp import OpDef, RuleError, Spec, Subgraph, Tensor, apply, rules
from interp.dtypes import is_floating
from interp.evaluate import infer
from interp.operator import memo
from interp.recorder import record_flat
from interp.subgraph import SHAPE
from interp.tensor import from_value
from interp.value import spec_of
from ops.broadcasting import BroadcastTo, shape_value

from .backward_graph import checked_changes, make_backward_graph, shared_shapes, signature
from .gradient import vjp

__all__ = ["JvpGraph", "is_linear", "jvp_graph_for", "make_jvp_graph"]


class JvpGraph:
    """The tangents of one operator as a program.

    `graph` takes the inputs, the outputs and the tangents of the inputs that have one, and returns the tangents of
    the outputs that `output_has_tangent` marks; the others are zero.
    """

    __slots__ = ("graph", "output_has_tangent", "specific")

    def __init__(self, graph: Subgraph, output_has_tangent: Sequence[bool], specific: bool) -> None:
        self.graph = graph
        self.output_has_tangent = tuple(output_has_tangent)
        self.specific = specific

    def __repr__(self) -> str:
        return f"<JvpGraph output_has_tangent={self.output_has_tangent}>\n{self.graph}"


def make_jvp_graph(op: OpDef, inputs: Sequence[Any], inputs_have_tangent: Sequence[bool]) -> JvpGraph:
    """Record the tangents of `op` on inputs with these Specs (values do too).

    Raises RuleError where the operator has neither a jvp nor a vjp rule, or the rule breaks its contract.
    """
    specs = [value if isinstance(value, Spec) else spec_of(value) for value in inputs]
    outputs = infer(op, specs)
    moving = [i for i, has in enumerate(inputs_have_tangent) if has]
    if not any(is_floating(spec.dtype) for spec in outputs):
        return JvpGraph(Subgraph([], {}, [], []), [False] * len(outputs), False)
    has_tangent: list[bool] = []
    rule = rules.jvp.lookup(type(op))

    def body(variables: list[Any]) -> list[Any]:
        handles = list(map(from_value, variables))
        n, m = len(specs), len(outputs)
        tangents: list[Any] = [None] * n
        for i, tangent in zip(moving, handles[n + m :], strict=True):
            tangents[i] = tangent
        if rule is not None:
            result = rules.jvp.run(rule, op, handles[:n], handles[n : n + m], tangents)
        else:
            result = _transposed(op, specs, handles[:n], handles[n : n + m], tangents)
        pushed = checked_changes(op, "jvp", "tangent", "output", result, outputs)
        has_tangent[:] = [tangent is not None for tangent in pushed]
        return [tangent for tangent in pushed if tangent is not None]

    tangent_specs = [Spec(specs[i].shape, specs[i].dtype) for i in moving]
    graph, specific = record_flat(body, [*specs, *outputs, *tangent_specs])
    return JvpGraph(graph, has_tangent, specific)


def _transposed(
    op: OpDef, specs: Sequence[Any], inputs: list[Tensor], outputs: list[Tensor], tangents: Sequence[Any]
) -> list[Any]:
    """The tangents of the outputs, from the backward program: its derivative by the output gradients."""
    if type(op) not in rules.vjp:
        raise RuleError(rules.jvp.missing(op))
    moving = [tangent is not None for tangent in tangents]
    backward = make_backward_graph(op, specs, moving)
    if backward is None:
        return [None] * len(outputs)
    floating = [i for i, y in enumerate(outputs) if is_floating(y.dtype)]

    def pulled(*cotangents: Tensor) -> tuple[Tensor, ...]:
        given: list[Any] = list(outputs)
        for i, cotangent in zip(floating, cotangents, strict=True):
            given[i] = cotangent
        values = [x._value for x in (*inputs, *outputs, *given)]
        return tuple(map(from_value, backward.graph.run(values)))

    points = [
        from_value(apply(BroadcastTo(), np.zeros((), outputs[i].dtype), shape_value(outputs[i]))[0]) for i in floating
    ]
    _, push = vjp(pulled, *points)
    given = [t for t, has in zip(tangents, backward.input_has_grad, strict=True) if has]
    found = push(tuple(given))
    result: list[Any] = [None] * len(outputs)
    for i, tangent in zip(floating, found, strict=True):
        result[i] = tangent
    return result


def is_linear(program: Subgraph) -> bool:
    """Whether every output of the program is linear in its inputs, as far as the tangent rules tell.

    An operator is linear in an input when its tangent program reads neither that input nor the output.
    """
    moving = set(program.inputs)
    for expr in program.exprs:
        places = [i for i, var in enumerate(expr.inputs) if var in moving]
        if not places or expr.op is SHAPE:
            continue
        specs = [program.specs[var] for var in expr.inputs]
        graph = make_jvp_graph(expr.op, specs, [i in places for i in range(len(specs))])  # type: ignore[arg-type]
        if not all(graph.output_has_tangent):
            return False
        read = {var for inner in graph.graph.exprs if inner.op is not SHAPE for var in inner.inputs}
        read.update(graph.graph.outputs)
        given = graph.graph.inputs
        n, m = len(specs), len(expr.outputs)
        if read.intersection([*(given[i] for i in places), *given[n : n + m]]):
            return False
        moving.update(expr.outputs)
    return True


def jvp_graph_for(op: OpDef, values: Sequence[Any], mask: int) -> JvpGraph:
    """The tangent program for these input values, from the cache of the operator."""
    entry = memo(op)
    key = ("jvp", signature(values, mask))
    found = entry.programs.get(key)
    if isinstance(found, JvpGraph):
        return found
    specs = shared_shapes([spec_of(value) for value in values])
    full = (key, tuple(spec.shape if isinstance(spec, Spec) else spec for spec in specs))
    found = entry.programs.get(full)
    if isinstance(found, JvpGraph):
        return found
    graph = make_jvp_graph(op, specs, [bool(mask >> i & 1) for i in range(len(specs))])
    entry.remember(full if graph.specific else key, graph)
    return graph
