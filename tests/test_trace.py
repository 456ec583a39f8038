"""A traced function gives what the function gives, whatever it reads and rebinds, and says when it cannot."""

from __future__ import annotations

import gc
import warnings
import weakref
from typing import Any

import numpy as np
import pytest

import interp
import ops
from interp import Tensor, TraceError, tensor
from interp.tensor import call
from tests.layers import in_threads
from tests.samples import all_samples
from transformations import GradManager, custom_vjp, grad, jvp, trace, vmap
from transformations.custom_rule import Function

SAMPLES = list(all_samples())
FIXED = [(op, inputs) for op, inputs in SAMPLES if not getattr(op, "shape_from_data", False)]


def row(*numbers: float) -> Tensor:
    return tensor(np.array(numbers, "float32"))


def same(a: Any, b: Any) -> None:
    a, b = np.asarray(a), np.asarray(b)
    assert a.dtype == b.dtype
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(("op", "inputs"), FIXED, ids=[repr(op)[:60] for op, _ in FIXED])
def test_every_operator_replays_bit_for_bit(op: interp.OpDef, inputs: tuple[Any, ...]) -> None:
    """Arguments and what is read from outside are inputs alike: new data gives new results, without a new record."""
    moving = [i for i, x in enumerate(inputs) if isinstance(x, np.ndarray)]
    outer = {i: tensor(inputs[i]) for i in moving[1:]}

    def f(*args: Tensor) -> Any:
        given: list[Any] = list(inputs)
        for i, x in zip(moving[:1], args, strict=True):
            given[i] = x
        given = [outer.get(i, x) for i, x in enumerate(given)]
        return call(op, *given)

    traced = trace(f)
    args = [tensor(inputs[i]) for i in moving[:1]]
    with np.errstate(all="ignore"):
        for _ in range(3):  # the first run of a program, and generated ones
            for got, wanted in zip(traced(*args), f(*args), strict=True):
                same(got, wanted)
            for x in [*args, *outer.values()]:
                if x.dtype.kind in "fc":
                    x._rebind(x.numpy() * 0.999)
    assert traced.cache_info().misses == 1


@pytest.mark.parametrize(("op", "inputs"), FIXED, ids=[repr(op)[:60] for op, _ in FIXED])
def test_every_operator_has_its_gradient_through_a_trace(op: interp.OpDef, inputs: tuple[Any, ...]) -> None:
    moving = [i for i, x in enumerate(inputs) if isinstance(x, np.ndarray) and x.dtype.kind == "f"]
    if not moving:
        pytest.skip("nothing to differentiate by")

    def f(*args: Any) -> Any:
        given: list[Any] = list(inputs)
        for i, x in zip(moving, args, strict=True):
            given[i] = x
        total: Any = 0.0
        for y in call(op, *given):
            if y.dtype.kind == "f":
                total = total + ops.sum(ops.sin(y))
            elif y.dtype.kind == "c":
                total = total + ops.sum(ops.real(y) + ops.imag(y))
        return total

    if not isinstance(f(*[tensor(inputs[i]) for i in moving]), Tensor):
        pytest.skip("no floating output")
    args = [tensor(inputs[i]) for i in moving]
    wanted = grad(f, argnums=tuple(range(len(moving))))(*args)
    for through in (grad(trace(f), argnums=tuple(range(len(moving)))), trace(grad(f, argnums=tuple(range(len(moving)))))):
        for got, right in zip(through(*args), wanted, strict=True):
            np.testing.assert_allclose(got.numpy(), right.numpy(), rtol=1e-12, atol=1e-12)


def test_numbers_are_inputs_and_cause_no_new_record() -> None:
    traced = trace(lambda x, k: x * k)
    assert [float(traced(row(2), k)) for k in (1.0, 2.0, 3.5)] == [2.0, 4.0, 7.0]
    assert traced(row(2), 3.0).dtype == np.float32
    assert traced.cache_info() == (3, 1, 1, 128)


def test_other_arguments_count_by_value_and_type() -> None:
    traced = trace(lambda x, how: {"a": x + 1, "b": x * 5}[how])
    assert (float(traced(row(1), "a")), float(traced(row(1), "b"))) == (2.0, 5.0)
    assert traced.explain() == ["argument `how`: static 'b', was static 'a'"]
    power = trace(lambda x, n: x if n == 1 else x * x, static_argnums=1)
    assert (float(power(row(3), 1)), float(power(row(3), 2)), power.cache_info().misses) == (3.0, 9.0, 2)


def test_another_shape_or_dtype_is_another_signature() -> None:
    traced = trace(lambda x: x * 2)
    same(traced(row(1)), np.array([2], "float32"))
    same(traced(row(1, 2, 3)), np.array([2, 4, 6], "float32"))
    same(traced(tensor(np.array([1, 2, 3], "int32"))), np.array([2, 4, 6], "int32"))
    assert traced.explain() == ["argument `x`: shape (3,), was (1,)", "argument `x`: dtype int32, was float32"]


def test_an_outer_parameter_and_an_outer_array_are_read_at_every_call() -> None:
    w, a = row(2), np.array([10.0], "float32")
    traced = trace(lambda x: x * w + a)
    assert float(traced(row(1))) == 12.0
    w[...] = row(5)
    a[...] = 20.0
    assert float(traced(row(1))) == 25.0
    assert traced.cache_info().misses == 1


def test_captured_numbers_are_compared_at_every_call() -> None:
    scale = 2.0
    settings = [1.0]

    def f(x: Tensor) -> Tensor:
        return x * scale + settings[0]

    traced = trace(f)
    assert float(traced(row(1))) == 3.0
    scale = 4.0
    assert float(traced(row(1))) == 5.0
    settings[0] = 2.0
    assert float(traced(row(1))) == 6.0
    assert traced.explain() == ["closure variable `scale`: 4.0, was 2.0", "closure variable `settings`: [2.0], was [1.0]"]


def test_with_check_the_first_step_that_differs_is_named() -> None:
    flag = [0]
    traced = trace(lambda x: x + 1 if not flag[0] else x * 2, check=True)
    assert [float(traced(row(1))) for _ in range(2)] == [2.0, 2.0]
    flag[0] = 1
    with pytest.raises(TraceError, match=r"step 0 of the record is .*ADD.* but the function now does .*MUL"):
        traced(row(5))
    flag[0] = 0
    assert float(traced(row(5))) == 6.0


def test_data_read_while_recording_is_told_of_and_compared() -> None:
    def f(x: Tensor) -> Tensor:
        y = x * 2
        return y + float(y.numpy()[0])

    traced = trace(f)
    with pytest.warns(UserWarning, match=r"read the data of .* computed from argument `x`"):
        assert float(traced(row(1))) == 4.0
    assert float(traced(row(1))) == 4.0
    with pytest.warns(UserWarning, match="read the data"):
        assert float(traced(row(2))) == 8.0
    assert traced.cache_info().misses == 2
    assert "[4.], was [2.]" in traced.explain()[0]


def test_an_error_inside_leaves_everything_usable() -> None:
    bad = [True]
    w = row(1)

    def f(x: Tensor) -> Tensor:
        w[...] = w + 1
        if bad[0]:
            raise ValueError("boom")
        return x * w

    traced = trace(f)
    with pytest.raises(ValueError, match="boom"):
        traced(row(1))
    assert float(w) == 1.0, "nothing is rebound by a recording that failed"
    bad[0] = False
    assert float(traced(row(3))) == 6.0
    assert float(w) == 2.0
    assert len(interp.stack()) == 1


def test_a_training_step_with_a_manager_is_one_program() -> None:
    w = row(2)
    manager = GradManager().attach([w])

    @trace
    def step(x: Tensor) -> Tensor:
        with manager:
            loss = ops.sum(w * x)
            manager.backward(loss)
        assert w.grad is not None
        w[...] = w - w.grad * 0.5
        w.grad = None
        return loss

    assert [float(step(row(1))) for _ in range(3)] == [2.0, 1.5, 1.0]
    assert (float(w), w.grad, step.cache_info().misses) == (0.5, None, 1)


def test_what_is_returned_as_it_came_and_structures_of_results() -> None:
    traced = trace(lambda x: {"same": x, "twice": (x * 2, "label", None)})
    for k in (1.0, 2.0):
        result = traced(row(k))
        assert float(result["same"]) == k
        assert float(result["twice"][0]) == 2 * k
        assert result["twice"][1:] == ("label", None)


def cube(x: Tensor) -> Tensor:
    return x * x * x


@pytest.mark.parametrize(
    "through",
    [
        lambda f: grad(trace(f)),
        lambda f: trace(grad(f)),
        lambda f: trace(grad(trace(f))),
        lambda f: trace(lambda x: trace(grad(f))(x)),
    ],
)
def test_traces_and_gradients_nest_to_any_order(through: Any) -> None:
    x = tensor(2.0)
    assert float(through(cube)(x)) == 12.0
    assert float(through(through(cube))(x)) == 12.0
    assert float(through(through(through(cube)))(x)) == 6.0


def test_a_traced_function_under_the_other_layers() -> None:
    w = row(3)
    traced = trace(lambda x: ops.exp(x) * w)
    x = row(0.5, 1.0)
    same(vmap(traced)(x), vmap(lambda x: ops.exp(x) * w)(x))
    same(trace(vmap(lambda x: ops.exp(x) * w))(x), vmap(lambda x: ops.exp(x) * w)(x))
    for got, wanted in zip(jvp(traced, (x,), (x,)), jvp(lambda x: ops.exp(x) * w, (x,), (x,)), strict=True):
        same(got, wanted)
    manager = GradManager().attach([w])
    with manager:
        manager.backward(ops.sum(traced(x)))
    assert w.grad is not None
    np.testing.assert_allclose(w.grad.numpy(), [np.exp(0.5) + np.exp(1.0)], rtol=1e-6)


def test_gradients_run_as_two_programs() -> None:
    traced = trace(lambda x: ops.sum(ops.sin(x) * x))
    with interp.log_dispatch() as events:
        grad(traced)(row(1, 2))
    computing = [event.op for event in events if event.op.computes and event.layer.startswith("Eval")]
    labels = [op.label for op in computing if isinstance(op, ops.Call)]
    assert labels == ["<lambda>, forward", "<lambda>, backward"]


def test_a_gradient_of_ones_own_is_kept() -> None:
    @custom_vjp
    def half(x: Any) -> Any:
        return x * 1.0

    half.defvjp(lambda x: (x * 1.0, None), lambda _, g: (g * 0.5,))

    class Third(Function):
        def forward(self, x: Tensor) -> Tensor:
            return x * 1.0

        def backward(self, dy: Tensor) -> Tensor:
            return dy / 3.0

    for f, wanted in ((half, 0.5), (lambda x: Third()(x), 1 / 3)):
        traced = trace(lambda x, f=f: f(x) * 3.0, static_argnums=1)
        assert (float(traced(tensor(1.0))), float(traced(tensor(2.0)))) == (3.0, 6.0)
        assert float(grad(traced)(tensor(1.0))) == pytest.approx(3 * wanted)
        assert float(trace(grad(traced))(tensor(1.0))) == pytest.approx(3 * wanted)


def test_methods_are_traced_for_each_instance() -> None:
    class Layer:
        def __init__(self, w: float) -> None:
            self.w = row(w)

        @trace
        def __call__(self, x: Tensor) -> Tensor:
            return x * self.w

    a, b = Layer(2), Layer(3)
    assert [float(layer(row(1))) for layer in (a, b, a)] == [2.0, 3.0, 2.0]


def test_a_python_branch_on_data_is_refused_with_the_value() -> None:
    with pytest.raises(TraceError, match=r"a Python branch on .* computed from argument `x`.*ops\.where"):
        trace(lambda x: x if x > 0 else -x)(row(1))


def test_what_no_record_could_repeat_is_refused() -> None:
    seen: list[Any] = []

    def appends(x: Tensor) -> Tensor:
        seen.append(1)
        return x

    with pytest.raises(TraceError, match="changed what it closes over"):
        trace(appends)(row(1))
    with pytest.raises(TraceError, match=r"shape of what .* depends on data"):
        trace(lambda x: x[x > 0])(row(1, -1))
    with pytest.raises(TraceError, match="which is no array and cannot be hashed"):
        trace(lambda x, y: x)(row(1), bytearray(b"a"))
    with pytest.raises(TraceError, match="trace takes a function"):
        trace(3)

    def forever(x: Tensor) -> Tensor:
        return forever(x + 1)

    with pytest.raises(RecursionError):
        trace(forever)(row(1))
    assert len(interp.stack()) == 1
    assert float(row(1) + 1) == 2.0


def test_too_many_records_are_an_error_with_the_reasons() -> None:
    traced = trace(lambda x: x + 1, limit=2)
    for n in range(1, 4):
        traced(row(*range(n)))
    with pytest.raises(TraceError, match=r"recorded anew 3 times.*\n.*\n.*\n  argument `x`: shape \(4,\), was \(3,\)"):
        traced(row(1, 2, 3, 4))
    traced.cache_clear()
    assert traced.cache_info().misses == 0
    assert traced.explain() == []


def test_the_cache_is_bounded() -> None:
    traced = trace(lambda x: x + 1, maxsize=2)
    for n in range(1, 6):
        traced(row(*range(n)))
    assert traced.cache_info().currsize == 2


def test_a_record_keeps_no_argument_alive() -> None:
    traced = trace(lambda x: x * 2)
    x = row(1, 2)
    array = weakref.ref(x)
    traced(x)
    del x
    gc.collect()
    assert array() is None


def test_threads_share_a_traced_function() -> None:
    w = row(2)
    traced = trace(lambda x: ops.sum(x * w))

    def work(seed: int) -> None:
        for n in range(1, 12):
            x = np.full(n, seed, "float32")
            assert float(traced(tensor(x))) == 2 * n * seed

    in_threads(work, range(1, 7))
    assert float(w) == 2.0


def test_programs_can_be_looked_at() -> None:
    traced = trace(lambda x: ops.exp(x) * 2.0)
    assert "EXP" in str(traced.program(row(1)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        traced(row(1))
    assert traced.cache_info() == (1, 1, 1, 128)
