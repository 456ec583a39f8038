"""Laws that every operator must keep, checked on samples.

`check_operator(op, samples)` holds inference against evaluation, the gradient against finite differences to second
order, and the tangent against the gradient. Use it on operators of your own, as the project's tests do on all of its.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from interp import InterpError, OpDef, Tensor, apply, rules
from interp.evaluate import infer
from interp.tensor import from_value
from interp.value import spec_of

from ..backward_graph import make_backward_graph
from ..gradient import vjp

__all__ = ["ConformanceError", "check_operator"]


class ConformanceError(InterpError, AssertionError):
    """A law that an operator must keep is broken; the message says which, and by how much."""


def check_operator(op: OpDef, samples: Iterable[Sequence[Any]], *, order: int = 2, rtol: float = 2e-5) -> None:
    """Check the rules of `op` on each sample, a sequence of its inputs (float64 arrays at smooth points).

    Laws: inference says what evaluation gives; the inputs are not written to; the gradient equals central finite
    differences, to second order, and is there where the outputs move; the tangent, where there is a rule for it, is the
    adjoint of the gradient; gradients have their input's dtype, for float32 too. Raises ConformanceError naming the law
    that is broken.

    >>> import ops
    >>> check_operator(ops.Elemwise("EXP"), [(np.array([0.5, -1.0]),)])
    """
    for sample in samples:
        inputs = [np.array(x) if isinstance(x, (np.ndarray, np.generic)) else x for x in sample]
        _check_inference(op, inputs)
        _check_single_precision(op, inputs)
        moving = _moving(op, inputs)
        _check_still(op, inputs, moving, rtol)
        if moving:
            _check_gradient(op, inputs, moving, rtol)
            _check_tangent(op, inputs, moving, rtol)
            if order > 1:
                _check_second(op, inputs, moving, rtol * 50)


def _fail(law: str, op: OpDef, inputs: Sequence[Any], detail: str) -> None:
    listed = ", ".join(repr(spec_of(x)) for x in inputs)
    raise ConformanceError(f"{op!r} on ({listed}): {law}: {detail}")


def _evaluate(op: OpDef, inputs: Sequence[Any]) -> tuple[Any, ...]:
    return apply(op, *inputs)


def _check_inference(op: OpDef, inputs: Sequence[Any]) -> None:
    before = [x.copy() if isinstance(x, np.ndarray) else x for x in inputs]
    outputs = _evaluate(op, inputs)
    if type(op) in rules.infer and not op.shape_from_data:
        specs = infer(op, [spec_of(x) for x in inputs])
        got = tuple(spec_of(y) for y in outputs)
        if got != tuple(specs):
            _fail("inference and evaluation differ", op, inputs, f"inferred {specs}, evaluated {got}")
    for x, old in zip(inputs, before, strict=True):
        if isinstance(x, np.ndarray) and not np.array_equal(x, old, equal_nan=x.dtype.kind in "fc"):
            _fail("an input was written to", op, inputs, "kernels must not write to their inputs")


def _moving(op: OpDef, inputs: Sequence[Any]) -> list[int]:
    """The inputs that the operator has a gradient by."""
    floating = [isinstance(x, np.ndarray) and x.dtype.kind == "f" for x in inputs]
    if not any(floating) or type(op) not in rules.vjp:
        return []
    graph = make_backward_graph(op, [spec_of(x) for x in inputs], floating)
    return [] if graph is None else [i for i, has in enumerate(graph.input_has_grad) if has]


def _function(op: OpDef, inputs: Sequence[Any], moving: Sequence[int]) -> Callable[..., tuple[Any, ...]]:
    """The operator as a function of its moving inputs, giving its floating outputs."""

    def f(*args: Any) -> tuple[Any, ...]:
        given = list(inputs)
        for i, x in zip(moving, args, strict=True):
            given[i] = x
        handles = [from_value(x) if isinstance(x, np.ndarray) else x for x in given]
        outputs = apply(op, *handles)
        return tuple(y for y in outputs if y.dtype.kind in "fc")

    return f


def _weights(outputs: Sequence[Any], seed: int) -> list[Any]:
    random = np.random.default_rng(seed)
    real = [random.uniform(0.5, 1.5, y.shape) for y in outputs]
    return [
        np.asarray(w + 1j * random.uniform(0.5, 1.5, y.shape) if y.dtype.kind == "c" else w, y.dtype)
        for w, y in zip(real, outputs, strict=True)
    ]


def _pairing(weights: Any, y: Any) -> float:
    """sum(weights * y); of complex numbers, whose cotangents are not conjugated, the real part."""
    return float(np.sum(weights * _numbers(y)).real)


def _numbers(x: Any) -> Any:
    return x.numpy() if isinstance(x, Tensor) else np.asarray(x)


def _directional(
    f: Callable[..., Any], xs: Sequence[Any], vs: Sequence[Any], weights: Sequence[Any], h: float
) -> float:
    """The derivative of sum(weights * f) along `vs`, by central differences of fourth order."""

    def at(t: float) -> float:
        moved = [x + t * v for x, v in zip(xs, vs, strict=True)]
        return sum(_pairing(w, y) for w, y in zip(weights, f(*moved), strict=True))

    return (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h)


def _pulled(f: Callable[..., Any], xs: Sequence[Any], weights: Sequence[Any]) -> list[Any]:
    _, pull = vjp(f, *map(from_value, xs))
    return list(pull(tuple(map(from_value, weights))))


def _inner(gradients: Sequence[Any], vs: Sequence[Any]) -> float:
    return sum(_pairing(v, g) for g, v in zip(gradients, vs, strict=True))


def _compare(law: str, op: OpDef, inputs: Sequence[Any], got: float, wanted: float, rtol: float) -> None:
    if not abs(got - wanted) <= rtol * (1 + abs(wanted)):
        _fail(law, op, inputs, f"got {got!r}, expected {wanted!r}")


def _directions(xs: Sequence[Any], seed: int) -> list[Any]:
    random = np.random.default_rng(seed)
    return [random.uniform(-1, 1, x.shape) for x in xs]


def _check_gradient(op: OpDef, inputs: Sequence[Any], moving: Sequence[int], rtol: float) -> None:
    f = _function(op, inputs, moving)
    xs = [inputs[i] for i in moving]
    weights = _weights(f(*xs), 1)
    gradients = _pulled(f, xs, weights)
    for i, g in zip(moving, gradients, strict=True):
        if g.dtype != inputs[i].dtype or g.shape != inputs[i].shape:
            _fail("a gradient has another shape or dtype than its input", op, inputs, f"input {i}: {g!r}")
    for k, _ in enumerate(moving):
        vs = [v if j == k else np.zeros_like(v) for j, v in enumerate(_directions(xs, 2))]
        wanted = _directional(f, xs, vs, weights, 1e-3)
        _compare(f"the gradient by input {moving[k]} and finite differences differ", op, inputs,
                 _inner(gradients, vs), wanted, rtol)  # fmt: skip


def _check_still(op: OpDef, inputs: Sequence[Any], moving: Sequence[int], rtol: float) -> None:
    """What has no gradient must not move the outputs."""
    if op.cuts_gradient or type(op) not in rules.vjp:
        return
    for i, x in enumerate(inputs):
        if i in moving or not isinstance(x, np.ndarray) or x.dtype.kind != "f":
            continue
        f = _function(op, inputs, [i])
        weights = _weights(f(x), 1)
        wanted = _directional(f, [x], _directions([x], 2), weights, 1e-3)
        _compare(f"input {i} has no gradient, and the outputs move with it", op, inputs, 0.0, wanted, rtol)


def _check_second(op: OpDef, inputs: Sequence[Any], moving: Sequence[int], rtol: float) -> None:
    f = _function(op, inputs, moving)
    xs = [inputs[i] for i in moving]
    weights = _weights(f(*xs), 1)
    handles = list(map(from_value, weights))

    def gradients(*args: Any) -> tuple[Any, ...]:
        _, pull = vjp(f, *[a if isinstance(a, Tensor) else from_value(a) for a in args])
        return tuple(pull(tuple(handles)))

    outer = _weights(gradients(*xs), 3)
    second = _pulled(gradients, xs, outer)
    vs = _directions(xs, 4)
    wanted = _directional(gradients, xs, vs, outer, 1e-3)
    _compare("the second derivative and finite differences of the gradient differ", op, inputs,
             _inner(second, vs), wanted, rtol)  # fmt: skip


def _check_tangent(op: OpDef, inputs: Sequence[Any], moving: Sequence[int], rtol: float) -> None:
    rule = rules.jvp.lookup(type(op))
    if rule is None:
        return
    f = _function(op, inputs, moving)
    xs = [inputs[i] for i in moving]
    outputs = apply(op, *[from_value(x) if isinstance(x, np.ndarray) else x for x in inputs])
    vs = _directions(xs, 5)
    tangents: list[Any] = [None] * len(inputs)
    for i, v in zip(moving, vs, strict=True):
        tangents[i] = from_value(v)
    handles = [from_value(x) if isinstance(x, np.ndarray) else x for x in inputs]
    answer = rule(op, handles, list(outputs), tangents)
    pushed = list(answer) if isinstance(answer, (list, tuple)) else [answer]
    if len(pushed) != len(outputs):
        _fail("the jvp rule gives a wrong number of tangents", op, inputs, f"{len(pushed)} for {len(outputs)} outputs")
    floating = [(t, y) for t, y in zip(pushed, outputs, strict=True) if y.dtype.kind in "fc"]
    for t, y in floating:
        if t is not None and (t.shape != y.shape or t.dtype != y.dtype):
            _fail("a tangent has another shape or dtype than its output", op, inputs, f"{spec_of(t._value)} for {y!r}")
    weights = _weights([y for _, y in floating], 1)
    forward = sum(_pairing(w, t) for w, (t, _) in zip(weights, floating, strict=True) if t is not None)
    backward = _inner(_pulled(f, xs, weights), vs)
    _compare("tangent and gradient are not adjoint", op, inputs, forward, backward, rtol)


def _check_single_precision(op: OpDef, inputs: Sequence[Any]) -> None:
    """The same on float32: evaluation and gradients stay in it. A program is only for the dtypes of its record."""
    if op.is_program:
        return
    narrow = [
        x.astype(np.float32) if isinstance(x, np.ndarray) and x.dtype == np.float64 else x for x in inputs
    ]
    if all(a is b for a, b in zip(narrow, inputs, strict=True)):
        return
    _check_inference(op, narrow)
    moving = _moving(op, narrow)
    if moving:
        f = _function(op, narrow, moving)
        xs = [narrow[i] for i in moving]
        for i, g in zip(moving, _pulled(f, xs, _weights(f(*xs), 1)), strict=True):
            if g.dtype != np.float32:
                _fail("the gradient of a float32 input is not float32", op, narrow, f"input {i}: {g.dtype}")


