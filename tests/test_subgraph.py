"""Programs: built, printed, checked, run through any stack, cleaned, recorded."""

from __future__ import annotations

import copy
import pickle
import threading
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import interp
import ops
from interp import (
    Expr,
    GetAttr,
    LeakedValueError,
    OperatorError,
    PushScope,
    RuleError,
    ShapeError,
    Spec,
    Subgraph,
    Tensor,
    TraceError,
    Transformation,
    Wrapper,
    apply,
    record,
    tensor,
)
from interp.operator import Operator
from interp.recorder import record_flat
from interp.subgraph import SHAPE
from tests.layers import Box, Note
from transformations import Grad, grad, hessian, jvp, no_grad, vmap

ADD, MUL, EXP = ops.Elemwise.ADD, ops.Elemwise.MUL, ops.Elemwise.EXP
S = Spec((2,), "float32")


def by_hand() -> Subgraph:
    """exp(x) * y + 2."""
    exprs = [Expr(EXP, (0,), (3,)), Expr(MUL, (3, 1), (4,)), Expr(ADD, (4, 2), (5,))]
    return Subgraph((0, 1), {2: 2.0}, exprs, (5,), {0: S, 1: S, 5: S})


def long_program(length: int) -> Subgraph:
    return Subgraph(
        (0,), {1: 1.0}, [Expr(ADD, (i if i != 1 else 0, 1), (i + 1,)) for i in range(1, length + 1)], (length + 1,)
    )


def test_a_program_by_hand_prints_checks_and_runs() -> None:
    program = by_hand()
    assert str(program) == (
        "program(%0: float32[2], %1: float32[2]) {\n"
        "  %2 = constant 2.0\n"
        "  %3 = Elemwise(mode='EXP') %0\n"
        "  %4 = Elemwise(mode='MUL') %3 %1\n"
        "  %5: float32[2] = Elemwise(mode='ADD') %4 %2\n"
        "  return %5\n"
        "}"
    )
    assert "2 inputs, 3 operators" in repr(program)
    assert program.validate() is program
    assert program(tensor([0.0, 0.0]), tensor([3.0, 4.0]))[0].tolist() == [5, 6]
    assert repr(program.exprs[1]) == "%4 = Elemwise(mode='MUL') %3 %1"


def test_tensors_give_tensors_and_values_give_values() -> None:
    program = by_hand()
    value = tensor([0.0, 0.0])._value
    assert isinstance(program(tensor([0.0, 0.0]), value)[0], Tensor)
    assert isinstance(program(value, value)[0], np.ndarray)
    assert isinstance(program.run([value, value]), list)


def test_an_empty_program_and_an_identity() -> None:
    empty = Subgraph((), {}, [], ())
    assert empty.empty
    assert empty.validate()() == ()
    identity = Subgraph((0,), {}, [], (0, 0))
    x = tensor([1.0])
    assert [y.tolist() for y in identity(x)] == [[1], [1]]
    assert not identity.empty
    assert str(empty) == "program() {\n  return\n}"


def test_operators_without_outputs_print_and_run() -> None:
    program = Subgraph((0,), {}, [Expr(PushScope("part"), (), ()), Expr(EXP, (0,), (1,))], (1,))
    assert "\n  PushScope(name='part')\n" in str(program)
    for _ in range(4):
        assert program.validate()(tensor(0.0))[0].item() == 1


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (Subgraph((0, 0), {}, [], ()), "%0 is defined twice"),
        (Subgraph((0,), {0: 1.0}, [], ()), "%0 is defined twice"),
        (Subgraph((0,), {}, [Expr(EXP, (1,), (2,))], (2,)), r"expression 0 .*uses %1 before it is defined"),
        (Subgraph((0,), {}, [Expr(EXP, (0,), (0,))], (0,)), r"expression 0 .*defines %0 a second time"),
        (Subgraph((0,), {}, [Expr(EXP, (2,), (1,)), Expr(EXP, (0,), (2,))], (1,)), "uses %2 before it is defined"),
        (Subgraph((0,), {}, [], (4,)), "returns %4, which nothing defines"),
        (Subgraph((0,), {}, [Expr("EXP", (0,), (1,))], (1,)), "'EXP' is not an Operator"),
        (Subgraph((-1,), {}, [], (-1,)), "numbered from 0"),
    ],
)
def test_a_program_that_makes_no_sense_is_refused(program: Subgraph, message: str) -> None:
    with pytest.raises(OperatorError, match=message):
        program.validate()


@pytest.mark.parametrize("runs", [0, 5])
@pytest.mark.parametrize("length", [1, 200])
def test_a_wrong_count_of_inputs_is_the_callers_error(runs: int, length: int) -> None:
    program = long_program(length)
    for _ in range(runs):
        assert program(tensor(1.0))[0].item() == length + 1
    for wrong in ((), (tensor(1.0), tensor(2.0))):
        with pytest.raises(OperatorError, match=f"takes 1 inputs, not {len(wrong)}"):
            program(*wrong)


@pytest.mark.parametrize("runs", [0, 5])
def test_a_wrong_count_of_outputs_is_told(runs: int) -> None:
    class Drops(Transformation):
        drop = False

        def apply_transformation(self, op: Operator, inputs: Sequence[Any]) -> Sequence[Any]:
            outputs = apply(op, *inputs)
            return outputs[1:] if op is MUL and self.drop else outputs

    program = by_hand()
    x = tensor([1.0, 1.0])
    with Drops() as layer:
        for _ in range(runs):
            program(x, x)
        layer.drop = True
        with pytest.raises(RuleError, match=r"Elemwise\(mode='MUL'\) gave"):
            program(x, x)


@pytest.mark.parametrize("runs", [0, 5])
def test_an_operators_own_error_passes_as_it_is(runs: int) -> None:
    program = by_hand()
    for _ in range(runs):
        program(tensor([1.0, 1.0]), tensor([1.0, 1.0]))
    with pytest.raises(ShapeError, match="do not broadcast"):
        program(tensor([1.0, 1.0]), tensor([1.0, 1.0, 1.0]))


@pytest.mark.parametrize("length", [3, 39, 40, 41, 300])
def test_short_and_long_programs_run_the_same_every_time(length: int) -> None:
    program = long_program(length)
    assert [program(tensor(0.5))[0].item() for _ in range(5)] == [length + 0.5] * 5


def test_a_program_of_a_hundred_thousand_operators_is_no_deeper_than_one() -> None:
    program = long_program(100_000).validate()
    assert program(tensor(0.0))[0].item() == 100_000
    assert len(program.without_dead_code().exprs) == 100_000


def test_what_is_read_no_more_is_freed_while_it_runs() -> None:
    alive: list[int] = []

    class Spy(Transformation):
        def __init__(self) -> None:
            self.made: list[Any] = []

        def apply_transformation(self, op: Operator, inputs: Sequence[Any]) -> Sequence[Any]:
            outputs = apply(op, *inputs)
            if op.computes:
                alive.append(sum(made() is not None for made in self.made))
                self.made.append(weakref.ref(outputs[0]))
            return outputs

    program = record(lambda x: ops.exp(ops.exp(ops.exp(ops.exp(x)))), S)
    for _ in range(4):
        with Spy():
            program(tensor([0.0, 0.0]))
    assert max(alive) == 1


def test_dead_code_goes_with_its_constants() -> None:
    exprs = [Expr(EXP, (0,), (2,)), Expr(ADD, (0, 1), (3,)), Expr(ADD, (3, 1), (4,))]
    program = Subgraph((0,), {1: 2.0, 9: 3.0}, exprs, (2,), {0: S})
    clean = program.without_dead_code()
    assert str(clean) == "program(%0: float32[2]) {\n  %2 = Elemwise(mode='EXP') %0\n  return %2\n}"
    assert len(program.exprs) == 3  # which is as it was
    both = Subgraph((0,), {1: 2.0}, exprs, (2, 4)).without_dead_code()
    assert (len(both.exprs), both.constants) == (3, {1: 2.0})


def test_constants_may_be_changed_into_another_program() -> None:
    program = by_hand()
    other = program.map_values(lambda value: value * 10)
    x = tensor([0.0, 0.0])
    assert (program(x, x)[0].tolist(), other(x, x)[0].tolist()) == ([2, 2], [20, 20])


def test_programs_copy_and_pickle_also_after_they_ran() -> None:
    program = record(lambda x, y: ops.sum(ops.reshape(x, (2, 1)) * y[0:1] + np.float32(3.0)), S, S)
    x, y = tensor([1.0, 2.0]), tensor([3.0, 4.0])
    for _ in range(4):
        wanted = program(x, y)[0].item()
    for other in (pickle.loads(pickle.dumps(program)), copy.deepcopy(program), copy.copy(program)):
        assert str(other) == str(program)
        assert other.validate()(x, y)[0].item() == wanted


def test_the_shape_operator_is_one_whoever_makes_it() -> None:
    program = Subgraph((0,), {}, [Expr(GetAttr("shape"), (0,), (1,))], (1,))
    assert program.exprs[0].op is SHAPE
    for _ in range(4):
        assert program.run([np.ones((2, 3))]) == [(2, 3)]


# --- through any stack


def test_a_program_goes_through_the_layers_of_whoever_runs_it() -> None:
    program = by_hand()
    x = tensor([1.0, 1.0])
    for _ in range(4):
        with Note("n") as note:
            program(x, x)
        assert len(note.log) == 3


@pytest.mark.parametrize("runs", [0, 5])
def test_a_program_is_differentiated_and_batched_like_the_function(runs: int) -> None:
    program = by_hand()
    x, y = tensor([0.5, 1.0]), tensor([3.0, 4.0])
    for _ in range(runs):
        program(x, y)

    def ours(x: Tensor) -> Tensor:
        return ops.sum(program(x, y)[0])

    def plain(x: Tensor) -> Tensor:
        return ops.sum(ops.exp(x) * y + 2.0)

    for way in (
        grad,
        hessian,
        lambda f: lambda x: jvp(f, (x,), (x,))[1],
        lambda f: lambda x: vmap(f)(ops.reshape(x, (1, 2))),
    ):
        np.testing.assert_allclose(way(ours)(x).numpy(), way(plain)(x).numpy(), rtol=1e-6)


@pytest.mark.parametrize("runs", [0, 5])
def test_what_a_program_captured_keeps_its_gradient(runs: int) -> None:
    x, got = tensor([1.0, 2.0]), []
    with Grad() as g:
        g.wrt(x, callback=got.append)
        program = record(lambda y: y * x, S)
        for _ in range(runs):
            program(tensor([3.0, 4.0]))
        g(program(tensor([3.0, 4.0]))[0], tensor([1.0, 1.0]))
    assert got[0].tolist() == [3, 4]
    for _ in range(4):  # and is the plain value when the scope is over
        assert program(tensor([3.0, 4.0]))[0].tolist() == [3, 8]
        with Note("n"), no_grad():
            assert program(tensor([3.0, 4.0]))[0].tolist() == [3, 8]
        assert vmap(lambda y: program(y)[0])(tensor([[3.0, 4.0]])).tolist() == [[3, 8]]


def test_a_captured_value_that_means_nothing_without_its_layer_is_a_leak() -> None:
    kept: list[Subgraph] = []
    vmap(lambda x: kept.append(record(lambda y: y * x, Spec((), "float32"))) or x)(tensor([1.0, 2.0]))
    for _ in range(4):
        with pytest.raises(LeakedValueError, match="VmapTransformation"):
            kept[0](tensor(1.0))


def test_dead_values_settle_at_the_entrance() -> None:
    with Box():
        x = tensor([1.0, 1.0]) * 1.0
    assert isinstance(x._value, Wrapper)
    program = by_hand()
    for _ in range(4):
        assert program(x, x)[0].shape == (2,)


# --- recording


def test_recording_computes_nothing_and_asks_no_layer_outside() -> None:
    ran: list[int] = []

    def f(x: Tensor) -> Tensor:
        ran.append(1)
        return ops.exp(x) + 1.0

    with Note("n") as note, Grad():
        program = record(f, S)
    assert (ran, note.log) == ([1], [])
    assert [expr.op for expr in program.exprs] == [EXP, ADD]
    assert program.specs[program.outputs[0]] == S


def test_arguments_and_results_are_pytrees() -> None:
    program = record(lambda p, n: {"b": p["x"] + n[0], "a": [p["x"], 3.0]}, {"x": S}, (tensor([1.0, 2.0]),))
    a, three, b = program(tensor([1.0, 1.0]), tensor([2.0, 2.0]))
    assert (a.tolist(), three.item(), b.tolist()) == ([1, 1], 3, [3, 3])


def test_constants_are_captured_once_and_never_change() -> None:
    w = np.array([3.0, 4.0], np.float32)
    handle = tensor([5.0, 6.0])
    program = record(lambda x: x * w + handle + handle, S)
    assert len(program.constants) == 2
    w[:] = 0
    handle += 1.0
    assert program(tensor([1.0, 1.0]))[0].tolist() == [13, 16]


def test_python_scalars_stay_weak_in_a_program() -> None:
    program = record(lambda x: x * 2.0 + 1, Spec((2,), "float16"))
    assert program(tensor(np.ones(2, np.float16)))[0].dtype == np.float16


def test_reading_a_shape_makes_the_record_specific_and_asking_symbolically_does_not() -> None:
    from interp.tensor import from_value
    from ops.broadcasting import broadcast_to, shape_value

    concrete = record_flat(lambda v: [broadcast_to(1.0, from_value(v[0]).shape)._value], [S])
    symbolic = record_flat(lambda v: [broadcast_to(np.ones((), np.float32), shape_value(v[0]))._value], [S])
    assert (concrete[1], symbolic[1]) == (True, False)
    for _ in range(4):
        assert symbolic[0].run([np.ones(5, np.float32)])[0].shape == (5,)
    free = record_flat(lambda v: [(from_value(v[0]) * float(from_value(v[0]).ndim))._value], [S])
    assert free[1] is False


def test_recording_nests_in_itself_and_in_other_layers() -> None:
    outer = record(lambda x: record(lambda y: y * x, S)(ops.exp(x))[0], S)
    assert [expr.op for expr in outer.exprs] == [EXP, MUL]
    derived = record(lambda x: grad(lambda t: ops.sum(t * t))(x), S)
    assert derived(tensor([1.0, 2.0]))[0].tolist() == [2, 4]
    batched = record(lambda x: vmap(lambda t: t * t)(x), S)
    assert batched(tensor([1.0, 2.0]))[0].tolist() == [1, 4]
    x = tensor([1.0, 2.0])
    assert grad(lambda t: ops.sum(record(lambda y: y * t, S)(x)[0]))(x).tolist() == [1, 2]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_while_recording_leaves_the_stack_as_it_was(error: type[BaseException]) -> None:
    def fails(x: Tensor) -> Tensor:
        ops.exp(x)
        raise error("here")

    with Note("n") as note:
        with pytest.raises(error, match="here"):
            record(fails, S)
        tensor(1.0) + 1.0
        assert note.log == ["n"]


def test_inference_errors_come_while_it_is_recorded() -> None:
    with pytest.raises(ShapeError, match="do not broadcast"):
        record(lambda x, y: x + y, S, Spec((3,), "float32"))


def test_data_and_branches_are_refused_while_it_is_recorded() -> None:
    for f in (lambda x: x.numpy(), lambda x: x * float(x[0]), lambda x: x if x[0] > 0 else -x):
        with pytest.raises(TraceError, match="while a program was recorded"):
            record(f, S)


def test_a_recorded_value_that_leaks_says_so() -> None:
    kept: list[Tensor] = []
    record(lambda x: kept.append(x) or x, S)
    with pytest.raises(LeakedValueError, match="Recorder"):
        kept[0] + 1.0


def test_threads_record_and_run_one_program_at_once() -> None:
    program = by_hand()
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for i in range(100):
                x = tensor([float(i % 3), 0.0])
                np.testing.assert_allclose(program(x, x)[0].numpy(), np.exp(x.numpy()) * x.numpy() + 2, rtol=1e-6)
                assert len(record(lambda t: ops.exp(t) * t, S).exprs) == 2
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_what_is_no_value_cannot_be_recorded() -> None:
    for wrong in ("text", object()):
        with pytest.raises(interp.DTypeError):
            record(lambda x: wrong, S)
        with pytest.raises(interp.DTypeError):
            record(lambda x: x, wrong)
