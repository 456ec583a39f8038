"""The invariants of the design, each with a test that would fail if it broke.

What is not here stands where its subject is: down only and depth in test_stack.py, immutability in test_values.py,
what is saved and freed in test_memory.py, composition in test_composition.py.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

import interp
import ops
from interp import LeakedValueError, OpDef, Spec, Transformation, apply, rules, tensor
from interp.operator import _LIMIT, Memo, Operator, _memos, memo
from interp.value import Wrapper
from tests.layers import Box, in_threads
from tests.samples import all_samples
from transformations import Grad, grad, jvp, make_backward_graph, vmap
from transformations.backward_graph import OptimizedBackwardGraph

ROOT = Path(__file__).resolve().parent.parent


class Count(Transformation):
    def __init__(self) -> None:
        self.seen = 0

    def apply_transformation(self, op: Operator, inputs: Sequence[Any]) -> Sequence[Any]:
        self.seen += op.computes
        return apply(op, *inputs)


def test_one_entrance_no_rule_calls_a_kernel() -> None:
    """Rules record into programs of operators: were a kernel called, there would be no program."""
    for op, inputs in list(all_samples()):
        floating = [isinstance(x, np.ndarray) and x.dtype.kind == "f" for x in inputs]
        if not any(floating) or getattr(op, "shape_from_data", False) or op.is_program:
            continue
        graph = make_backward_graph(op, [Spec(x.shape, x.dtype) if isinstance(x, np.ndarray) else x for x in inputs])
        if graph is not None:
            assert all(isinstance(expr.op, Operator) for expr in graph.graph.exprs)
            assert graph.graph.validate() is graph.graph
    for path in [*(ROOT / "ops").rglob("*.py"), *(ROOT / "transformations").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr in ("bound_kernel", "require"):
                value = node.value
                assert not (isinstance(value, ast.Attribute) and value.attr == "kernel"), path


def test_the_backward_pass_is_seen_by_the_layer_below_and_not_by_the_one_above() -> None:
    x = tensor([1.0, 2.0])
    with Count() as below, Grad() as g:
        g.wrt(x)
        with Count() as above:
            y = ops.exp(x) * x
        forward = below.seen
        g(y, tensor([1.0, 1.0]))
    assert above.seen == forward == 2
    assert below.seen > forward


def test_two_layers_of_one_class_never_mix_up_their_values() -> None:
    x, outer, inner = tensor(3.0), [], []
    with Grad("o") as o:
        o.wrt(x, callback=lambda d: outer.append(d.item()))
        y = x * x
        with Grad("i") as i:
            z = tensor(2.0)
            i.wrt(z, callback=lambda d: inner.append(d.item()))
            w = z * y
            i(w, tensor(1.0))
        o(y, tensor(1.0))
    assert (outer, inner) == ([6.0], [9.0])


def test_gone_means_transparent_or_a_leak_that_says_so() -> None:
    x = tensor([1.0, 2.0])
    with Grad() as g:
        g.wrt(x)
        y = x * 2.0
    assert isinstance(y._value, Wrapper)
    assert (y + 1.0).tolist() == [3, 5]
    kept = []
    vmap(lambda r: kept.append(r) or r)(x)
    with pytest.raises(LeakedValueError, match="VmapTransformation"):
        kept[0] * 2.0


def test_what_a_scope_made_is_plain_when_it_is_over_and_what_a_function_made_is_a_leak() -> None:
    x, kept = tensor([1.0, 2.0]), {}
    with Grad() as g, Box():
        g.wrt(x)
        kept["scope"] = x * 2.0
    grad(lambda t: ops.sum(kept.setdefault("grad", t * 2.0)))(x)
    assert {name: (y + 1.0).tolist() for name, y in kept.items()} == {"scope": [3, 5], "grad": [3, 5]}
    leaks: dict[str, Any] = {}
    vmap(lambda t: leaks.setdefault("VmapTransformation", t * 2.0))(x)
    jvp(lambda t: leaks.setdefault("JvpTransformation", t * 2.0), (x,), (x,))
    interp.record(lambda t: leaks.setdefault("Recorder", t * 2.0), Spec((2,), "float32"))
    for name, y in leaks.items():
        with pytest.raises(
            LeakedValueError, match=f"outlived the transformation that made it: {name}, opened at test_"
        ):
            y + 1.0
        with pytest.raises(LeakedValueError, match=name):
            y.numpy()
        assert "finished" in repr(y)


def test_a_missing_rule_is_told_with_the_line_that_applied_the_operator() -> None:
    @attrs.frozen
    class Unruled(OpDef):
        pass

    with pytest.raises(interp.RuleError, match=r"test_invariants.py:\d+: apply\(Unruled\(\), tensor"):
        apply(Unruled(), tensor(1.0))
    rules.kernel.register(Unruled)(lambda op, x: x)
    with pytest.raises(interp.RuleError, match=r"(?s)register\(Unruled\).*return apply\(Unruled\(\), x\)\[0\]  # here"):

        def f(x):
            return apply(Unruled(), x)[0]  # here

        grad(f)(tensor(1.0))


def test_open_both_ways() -> None:
    """An operator and a layer of this file work with everything, each in both orders."""

    @attrs.frozen
    class Cube(OpDef):
        pass

    @rules.infer.register(Cube)
    def _(op, x):
        return Spec(x.shape, x.dtype)

    @rules.kernel.register(Cube)
    def _(op, x):
        return x * x * x

    @rules.vjp.register(Cube)
    def _(op, inputs, outputs, cotangents):
        return [cotangents[0] * inputs[0] * inputs[0] * 3.0]

    def cube(x):
        return apply(Cube(), x)[0]

    x = tensor([1.0, 2.0, 3.0])
    wanted = [3.0, 12.0, 27.0]
    assert grad(lambda t: ops.sum(cube(t)))(x).tolist() == wanted
    assert grad(lambda t: ops.sum(grad(lambda u: ops.sum(cube(u)))(t)))(x).tolist() == [6, 12, 18]
    with pytest.warns(UserWarning, match="Cube example by example"):
        assert vmap(grad(cube))(x).tolist() == wanted
    assert jvp(cube, (x,), (tensor([1.0, 1.0, 1.0]),))[1].tolist() == wanted  # derived: there is no jvp rule
    with Count() as count:
        grad(lambda t: ops.sum(cube(t)))(x)
    assert count.seen > 2
    with Grad() as g:
        got = []
        g.wrt(x, callback=got.append)
        with Count():
            y = cube(x)
        g(y, tensor([1.0, 1.0, 1.0]))
    assert got[0].tolist() == wanted


def test_saved_is_what_is_needed_for_every_sample() -> None:
    """The closure keeps exactly what the program reads: nothing that is marked as unread, and no more."""
    for op, inputs in list(all_samples()):
        floating = [isinstance(x, np.ndarray) and x.dtype.kind == "f" for x in inputs]
        if not any(floating) or getattr(op, "shape_from_data", False) or op.is_program:
            continue
        graph = make_backward_graph(op, [Spec(x.shape, x.dtype) if isinstance(x, np.ndarray) else x for x in inputs])
        if graph is None:
            continue
        optimized = OptimizedBackwardGraph(graph, len(inputs))
        read = {var for expr in optimized.backward.exprs for var in expr.inputs} | set(optimized.backward.outputs)
        assert set(optimized.backward.inputs) <= read, op


def test_caches_are_bounded() -> None:
    @attrs.frozen
    class Numbered(OpDef):
        n: int

    for n in range(_LIMIT + 50):
        memo(Numbered(n))
    assert len(_memos) <= _LIMIT
    entry = Memo(Numbered)
    for n in range(2000):
        entry.remember(n, n)
    assert len(entry.programs) <= 512


def test_caches_of_what_inference_said_are_bounded() -> None:
    before = len(_memos)
    for n in range(1, 600):
        ops.broadcast_to(tensor(1.0), (n,))
        grad(lambda t: ops.sum(ops.broadcast_to(t, (n,))))(tensor(1.0))
    assert len(_memos) - before < 20  # a shape is an operand and makes no new operator
    for entry in _memos.values():
        assert len(entry.programs) <= 512


def test_caches_are_safe_under_threads() -> None:
    def work(seed: int) -> None:
        random = np.random.default_rng(seed)
        for _ in range(60):
            shape = tuple(random.integers(1, 4, random.integers(1, 4)))
            x = tensor(random.uniform(0.5, 1.5, shape).astype(np.float32))
            got = grad(lambda t: ops.sum(ops.log(t) * t))(x)
            np.testing.assert_allclose(got.numpy(), 1 + np.log(x.numpy()), rtol=1e-5)

    in_threads(work, range(8))


def test_operators_are_hashed_at_most_once() -> None:
    class Probe:
        hashed = 0

        def __hash__(self) -> int:
            Probe.hashed += 1
            return 1

    @attrs.frozen
    class Holds(OpDef):
        probe: Any

    op = Holds(Probe())
    for _ in range(10):
        interp.operator.memo(op)
    assert Probe.hashed <= 2
