"""What is not needed is freed at once, nothing grows, and no length of program is too deep."""

from __future__ import annotations

import gc
import tracemalloc
import weakref

import numpy as np
import pytest

import ops
from interp import Spec, Subgraph, record, tensor
from transformations import Grad, GradManager, grad, make_backward_graph, vjp

ONE = np.ones(4, np.float32)


@pytest.fixture
def without_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def watched(x) -> weakref.ref:
    """A reference to the array of a Tensor that does not keep it alive."""
    value = x._value
    while hasattr(value, "value"):
        value = value.value
    return weakref.ref(value)


def test_a_chain_of_a_hundred_thousand_is_differentiated_without_recursion(without_collector) -> None:
    x, w, got = tensor(ONE), tensor(ONE), []
    with Grad() as g:
        g.wrt(x, callback=got.append)
        y = x
        for _ in range(100_000):
            y = y * w
        g(y, tensor(ONE))
    assert got[0].tolist() == [1, 1, 1, 1]


def test_a_long_chain_that_is_dropped_is_freed_without_recursion() -> None:
    x, w = tensor(ONE), tensor(ONE)
    with Grad() as g:
        g.wrt(x)
        y = x
        for _ in range(100_000):
            y = y * w
        del y
    assert x.tolist() == [1, 1, 1, 1]


def test_a_long_program_is_recorded_and_run_without_recursion() -> None:
    def f(x):
        for _ in range(20_000):
            x = x + 1.0
        return x

    program = record(f, Spec((), "float32"))
    assert isinstance(program, Subgraph)
    assert program(tensor(0.0))[0].item() == 20_000


def test_memory_an_operation_stays_small(without_collector) -> None:
    length = 20_000
    x, w = tensor(ONE), tensor(ONE)
    tracemalloc.start()
    with Grad() as g:
        g.wrt(x)
        y = x
        for _ in range(length):
            y = y * w
        g(y, tensor(ONE))
    peak = tracemalloc.get_traced_memory()[1] / length
    tracemalloc.stop()
    assert peak < 1500


def test_an_input_that_the_gradient_does_not_need_is_freed_when_it_is_dropped(without_collector) -> None:
    x = tensor(ONE)
    with Grad() as g:
        g.wrt(x)
        a = x * 2.0
        b = a + 1.0  # needs nothing of a
        kept = watched(a)
        del a
        assert kept() is None
        c = ops.exp(b)  # needs its output, not b
        kept = watched(b)
        del b
        assert kept() is None
        d = ops.sum(c * 1.0, axis=0, keepdims=True) + 1.0  # neither keeps anything but a shape
        kept = watched(d)
        del d
        assert kept() is None
        assert c.shape == (4,)


def test_what_is_kept_is_what_save_for_backward_says() -> None:
    f4 = Spec((3,), "float32")
    masks = {
        "ADD": (False, False, False, True),
        "MUL": (True, True, False, True),
        "SUB": (False, False, False, True),
        "MAX": (True, True, False, True),
    }
    for mode, mask in masks.items():
        assert make_backward_graph(ops.Elemwise(mode), [f4, f4]).save_for_backward == mask
    assert make_backward_graph(ops.Elemwise("TANH"), [f4]).save_for_backward == (False, True, True)


def test_entries_are_freed_while_the_pass_walks_over_them(without_collector) -> None:
    x = tensor(ONE)
    alive: list[bool] = []
    with Grad() as g:
        g.wrt(x, callback=lambda d: alive.append(kept() is not None))
        y = ops.exp(x * 3.0)
        kept = watched(y)
        z = ops.sum(y)
        del y
        g(z, tensor(1.0))
    assert alive == [False]


def test_a_training_loop_grows_by_no_object_a_step(without_collector) -> None:
    w = tensor(np.ones((4, 3), np.float32))
    data = tensor(np.ones((5, 4), np.float32))
    gm = GradManager().attach([w])

    def step() -> None:
        with gm:
            gm.backward(ops.mean(ops.nn.relu(data @ w) ** 2))
        w.__isub__(w.grad * 0.01)
        w.grad = None

    for _ in range(20):
        step()
    gc.collect()  # what recording the rules has left, once
    before = len(gc.get_objects())
    for _ in range(1000):
        step()
    assert len(gc.get_objects()) - before <= 10
    assert gc.collect() == 0


def test_functions_leave_no_cycles(without_collector) -> None:
    x = tensor(ONE)

    def use() -> None:
        grad(grad(lambda t: ops.sum(t * t * t)[()] if t.ndim else t * t * t))(tensor(2.0))
        _, pull = vjp(lambda t: ops.exp(t), x)
        pull(x)
        pull(x)

    use()
    gc.collect()
    use()
    assert gc.collect() == 0


def test_contributions_of_many_rows_are_one_scatter() -> None:
    import interp

    x = tensor(np.arange(200.0, dtype=np.float32).reshape(100, 2))
    got = []
    with interp.log_dispatch() as events, Grad() as g:
        g.wrt(x, callback=got.append)
        y = x[0]
        for i in range(1, 100):
            y = y + x[i]
        g(y, tensor(np.ones(2, np.float32)))
    assert got[0].tolist() == np.ones((100, 2)).tolist()
    scatters = [e for e in events if type(e.op).__name__ == "ScatterAdd"]
    assert len(scatters) == 1
