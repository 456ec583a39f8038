"""The stack: what goes down, where layers stand, and that it is whole whatever happens."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import interp
import ops
from interp import Segment, StackError, Tensor, Transformation, apply, explain_stack, stack, tensor
from interp.operator import Operator
from interp.value import Wrapper
from transformations import Grad, GradKey, GradTransformation, grad


class Note(Transformation):
    """Keeps the operators that come past."""

    def __init__(self, label: str = "", log: list[str] | None = None) -> None:
        self.label = label
        self.log = [] if log is None else log

    @property
    def name(self) -> str:
        return f"Note({self.label})"

    def apply_transformation(self, op: Operator, inputs: Sequence[Any]) -> Sequence[Any]:
        if op.computes:
            self.log.append(self.label)
        return apply(op, *inputs)


class Low(Note):
    segment = Segment.TRACE


class High(Note):
    segment = Segment.TOP


def depth() -> int:
    return len(stack())


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


def test_a_generator_suspended_inside_a_scope_is_an_error_at_the_close_out_of_order() -> None:
    def generator() -> Any:
        with Note("generator"):
            yield 1
            yield 2

    suspended = generator()
    next(suspended)
    with pytest.raises(StackError, match="generator suspended"), Note("user"):
        suspended.close()
    assert depth() == 1
    assert (tensor(1.0) + 1.0).item() == 2


def test_an_error_within_nested_scopes_is_not_masked() -> None:
    with pytest.raises(ZeroDivisionError), Grad("a"), Grad("b"), Grad("c"):
        _ = 1 / 0
    assert depth() == 1


def test_a_dead_layer_in_another_tasks_chain_passes_through() -> None:
    async def main() -> float:
        ready, go = asyncio.Event(), asyncio.Event()

        async def child() -> float:
            ready.set()
            await go.wait()
            return (tensor(1.0) + 1.0).item()

        layer = Note("parent")
        with layer:
            task = asyncio.create_task(child())
            await ready.wait()
        go.set()
        result = await task
        assert layer.log == []
        return result

    assert asyncio.run(main()) == 2.0


def test_tasks_suspended_inside_scopes_do_not_see_each_other() -> None:
    async def one(value: float) -> float:
        got: list[float] = []
        x = tensor(value)
        with Grad(str(value)) as g:
            g.wrt(x, callback=lambda d: got.append(d.item()))
            await asyncio.sleep(0.001)
            y = x * x
            await asyncio.sleep(0.001)
            assert depth() == 2
            g(y, tensor(1.0))
        return got[0]

    async def main() -> list[float]:
        return await asyncio.gather(*[one(float(i)) for i in range(20)])

    assert asyncio.run(main()) == [2.0 * i for i in range(20)]


def test_to_thread_from_within_a_scope_is_simply_right() -> None:
    async def main() -> tuple[float, int]:
        note = Note("task")
        with note:
            got = await asyncio.to_thread(lambda: (tensor(2.0) * 3.0).item())
            return got, len(note.log)

    assert asyncio.run(main()) == (6.0, 1)


def test_a_thread_started_within_an_apply_begins_at_the_top() -> None:
    found: list[int] = []

    class Starts(Note):
        def apply_transformation(self, op: Operator, inputs: Sequence[Any]) -> Sequence[Any]:
            thread = threading.Thread(target=lambda: found.append(depth()))
            thread.start()
            thread.join()
            return apply(op, *inputs)

    with Starts("s"):
        tensor(1.0) + 1.0
    assert found
    assert set(found) == {1}


def test_a_gradient_value_in_another_thread_reads_as_a_constant() -> None:
    got: list[float] = []
    x = tensor(3.0)
    with Grad() as g:
        g.wrt(x)
        thread = threading.Thread(target=lambda: got.append((x * 2.0).item()))
        thread.start()
        thread.join()
    assert got == [6.0]


def test_threads_with_nested_scopes_give_right_results() -> None:
    stop = time.monotonic() + 10.0
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        random = np.random.default_rng(seed)
        try:
            while time.monotonic() < stop:
                a = random.uniform(0.5, 1.5, 3).astype(np.float32)
                x = tensor(a)
                got: list[Tensor] = []
                with Note("n"), Grad() as g:
                    g.wrt(x, callback=got.append)
                    y = grad(lambda t: ops.sum(t * t * t))(x)
                    g(y, tensor(np.ones(3, np.float32)))
                np.testing.assert_allclose(got[0].numpy(), 6 * a, rtol=1e-5)
                assert depth() == 1
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_leaving_costs_nothing_that_grows_with_the_values_made() -> None:
    def leave_after(count: int) -> float:
        x = tensor(1.0)
        layer = GradTransformation(GradKey())
        layer.register()
        value = apply(interp_attach(layer), x._value, None)[0]
        kept = [apply(ops.Elemwise.ADD, value, value)[0] for _ in range(count)]
        start = time.perf_counter()
        layer.unregister()
        seconds = time.perf_counter() - start
        assert all(isinstance(v, Wrapper) and not v.scope.live for v in kept)
        return seconds

    gc.disable()
    try:
        small = min(leave_after(10) for _ in range(5))
        large = min(leave_after(5000) for _ in range(5))
    finally:
        gc.enable()
    assert large < 20 * small + 1e-4


def interp_attach(layer: GradTransformation) -> Operator:
    from transformations import AttachGrad

    assert layer.key is not None
    return AttachGrad(layer.key)


def test_explain_stack_tells_names_levels_owners_and_lines() -> None:
    with Note("mine"), Grad("loss"):
        records = explain_stack()
    assert [record.name for record in records] == ["GradTransformation('loss')", "Note(mine)", "EvalTransformation"]
    assert [record.level for record in records] == [2, 1, 0]
    assert records[0].owner == "loss"
    assert "test_stack.py" in records[1].line


def test_the_log_shows_steps_down_and_up_and_is_gone_afterwards() -> None:
    import io

    stream = io.StringIO()
    x = tensor(2.0)
    with interp.log_dispatch(stream) as events, Grad() as g:
        g.wrt(x)
        x * 3.0
    text = stream.getvalue()
    assert "> GradTransformation: Elemwise(mode='MUL')" in text
    assert "  > EvalTransformation: Elemwise(mode='MUL')" in text
    assert [e.layer for e in events if "MUL" in repr(e.op)] == ["GradTransformation", "EvalTransformation"]
    before = len(events)
    x * 3.0
    assert len(events) == before
    with interp.log_dispatch() as outer, interp.log_dispatch() as inner, pytest.raises(interp.ShapeError):
        tensor([1.0, 2.0]) + tensor([1.0, 2.0, 3.0])
    assert outer[-1].error == inner[-1].error
    assert "do not broadcast" in str(outer[-1].error)


def test_explain_prints_a_line_an_operator_and_layer(capsys: pytest.CaptureFixture[str]) -> None:
    interp.explain(grad(lambda x: ops.exp(x)), tensor(0.0))
    printed = capsys.readouterr().out
    assert "test_stack.py" in printed
    assert printed.count("EXP") == 2


def test_debug_mode_names_the_line_that_made_a_leaked_value() -> None:
    from transformations import vmap

    kept: list[Tensor] = []

    def leaks(x: Tensor) -> Tensor:
        kept.append(x * 2.0)
        return x

    with interp.debug_mode():
        vmap(leaks)(tensor([1.0, 2.0]))
    with pytest.raises(interp.LeakedValueError, match=r"made at test_stack.py:\d+: kept.append"):
        kept[0] + 1.0


@pytest.mark.parametrize(
    ("variable", "wanted"), [("LAMINA_LOG_DISPATCH", "> EvalTransformation: Elemwise"), ("LAMINA_DEBUG", "")]
)
def test_the_environment_turns_observation_on(variable: str, wanted: str) -> None:
    import os
    import subprocess
    import sys
    from pathlib import Path

    code = "import interp, ops; print((interp.tensor(1.0) + 1.0).item())"
    root = Path(__file__).resolve().parent.parent
    environment = {**os.environ, variable: "1", "PYTHONPATH": str(root)}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "2.0"
    assert wanted in result.stderr
