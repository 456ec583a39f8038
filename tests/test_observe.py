"""Seeing the stack: the dispatch log, `explain`, the layers as records, debug mode."""

from __future__ import annotations

import asyncio
import io
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

import interp
import ops
from interp import (
    LeakedValueError,
    Tensor,
    Transformation,
    Wrapper,
    apply,
    debug_mode,
    dispatch,
    explain,
    explain_stack,
    log_dispatch,
    rename,
    scope,
    tensor,
)
from interp.observe import Event
from interp.operator import Operator
from tests.layers import Box, Note, depth, in_threads
from transformations import Function, Grad, grad, hessian, no_grad, vmap

ROOT = Path(__file__).resolve().parent.parent


def computed(events: Sequence[Event]) -> list[tuple[str, int]]:
    """The layer and depth of each computing operator that was logged."""
    return [(event.layer, event.depth) for event in events if event.op.computes]


def test_explain_stack_tells_names_levels_owners_and_lines() -> None:
    with Note("mine"), Grad("loss"):
        records = explain_stack()
    assert [record.name for record in records] == ["GradTransformation('loss')", "Note(mine)", "EvalTransformation"]
    assert [record.level for record in records] == [2, 1, 0]
    assert records[0].owner == "loss"
    assert "test_observe.py" in records[1].line


def test_the_log_shows_steps_down_and_up_and_is_gone_afterwards() -> None:
    stream = io.StringIO()
    x = tensor(2.0)
    with log_dispatch(stream) as events, Grad() as g:
        g.wrt(x)
        x * 3.0
    text = stream.getvalue()
    assert "> GradTransformation: Elemwise(mode='MUL')" in text
    assert "  > EvalTransformation: Elemwise(mode='MUL')" in text
    assert [e.layer for e in events if "MUL" in repr(e.op)] == ["GradTransformation", "EvalTransformation"]
    before = len(events)
    x * 3.0
    assert len(events) == before
    with log_dispatch() as outer, log_dispatch() as inner, pytest.raises(interp.ShapeError):
        tensor([1.0, 2.0]) + tensor([1.0, 2.0, 3.0])
    assert outer[-1].error == inner[-1].error
    assert "do not broadcast" in str(outer[-1].error)


def test_explain_prints_a_line_an_operator_and_layer(capsys: pytest.CaptureFixture[str]) -> None:
    explain(grad(lambda x: ops.exp(x)), tensor(0.0))
    printed = capsys.readouterr().out
    assert "test_observe.py" in printed
    assert printed.count("EXP") == 2


def test_debug_mode_names_the_line_that_made_a_leaked_value() -> None:
    kept: list[Tensor] = []

    def leaks(x: Tensor) -> Tensor:
        kept.append(x * 2.0)
        return x

    with debug_mode():
        vmap(leaks)(tensor([1.0, 2.0]))
    with pytest.raises(LeakedValueError, match=r"made at test_observe.py:\d+: kept.append"):
        kept[0] + 1.0


@pytest.mark.parametrize(
    ("variable", "wanted"), [("LAMINA_LOG_DISPATCH", "> EvalTransformation: Elemwise"), ("LAMINA_DEBUG", "")]
)
def test_the_environment_turns_observation_on(variable: str, wanted: str) -> None:
    code = "import interp, ops; print((interp.tensor(1.0) + 1.0).item())"
    environment = {**os.environ, variable: "1", "PYTHONPATH": str(ROOT)}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "2.0"
    assert wanted in result.stderr


def test_the_log_reads_as_the_way_down_and_up() -> None:
    stream = io.StringIO()
    with Note("outer"), log_dispatch(stream), Note("inner"):
        ops.exp(tensor(np.zeros(2, np.float32)))
    lines = [line for line in stream.getvalue().splitlines() if "Create" not in line][-6:]
    assert lines == [
        "> Note(inner): Elemwise(mode='EXP') (float32[2])",
        "  > Note(outer): Elemwise(mode='EXP') (float32[2])",
        "    > EvalTransformation: Elemwise(mode='EXP') (float32[2])",
        "    < EvalTransformation: (float32[2])",
        "  < Note(outer): (float32[2])",
        "< Note(inner): (float32[2])",
    ]


def test_events_tell_what_went_in_came_out_and_where() -> None:
    with log_dispatch() as events, pytest.raises(interp.ShapeError):
        x = tensor([1.0, 2.0]) * 3.0
        x + tensor([1.0, 2.0, 3.0])
    product, total = (event for event in events if event.op.computes)
    assert (product.inputs, product.outputs, product.error) == (("float32[2]", "3.0"), ("float32[2]",), None)
    assert total.outputs is None
    assert total.error is not None
    assert total.error.startswith("ShapeError")
    assert str(product.line).startswith("test_observe.py:")
    assert "x = tensor([1.0, 2.0]) * 3.0" in str(product.line)
    assert product.seconds >= 0
    assert "raised ShapeError" in str(total)


def test_a_backward_pass_is_logged_where_it_runs() -> None:
    x = tensor([1.0, 2.0])
    with Grad() as g:
        g.wrt(x)
        y = ops.exp(x) * x
        with log_dispatch() as events:
            g(y, tensor([1.0, 1.0]))
    assert computed(events)
    assert {layer for layer, _ in computed(events)} == {"EvalTransformation"}


def test_layers_may_come_and_go_within_a_log_and_the_log_within_layers() -> None:
    a, b = Note("a"), Note("b")
    with log_dispatch() as events:
        a.register()
        b.register_at(1)
        tensor(1.0) + 1.0
        a.unregister()
    assert [layer for layer, _ in computed(events)] == ["Note(a)", "Note(b)", "EvalTransformation"]
    assert depth() == 2  # as it was left
    tensor(1.0) + 1.0
    assert len(computed(events)) == 3
    b.unregister()


def test_nested_logs_see_what_happens_in_them_and_no_more() -> None:
    with log_dispatch() as outer:
        tensor(1.0) + 1.0
        with log_dispatch() as inner, no_grad():
            tensor(1.0) + 1.0
        tensor(1.0) + 1.0
    assert (len(computed(outer)), len(computed(inner))) == (3, 1)


def test_a_log_costs_nothing_when_it_is_off() -> None:
    """The chain is the very one that it was: nothing on the way asks whether somebody looks."""
    before = dispatch.current_level()
    with log_dispatch():
        assert dispatch.current_level() is not before
    assert dispatch.current_level() is before
    with Note("n"):
        with log_dispatch():
            pass
        assert dispatch.current_level().observer is None
        assert dispatch.current_level().plain.observer is None


@pytest.mark.parametrize("where", ["down", "up"])
def test_an_observer_that_raises_leaves_the_stack_whole(where: str) -> None:
    class Breaks(io.StringIO):
        def write(self, text: str) -> int:
            if text.startswith(">" if where == "down" else "<"):
                raise KeyboardInterrupt
            return len(text)

    with Note("n"):
        with pytest.raises(KeyboardInterrupt), log_dispatch(Breaks()):
            tensor(1.0) + 1.0
        assert depth() == 2
        assert dispatch.local.thread.position is None
        assert (tensor(1.0) + 1.0).item() == 2
    assert depth() == 1


def test_a_task_that_outlives_a_log_is_logged_no_more() -> None:
    async def main() -> list[Event]:
        go = asyncio.Event()

        async def child() -> None:
            tensor(1.0) + 1.0
            await go.wait()
            tensor(1.0) + 1.0

        with log_dispatch() as events:
            task = asyncio.create_task(child())
            await asyncio.sleep(0)
        go.set()
        await task
        return events

    assert len(computed(asyncio.run(main()))) == 1


def test_depth_is_counted_by_thread() -> None:
    async def main() -> list[Event]:
        with log_dispatch() as events, Grad() as g:
            x = tensor(2.0)
            g.wrt(x)

            def work() -> None:
                for _ in range(200):
                    x * 2.0

            await asyncio.gather(*[asyncio.to_thread(work) for _ in range(4)])
        return events

    assert set(computed(asyncio.run(main()))) == {("GradTransformation", 0), ("EvalTransformation", 1)}


def test_threads_log_for_themselves() -> None:
    def work(count: int) -> None:
        for _ in range(20):
            with log_dispatch() as events:
                for _ in range(count):
                    tensor(1.0) + 1.0
            assert len(computed(events)) == count

    in_threads(work, range(1, 6))


def test_a_value_that_computes_to_describe_itself_does_not_disturb_the_log() -> None:
    class Talks(Wrapper):
        def __init__(self, scope: Any, value: Any) -> None:
            self.scope = scope
            self.value = value

        def flatten(self) -> tuple[Any, ...]:
            return (self.value,)

        def __repr__(self) -> str:
            return repr(ops.exp(tensor(self.value)))

    class Wraps(Transformation):
        def apply_transformation(self, op: Operator, inputs: Sequence[Any]) -> Sequence[Any]:
            outputs = apply(op, *map(self.unwrap, inputs))
            return [Talks(self.scope, value) for value in outputs] if op.computes else outputs

    with log_dispatch() as events, Wraps():
        tensor(0.0) * 2.0
    assert [event.outputs for event in events if event.op.computes] == [("tensor(1.)",), ("float32[]=0.",)]


def test_a_repr_that_raises_is_not_the_logs_concern() -> None:
    class Mute(Wrapper):
        def __init__(self, scope: Any, value: Any) -> None:
            self.scope = scope
            self.value = value

        def flatten(self) -> tuple[Any, ...]:
            return (self.value,)

        def __repr__(self) -> str:
            raise ValueError("no")

    class Wraps(Transformation):
        def apply_transformation(self, op: Operator, inputs: Sequence[Any]) -> Sequence[Any]:
            outputs = apply(op, *map(self.unwrap, inputs))
            return [Mute(self.scope, value) for value in outputs] if op.computes else outputs

    with log_dispatch() as events, Wraps():
        tensor(0.0) * 2.0
    assert next(event for event in events if event.op.computes).outputs == ("<Mute whose repr raises ValueError>",)


@pytest.mark.parametrize("layered", [lambda f: f, grad, vmap, lambda f: hessian(f), lambda f: vmap(grad(f))])
def test_what_is_logged_is_computed_the_same(layered: Any) -> None:
    def f(x: Tensor) -> Tensor:
        return ops.sum(ops.exp(x) * x)

    def logged(x: Tensor) -> Tensor:
        with log_dispatch():
            return f(x)

    x = tensor([[1.0, 2.0]]) if layered in (vmap,) or "vmap" in layered.__code__.co_names else tensor([1.0, 2.0])
    with log_dispatch():
        wanted = layered(f)(x).tolist()
    assert layered(logged)(x).tolist() == layered(f)(x).tolist() == wanted


def test_logs_within_custom_rules() -> None:
    class Exp(Function):
        def forward(self, x: Tensor) -> Tensor:
            with log_dispatch():
                self.y = ops.exp(x)
            return self.y

        def backward(self, dy: Tensor) -> Tensor:
            with log_dispatch() as events:
                dx = dy * self.y
            assert computed(events)
            return dx

    np.testing.assert_allclose(grad(lambda x: ops.sum(Exp()(x)))(tensor([0.0, 1.0])).numpy(), np.exp([0.0, 1.0]), 1e-6)


def test_explain_prints_what_came_before_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    def fails() -> None:
        x = ops.exp(tensor(0.0))
        x + tensor([1.0]).reshape((7,)) if hasattr(x, "reshape") else ops.reshape(x, (7,))

    with pytest.raises(interp.InterpError):
        explain(fails)
    printed = capsys.readouterr().out
    assert "EXP" in printed
    assert "raised ShapeError" in printed
    assert " us   test_observe.py:" in printed


def test_explain_returns_its_events_and_takes_a_stream() -> None:
    stream = io.StringIO()
    events = explain(ops.exp, tensor(0.0), stream=stream)
    assert [str(event.op) for event in events] == ["Elemwise(mode='EXP')"]
    assert stream.getvalue().count("\n") == 1


def test_lines_are_the_users_own_whatever_stands_between() -> None:
    x = tensor([1.0, 2.0])
    with log_dispatch() as events:
        with scope("part"):
            np.sum(x)
        sorted([2.0, 1.0], key=lambda v: (x * v).tolist())
    assert {str(event.line).split(":")[0] for event in events} == {"test_observe.py"}
    assert any("np.sum(x)" in str(event.line) for event in events)


def test_a_long_line_is_cut(tmp_path: Path) -> None:
    file = tmp_path / "long.py"
    file.write_text("x = " + " + ".join(["1"] * 200))
    shown = str(interp.errors.Line(str(file), 1))
    assert shown.startswith("long.py:1: x = 1 + 1")
    assert shown.endswith("...")
    assert len(shown) < 160


def test_records_of_a_stack_with_a_finished_layer_and_within_an_apply() -> None:
    seen: list[list[str]] = []

    class Looks(Note):
        def apply_transformation(self, op: Operator, inputs: Sequence[Any]) -> Sequence[Any]:
            seen.append([record.name for record in explain_stack()])
            return apply(op, *inputs)

    with Note("below"), Looks("looks"), Note("above"):
        tensor(1.0) + 1.0
    assert seen[0] == ["Note(below)", "EvalTransformation"]
    with Grad("g") as g:
        x = tensor(1.0)
        g.wrt(x)
        g(x * x, tensor(1.0))
        record = explain_stack()[0]
        assert (record.level, record.owner) in ((1, "g"), (0, "EvalTransformation"))


def test_debug_mode_notes_the_line_that_made_a_value_not_the_one_that_passed_it_on() -> None:
    with debug_mode(), Box() as box:
        made = tensor(1.0) * 2.0
        line = made._value.made_at
        again = apply(interp.IsScalar(), made._value)
        assert made._value.made_at is line
        assert "made = tensor(1.0) * 2.0" in str(line)
    assert again == (True,)
    assert not box.registered


def test_debug_mode_reaches_frozen_wrappers_and_nests() -> None:
    @attrs.frozen
    class Frozen(Wrapper):
        scope: Any
        value: Any

        def flatten(self) -> tuple[Any, ...]:
            return (self.value,)

    class Wraps(Transformation):
        def apply_transformation(self, op: Operator, inputs: Sequence[Any]) -> Sequence[Any]:
            outputs = apply(op, *map(self.unwrap, inputs))
            return [Frozen(self.scope, value) for value in outputs] if op.computes else outputs

    with debug_mode(), log_dispatch() as events, debug_mode():
        with Wraps():
            kept = tensor(1.0) * 2.0
        with pytest.raises(LeakedValueError, match=r"It was made at test_observe\.py"):
            kept + 1.0
    assert computed(events)


def test_without_debug_mode_nothing_is_noted() -> None:
    with Box(settles=False):
        kept = tensor(1.0) * 2.0
    with pytest.raises(LeakedValueError) as caught:
        kept + 1.0
    assert "made at" not in str(caught.value)
    assert "with Box(settles=False):" in str(caught.value)


def test_a_value_used_in_another_thread_is_named_with_its_line() -> None:
    found: list[str] = []

    def f(x: Tensor) -> Tensor:
        y = x * 2.0

        def work() -> None:
            try:
                y + 1.0
            except LeakedValueError as error:
                found.append(str(error))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return y

    with debug_mode():
        vmap(f)(tensor([1.0, 2.0]))
    assert "made at test_observe.py" in found[0]


def test_the_environments_log_sees_every_thread() -> None:
    code = (
        "import threading, interp, ops\n"
        "def work(): interp.tensor(1.0) + 1.0\n"
        "t = threading.Thread(target=work); t.start(); t.join()\n"
        "with interp.log_dispatch() as events: interp.tensor(1.0) * 1.0\n"
        "print(len(events))\n"
        "interp.tensor(1.0) - 1.0\n"
    )
    environment = {**os.environ, "LAMINA_LOG_DISPATCH": "1", "PYTHONPATH": str(ROOT)}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert all(f"> EvalTransformation: Elemwise(mode='{mode}')" in result.stderr for mode in ("ADD", "MUL", "SUB"))
    assert result.stdout.strip() == "2"


def test_named_parts_and_names_pass_every_layer() -> None:
    def f(x: Tensor) -> Tensor:
        with scope("part"):
            named = rename(x, "weight")
            assert interp.name_of(named) == "weight"
            return ops.sum(named * named)

    assert grad(f)(tensor([1.0, 2.0])).tolist() == [2, 4]
    assert vmap(f)(tensor([[1.0, 2.0]])).tolist() == [5]
    with pytest.raises(ZeroDivisionError), scope("fails"):
        _ = 1 / 0
