"""From the gradient rule of an operator to the program that runs in a backward pass, and what it keeps.

`make_backward_graph` records the rule once as a `Subgraph` over (inputs, outputs, output gradients);
`OptimizedBackwardGraph` splits it into what runs at once in the forward pass (`precomp`: what is smaller than the
values that it is computed from, shapes above all) and what runs later (`backward`), and says which values must be
kept in between. Both are cached by operator, dtypes, ranks, equality of shapes and the mask of inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from interp import DTypeError, RuleError, Spec, Subgraph, Tensor, rules
from interp.dtypes import is_floating
from interp.evaluate import infer
from interp.operator import Operator, memo
from interp.recorder import record_flat
from interp.subgraph import SHAPE, Expr
from interp.tensor import from_value
from interp.value import spec_of

__all__ = ["BackwardGraph", "OptimizedBackwardGraph", "Share", "make_backward_graph"]

ndarray = np.ndarray


class BackwardGraph:
    """The gradient of one operator as a program.

    `graph` takes the inputs, outputs and output gradients of the operator, and returns the gradients of the
    inputs that `input_has_grad` marks. `save_for_backward` marks which of its arguments it reads.
    """

    __slots__ = ("graph", "input_has_grad", "save_for_backward", "specific")

    def __init__(self, graph: Subgraph, input_has_grad: Sequence[bool], specific: bool) -> None:
        self.graph = graph
        self.input_has_grad = tuple(input_has_grad)
        read = {var for expr in graph.exprs for var in expr.inputs} | set(graph.outputs)
        self.save_for_backward = tuple(var in read for var in graph.inputs)
        self.specific = specific

    def __repr__(self) -> str:
        return f"<BackwardGraph input_has_grad={self.input_has_grad}>\n{self.graph}"


def make_backward_graph(
    op: Operator, inputs: Sequence[Any], inputs_require_grad: Sequence[bool] | None = None
) -> BackwardGraph | None:
    """Record the gradient of `op` on inputs with these Specs (values do too); None where there is none.

    Raises RuleError where the operator has no vjp rule, or where its rule gives a wrong number of gradients,
    or one of another shape or dtype than its input.

    >>> import ops
    >>> f4 = Spec((2,), "float32")
    >>> make_backward_graph(ops.Elemwise("EXP"), [f4]).save_for_backward
    (False, True, True)
    """
    specs = [value if isinstance(value, Spec) else spec_of(value) for value in inputs]
    wanted = [True] * len(specs) if inputs_require_grad is None else list(inputs_require_grad)
    outputs = infer(op, specs)
    if not any(is_floating(spec.dtype) for spec in outputs):
        return None
    rule = rules.vjp.require(op)
    has_grad: list[bool] = []

    def body(variables: list[Any]) -> list[Any]:
        handles = list(map(from_value, variables))
        n, m = len(specs), len(outputs)
        result = rules.vjp.run(rule, op, handles[:n], handles[n : n + m], handles[n + m :])
        gradients = checked_changes(op, "vjp", "gradient", "input", result, specs)
        has_grad[:] = [g is not None and w for g, w in zip(gradients, wanted, strict=True)]
        return [g for g, has in zip(gradients, has_grad, strict=True) if has]

    cotangents = [Spec(spec.shape, spec.dtype) for spec in outputs]
    graph, specific = record_flat(body, [*specs, *outputs, *cotangents])
    return BackwardGraph(graph, has_grad, specific) if any(has_grad) else None


def checked_changes(op: Operator, rule: str, change: str, place: str, result: Any, specs: Sequence[Any]) -> list[Any]:
    """What a derivative rule gave, as values: one for each spec, of its shape and dtype, or None.

    Raises RuleError, which puts the fault with the rule (`rule`: "vjp", `change`: "gradient", `place`: "input").
    """
    name = type(op).__name__
    if result is None:
        raise RuleError(
            f"the {rule} rule of {name} returned nothing; return one {change} for each {place} (None: there is none)"
        )
    changes = list(result) if isinstance(result, (list, tuple)) else [result]
    if len(changes) != len(specs):
        raise RuleError(
            f"the {rule} rule of {name} gave {len(changes)} {change}s for {len(specs)} {place}s ({op!r})"
        )
    values: list[Any] = []
    for i, (given, spec) in enumerate(zip(changes, specs, strict=True)):
        value = given._value if isinstance(given, Tensor) else given
        values.append(value)
        if value is None:
            continue
        try:
            got = spec_of(value)
        except DTypeError as error:
            raise RuleError(f"the {rule} rule of {name} gave no {change} of {place} {i}: {error}") from None
        if not isinstance(spec, Spec) or got.shape != spec.shape or got.dtype != spec.dtype:
            raise RuleError(
                f"the {rule} rule of {name} gave {got!r} as the {change} of {place} {i}, which is {spec!r} ({op!r})"
            )
    return values


class Share:
    """A contribution to a gradient that is not computed yet, so that many can be added up in one operator."""

    __slots__ = ("inputs", "op")

    def __init__(self, op: Operator, inputs: list[Any]) -> None:
        self.op = op
        self.inputs = inputs


class OptimizedBackwardGraph:
    """A `BackwardGraph` split into `precomp` (run in the forward pass) and `backward` (run in the backward pass).

    `save_for_backward` marks which of [inputs, outputs, output gradients] are kept as they are for `backward`,
    whose arguments are the results of `precomp`, then those. `shares` says for which gradients the last operator
    is left to the one who accumulates.
    """

    __slots__ = (
        "backward", "copies", "grads_read", "input_has_grad", "keep", "keeps_inputs", "mask", "n_outputs", "precomp",
        "save_for_backward", "shares", "single",
    )  # fmt: skip

    def __init__(self, graph: BackwardGraph, n_inputs: int) -> None:
        source = graph.graph
        n_outputs = (len(source.inputs) - n_inputs) // 2
        cotangents = source.inputs[n_inputs + n_outputs :]
        forward = _forward_part(source, cotangents)
        moved = forward if _saves_memory(source, forward) else [e for e in forward if e.op is SHAPE]
        later = [expr for expr in source.exprs if expr not in moved]
        later, results, self.shares = _split_shares(source, later)
        read = {var for expr in later for var in expr.inputs} | set(results)
        ready = [var for expr in moved for var in expr.outputs if var in read]
        arguments = [*ready, *(var for var in source.inputs if var in read)]
        given = source.inputs[: n_inputs + n_outputs]
        self.n_outputs = n_outputs
        self.input_has_grad = graph.input_has_grad
        self.mask = sum(1 << i for i, has in enumerate(graph.input_has_grad) if has)
        self.save_for_backward = tuple(var in read for var in source.inputs)
        self.grads_read = self.save_for_backward[n_inputs + n_outputs :]
        kept_inputs = [i for i in range(n_inputs) if self.save_for_backward[i]]
        kept_outputs = [i for i in range(n_outputs) if self.save_for_backward[n_inputs + i]]
        self.keep = _keeper(kept_inputs, kept_outputs)
        self.keeps_inputs = kept_inputs == [*range(n_inputs)] and not kept_outputs  # all of them, and nothing else
        constants = source.constants
        self.precomp: Subgraph | None = None
        if ready:
            self.precomp = Subgraph(given, constants, moved, ready, source.specs).without_dead_code()
        self.backward = Subgraph(arguments, constants, later, results, source.specs).without_dead_code()
        self.single = n_outputs == 1 and self.grads_read[0] and not self.shares
        # Of a sum: how many gradients there are, each of them the output gradient as it is.
        self.copies = len(results) if self.single and results == [*cotangents] * len(results) else 0

    def select(
        self, mask: int, parents: list[Any], slots: list[int] | None
    ) -> tuple[list[Any], list[int] | None]:
        """Of the entries and slots of the attached inputs, those whose input has a gradient."""
        used = [has for i, has in enumerate(self.input_has_grad) if mask >> i & 1]
        left = [parent for parent, has in zip(parents, used) if has]
        return left, None if slots is None else [slot for slot, has in zip(slots, used) if has]

    def __repr__(self) -> str:
        kept = "".join("x" if save else "." for save in self.save_for_backward)
        return f"<OptimizedBackwardGraph keeps {kept}>\n{self.precomp or 'no precomp'}\n{self.backward}"


Keeper = Callable[[Sequence[Any], Sequence[Any]], tuple[Any, ...]]


def _keeper(inputs: Sequence[int], outputs: Sequence[int]) -> Keeper | None:
    """A function that picks these inputs and outputs out; None where there are none."""
    if not inputs and not outputs:
        return None
    if len(inputs) == 1 and not outputs:
        i = inputs[0]
        return lambda x, y: (x[i],)
    if len(outputs) == 1 and not inputs:
        o = outputs[0]
        return lambda x, y: (y[o],)
    if len(inputs) == 2 and not outputs:
        i, j = inputs
        return lambda x, y: (x[i], x[j])
    return lambda x, y: tuple([x[i] for i in inputs] + [y[o] for o in outputs])


def _forward_part(source: Subgraph, cotangents: Sequence[int]) -> list[Expr]:
    """The expressions that need no output gradient."""
    later = set(cotangents)
    forward: list[Expr] = []
    for expr in source.exprs:
        if later.intersection(expr.inputs):
            later.update(expr.outputs)
        else:
            forward.append(expr)
    return forward


def _saves_memory(source: Subgraph, forward: list[Expr]) -> bool:
    def kept(later: list[Expr]) -> int:
        computed = {var for expr in later for var in expr.outputs} | set(source.constants)
        read = ({var for expr in later for var in expr.inputs} | set(source.outputs)) - computed
        specs = [source.specs[var] for var in read]
        return sum(spec.size * spec.dtype.itemsize for spec in specs if isinstance(spec, Spec))

    shapes = [expr for expr in forward if expr.op is SHAPE]
    return len(forward) > len(shapes) and kept([e for e in source.exprs if e not in forward]) < kept(
        [e for e in source.exprs if e not in shapes]
    )


def _split_shares(
    source: Subgraph, later: list[Expr]
) -> tuple[list[Expr], list[int], dict[int, tuple[Operator, int]]]:
    """Leave out each last operator that has a merge rule: its inputs are returned in the gradient's place."""
    uses: dict[int, int] = {}
    for var in [*(v for expr in later for v in expr.inputs), *source.outputs]:
        uses[var] = uses.get(var, 0) + 1
    makers = {expr.outputs[0]: expr for expr in later if len(expr.outputs) == 1}
    results: list[int] = []
    shares: dict[int, tuple[Operator, int]] = {}
    for position, var in enumerate(source.outputs):
        expr = makers.get(var)
        if expr is not None and uses[var] == 1 and type(expr.op) in rules.merge:
            shares[position] = (expr.op, len(expr.inputs))
            results.extend(expr.inputs)
            later = [other for other in later if other is not expr]
        else:
            results.append(var)
    return later, results, shares


_MISSING = object()


def backward_graph_for(op: Operator, values: Sequence[Any], mask: int) -> OptimizedBackwardGraph | None:
    """The optimized backward graph for these input values, from the cache of the operator."""
    try:
        entry = op._memo
    except AttributeError:
        entry = memo(op)
    key: Any = None
    if len(values) == 2:
        left, right = values
        if type(left) is ndarray and type(right) is ndarray:
            dtype = left.dtype
            shape = left.shape
            if right.dtype is dtype and right.shape == shape:
                recent_mask, recent_dtype, recent_rank, found = entry.recent
                if recent_dtype is dtype and recent_mask == mask and recent_rank == len(shape):
                    return found  # type: ignore[no-any-return]
                key = (mask, dtype, len(shape))
    if key is None:
        key = signature(values, mask)
    found = entry.programs.get(key, _MISSING)
    if found is _MISSING or found is _BY_SHAPE:
        found = _lookup(op, values, mask, key, found is _BY_SHAPE)
    elif len(key) == 3:  # only the key above is that short
        entry.recent = (*key, found)
    return found  # type: ignore[no-any-return]


_BY_SHAPE = object()


def signature(values: Sequence[Any], mask: int) -> Any:
    """What a backward graph depends on: the mask, and dtypes, ranks, weakness and equality of shapes."""
    parts: list[Any] = [mask]
    shapes: list[Any] = []
    for value in values:
        if type(value) is ndarray:
            shape = value.shape
            parts += (value.dtype, None, len(shape))
            shapes.append(shape)
            continue
        spec = spec_of(value)
        if isinstance(spec, Spec):
            kind = type(value) if spec.weak else None  # a Python int and a float promote differently
            parts += (spec.dtype, kind, len(spec.shape))
            shapes.append(spec.shape)
        else:
            parts.append(len(spec))
            shapes.append(spec)
    return (*parts, *map(shapes.index, shapes))


def _lookup(op: Operator, values: Sequence[Any], mask: int, key: Any, by_shape: bool) -> OptimizedBackwardGraph | None:
    entry = memo(op)
    specs = shared_shapes([spec_of(value) for value in values])
    full = (key, tuple(spec.shape if isinstance(spec, Spec) else spec for spec in specs))
    if by_shape and full in entry.programs:
        return entry.programs[full]  # type: ignore[no-any-return]
    graph = make_backward_graph(op, specs, [bool(mask >> i & 1) for i in range(len(specs))])
    optimized = None if graph is None else OptimizedBackwardGraph(graph, len(specs))
    if graph is not None and graph.specific:
        entry.remember(key, _BY_SHAPE)
        entry.remember(full, optimized)
    else:
        entry.remember(key, optimized)
    return optimized


def shared_shapes(specs: Sequence[Any]) -> list[Any]:
    """The same specs, equal shapes being one tuple object: what the key of the cache knows to be equal."""
    seen: dict[Any, Any] = {}
    shared: list[Any] = []
    for spec in specs:
        if isinstance(spec, Spec):
            shared.append(Spec(seen.setdefault(spec.shape, spec.shape), spec.dtype, spec.weak))
        else:
            shared.append(seen.setdefault(spec, spec) if isinstance(spec, tuple) else spec)
    return shared
