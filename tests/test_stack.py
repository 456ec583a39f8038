"""The stack: what goes down, where layers stand, and that it is whole whatever happens."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import pytest

import ops
from interp import RuleError, Segment, StackError, Transformation, apply, log_dispatch, stack, tensor
from interp.operator import Operator
from interp.value import Wrapper
from tests.layers import Note, depth
from transformations import AttachGrad, Grad, GradKey, GradTransformation, no_grad, vmap


class Low(Note):
    segment = Segment.TRACE


class High(Note):
    segment = Segment.TOP


def test_an_operation_goes_through_every_layer_from_the_top_down() -> None:
    log: list[str] = []
    with Note("a", log), Note("b", log), Note("c", log):
        tensor(1.0) + 1.0
    assert log == ["c", "b", "a"]


def test_an_apply_within_a_layer_starts_below_it() -> None:
    log: list[str] = []

    class Twice(Note):
        def apply_transformation(self, op: Operator, inputs: Sequence[Any]) -> Sequence[Any]:
            if op.computes:
                self.log.append("twice")
                ops.exp(tensor(0.0))  # by a rule, say: written with public functions
            return apply(op, *inputs)

    with Note("below", log), Twice("twice", log):
        tensor(1.0) + 1.0
    assert log == ["twice", "below", "below"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_the_depth_is_restored_whatever_is_raised(error: type[BaseException]) -> None:
    class Fails(Transformation):
        def apply_transformation(self, op: Operator, inputs: Sequence[Any]) -> Sequence[Any]:
            if op.computes:
                raise error
            return apply(op, *inputs)

    seen: list[str] = []
    with Note("outer", seen), Fails(), Grad() as g:
        x = tensor(1.0)
        g.wrt(x)
        with pytest.raises(error):
            x * 2.0
        assert depth() == 4
    assert depth() == 1
    assert (tensor(1.0) + 1.0).item() == 2
    assert seen == []


def test_a_layer_opened_within_an_apply_sits_on_the_position() -> None:
    log: list[str] = []

    class Opens(Note):
        def apply_transformation(self, op: Operator, inputs: Sequence[Any]) -> Sequence[Any]:
            if op.computes:
                self.log.append(self.label)
                with Note("inner", self.log):
                    return apply(op, *inputs)
            return apply(op, *inputs)

    with Note("below", log), Opens("opens", log), Note("above", log):
        tensor(1.0) + 1.0
        assert depth() == 4
    assert log == ["above", "opens", "inner", "below"]


def test_positions_and_segments() -> None:
    a, b = Note("a"), Note("b")
    with a:
        b.register_at(1)
        assert stack()[:2] == (a, b)
        assert (a.pos, b.pos) == (2, 1)
        with pytest.raises(StackError, match="positions run from"):
            Note("c").register_at(9)
        low, high = Low("low"), High("high")
        with pytest.raises(StackError, match="would break the order of segments"):
            High("x").register_at(1)
        low.register_by_segment()
        high.register_by_segment()
        assert stack()[0] is high
        assert stack()[-2] is low
        for layer in (low, high, b):
            layer.unregister()
    with pytest.raises(StackError, match="not on the current stack"):
        _ = a.pos
    with pytest.raises(StackError, match="not registered"):
        a.unregister()


def test_a_layer_is_on_one_stack_at_a_time() -> None:
    layer = Note("a")
    with layer, pytest.raises(StackError, match="already registered"):
        layer.register()
    assert depth() == 1
    with layer:  # and may be used again afterwards
        assert depth() == 2


def test_a_hook_that_raises_leaves_the_stack_as_it_was() -> None:
    class Refuses(Transformation):
        def on_register(self) -> None:
            raise ValueError("no")

    class Sticks(Transformation):
        def on_unregister(self) -> None:
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"), Refuses():
        pass
    assert depth() == 1
    with pytest.raises(ValueError, match="no"), Sticks():
        pass
    assert depth() == 1


def test_a_scope_closed_out_of_order_is_an_error_and_the_stack_is_whole() -> None:
    a, b = Note("a"), Note("b")
    a.register()
    b.register()
    with pytest.raises(StackError, match="out of order"):
        a.__exit__(None, None, None)
    assert stack()[0] is b
    b.__exit__(None, None, None)
    assert depth() == 1


def test_an_error_within_nested_scopes_is_not_masked() -> None:
    with pytest.raises(ZeroDivisionError), Grad("a"), Grad("b"), Grad("c"):
        _ = 1 / 0
    assert depth() == 1


def test_leaving_costs_nothing_that_grows_with_the_values_made() -> None:
    """The steps of leaving are counted: they are as many after ten values as after thousands."""

    def steps_after(count: int) -> int:
        layer = GradTransformation(GradKey())
        layer.register()
        assert layer.key is not None
        value = apply(AttachGrad(layer.key), tensor(1.0)._value, None)[0]
        kept = [apply(ops.Elemwise.ADD, value, value)[0] for _ in range(count)]
        steps = 0

        def count_step(frame: object, event: str, argument: object) -> None:
            nonlocal steps
            steps += 1

        sys.setprofile(count_step)
        try:
            layer.unregister()
        finally:
            sys.setprofile(None)
        assert all(isinstance(v, Wrapper) and not v.scope.live for v in kept)
        return steps

    steps_after(1)
    assert steps_after(3000) == steps_after(10) > 0


# --- leaving, at any moment


class During(Transformation):
    """Does something while it handles an operator."""

    def __init__(self, action: Any) -> None:
        self.action = action

    def apply_transformation(self, op: Operator, inputs: Sequence[Any]) -> Sequence[Any]:
        if op.computes:
            self.action()
        return apply(op, *inputs)


def test_a_layer_may_be_taken_off_in_the_middle_of_the_stack() -> None:
    log: list[str] = []
    a, b, c = (Note(label, log).register() for label in "abc")
    b.unregister()
    tensor(1.0) + 1.0
    assert log == ["c", "a"]
    assert [layer.pos for layer in (c, a)] == [2, 1]
    a.unregister()
    c.unregister()
    assert depth() == 1


@pytest.mark.parametrize("where", ["below", "above"])
def test_a_layer_may_leave_while_an_operator_is_on_its_way(where: str) -> None:
    leaving = Note("leaving")
    if where == "below":
        leaving.register()
    with During(lambda: leaving.registered and leaving.unregister()):
        if where == "above":
            leaving.register()
        for _ in range(2):
            assert (tensor(1.0) + 1.0).item() == 2
        assert depth() == 2
        assert not leaving.registered
    assert depth() == 1
    assert leaving.log == (["leaving"] if where == "above" else [])


def test_a_layer_may_take_itself_off_while_it_handles_an_operator() -> None:
    class Once(Transformation):
        def apply_transformation(self, op: Operator, inputs: Sequence[Any]) -> Sequence[Any]:
            if op.computes:
                self.unregister()
            return apply(op, *inputs)

    once = Once()
    once.register()
    assert (tensor(1.0) + 1.0).item() == 2
    assert depth() == 1
    with pytest.raises(StackError, match="not registered"):
        once.unregister()


def test_pos_counts_what_is_below_also_within_an_apply() -> None:
    seen: list[int] = []
    with Note("below"):
        layer = During(lambda: seen.append(layer.pos))
        with layer, Note("above"):
            tensor(1.0) + 1.0
    assert seen == [2]


def test_the_evaluator_stays() -> None:
    bottom = stack()[-1]
    for change in (bottom.register, bottom.unregister):
        with pytest.raises(StackError):
            change()
    assert stack() == (bottom,)
    assert (tensor(1.0) + 1.0).item() == 2


def test_a_layer_that_left_is_in_nobodys_way() -> None:
    """The chain that an outer block keeps may still hold it; nobody sees it there."""
    gone = Note("gone")
    gone.register()
    with Grad(), no_grad():
        gone.unregister()
        assert gone not in stack()
        low = Note("low")
        low.register_at(1)
        assert low.pos == 1
        low.unregister()
    assert gone not in stack()
    with gone:  # and does not come back where it was
        assert stack().count(gone) == 1
    assert gone.log == []


def test_a_changed_chain_takes_what_nests_properly() -> None:
    with Note("outer"), no_grad():
        with log_dispatch() as events, Note("inner"):
            tensor(1.0) + 1.0
        low = Note("low").register_at(1)
        low.unregister()
        assert {event.layer for event in events} == {"Note(inner)", "Note(outer)", "EvalTransformation"}
    with pytest.raises(StackError, match="still open"), no_grad():
        left = Note("left").register()
    assert left not in stack()
    left.__exit__(ValueError, None, None)


# --- what a layer may answer


@pytest.mark.parametrize("answer", [lambda y: None, lambda y: y[0], lambda y: 3.0, lambda y: tensor(1.0)])
def test_a_layer_that_answers_no_sequence_is_told_so(answer: Any) -> None:
    class Wrong(Transformation):
        def apply_transformation(self, op: Operator, inputs: Sequence[Any]) -> Any:
            outputs = apply(op, *inputs)
            return answer(outputs) if op.computes else outputs

    with Wrong(), pytest.raises(RuleError, match=r"Wrong answered Elemwise.*must return a sequence"):
        tensor([1.0, 2.0]) * 2.0
    assert depth() == 1


def test_a_layer_may_answer_with_public_functions() -> None:
    class Squares(Transformation):
        def apply_transformation(self, op: Operator, inputs: Sequence[Any]) -> Sequence[Any]:
            return [ops.square(tensor(inputs[0]))] if op.computes else apply(op, *inputs)

    with Squares():
        y = ops.exp(tensor([3.0]))
        assert (type(y._value).__name__, y.tolist()) == ("ndarray", [9.0])
        assert vmap(ops.exp)(tensor([[2.0], [3.0]])).tolist() == [[4.0], [9.0]]


def test_a_stack_too_deep_for_python_is_an_error_and_the_stack_is_whole() -> None:
    layers = [Note(str(i)).register() for i in range(3000)]
    try:
        with pytest.raises(RecursionError):
            tensor(1.0) + 1.0
        assert depth() == 3001
    finally:
        for layer in reversed(layers):
            layer.unregister()
    assert (tensor(1.0) + 1.0).item() == 2
