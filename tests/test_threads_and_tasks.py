"""Each thread and each task has a stack of its own, whatever is suspended where."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import ops
from interp import LeakedValueError, StackError, Tensor, apply, default_dtype, default_dtype_scope, stack, tensor
from interp.operator import Operator
from tests.layers import Note, depth, in_threads
from transformations import Grad, grad, no_grad, vmap


def in_thread(work: Callable[[], Any]) -> Any:
    """What `work` answers, or raises, in a thread of its own."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


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
    def work(seed: int) -> None:
        random = np.random.default_rng(seed)
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

    in_threads(work, range(8))


def test_a_thread_does_not_see_the_layers_of_another() -> None:
    with Note("mine") as mine:
        assert in_thread(depth) == 1
        in_thread(lambda: tensor(1.0) + 1.0)
        assert mine.log == []

        def work() -> list[str]:
            with Note("theirs") as theirs:
                tensor(1.0) + 1.0
                return theirs.log

        assert in_thread(work) == ["theirs"]
        assert depth() == 2


def test_a_layer_closed_in_another_thread_is_an_error_and_both_stacks_are_whole() -> None:
    layer = Note("here")
    layer.register()

    def work() -> None:
        with pytest.raises(StackError, match="not registered on the current stack"):
            layer.unregister()
        with pytest.raises(StackError, match="the thread or task that opened it"):
            layer.__exit__(None, None, None)

    in_thread(work)
    assert depth() == 1  # it was taken off, and is nobody's any more
    assert (tensor(1.0) + 1.0).item() == 2
    assert layer.log == []


def test_a_layer_opened_again_does_not_come_back_to_life_in_an_old_chain() -> None:
    async def main() -> list[str]:
        layer, go = Note("twice"), asyncio.Event()

        async def child() -> None:
            await go.wait()
            tensor(1.0) + 1.0
            assert layer not in stack()

        with layer:
            task = asyncio.create_task(child())
            await asyncio.sleep(0)
        with layer:
            go.set()
            await task
        return layer.log

    assert asyncio.run(main()) == []


def test_a_task_started_within_a_scope_may_open_its_own_on_top() -> None:
    async def child(log: list[str]) -> int:
        with Note("child", log):
            await asyncio.sleep(0)
            tensor(1.0) + 1.0
            await asyncio.sleep(0)
            return depth()

    async def main() -> None:
        log: list[str] = []
        with Note("parent", log):
            assert await asyncio.gather(child(log), child(log)) == [3, 3]
            assert depth() == 2
        assert log == ["child", "parent"] * 2

    asyncio.run(main())


def test_a_cancelled_task_leaves_no_layer_behind() -> None:
    async def main() -> None:
        layer = Note("cancelled")

        async def child() -> None:
            with layer, Grad(), no_grad():
                await asyncio.sleep(60)

        task = asyncio.create_task(child())
        await asyncio.sleep(0)
        assert layer.registered
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not layer.registered
        assert depth() == 1

    asyncio.run(main())


def test_async_generators_suspended_inside_a_scope() -> None:
    async def numbers(x: Tensor) -> AsyncIterator[Tensor]:
        with Note("generator"):
            for i in range(3):
                yield x * float(i)

    async def main() -> list[float]:
        found = [y.item() async for y in numbers(tensor(2.0))]
        assert depth() == 1
        return found

    assert asyncio.run(main()) == [0.0, 2.0, 4.0]


def test_a_copied_context_has_the_layers_and_keeps_changes_to_itself() -> None:
    with Note("outer") as outer:
        context = contextvars.copy_context()
        inner = Note("inner")
        context.run(inner.register)
        assert depth() == 2
        assert context.run(depth) == 3
        context.run(lambda: tensor(1.0) + 1.0)
        assert (inner.log, outer.log) == (["inner"], ["outer"])
        context.run(inner.unregister)


def test_the_position_belongs_to_the_thread_and_the_chain_to_the_task() -> None:
    """A context copied within an `apply` and run by another thread begins at the top of the chain."""
    depths: list[int] = []

    class Copies(Note):
        def apply_transformation(self, op: Operator, inputs: Sequence[Any]) -> Sequence[Any]:
            if op.computes:
                context = contextvars.copy_context()
                depths.append(depth())
                depths.append(in_thread(lambda: context.run(depth)))
            return apply(op, *inputs)

    with Note("below"), Copies("copies"), Note("above"):
        tensor(1.0) + 1.0
    assert depths == [2, 4]


def test_generators_that_nest_their_scopes_may_be_used_together() -> None:
    def scoped(label: str, log: list[str]) -> Iterator[int]:
        with Note(label, log):
            yield 1

    log: list[str] = []
    first, second = scoped("first", log), scoped("second", log)
    next(first), next(second)
    tensor(1.0) + 1.0
    assert log == ["second", "first"]
    assert list(second) == []
    assert list(first) == []
    assert depth() == 1


def test_generators_closed_in_the_wrong_order_are_told_and_both_leave() -> None:
    def scoped(label: str) -> Iterator[int]:
        with Note(label):
            yield 1

    first, second = scoped("first"), scoped("second")
    next(first), next(second)
    with pytest.raises(StackError, match=r"Note\(first\) was closed out of order"):
        next(first)
    assert depth() == 2
    assert list(second) == []
    assert depth() == 1


def test_a_generator_that_is_dropped_inside_its_scope_takes_its_layer_along() -> None:
    def scoped() -> Iterator[int]:
        with Note("dropped"):
            yield 1

    suspended = scoped()
    next(suspended)
    assert depth() == 2
    del suspended
    gc.collect()
    assert depth() == 1


def test_a_gradient_recorded_by_a_generator_of_losses() -> None:
    x, got = tensor([1.0, 2.0]), []

    def losses() -> Iterator[Tensor]:
        with Grad() as g:
            g.wrt(x, callback=got.append)
            y = ops.sum(x * x)
            yield y
            g(y, tensor(1.0))

    for loss in losses():
        assert loss.item() == 5
    assert got[0].tolist() == [2, 4]
    assert depth() == 1


def test_no_grad_in_one_task_is_not_seen_by_another() -> None:
    async def main() -> None:
        x, got = tensor(3.0), []
        with Grad() as g:
            g.wrt(x, callback=got.append)
            entered, leave = asyncio.Event(), asyncio.Event()

            async def suppressed() -> Tensor:
                with no_grad():
                    entered.set()
                    await leave.wait()
                    return x * x

            task = asyncio.create_task(suppressed())
            await entered.wait()
            y = x * x
            leave.set()
            z = await task
            g(y * z, tensor(1.0))
        assert got[0].item() == 6 * 9

    asyncio.run(main())


def test_no_grad_in_one_thread_is_not_seen_by_another_that_records() -> None:
    async def main() -> list[float]:
        x, got = tensor(2.0), []
        with Grad() as g:
            g.wrt(x, callback=lambda d: got.append(d.item()))
            done = threading.Event()

            def other() -> None:
                while not done.is_set():
                    with no_grad():
                        ops.exp(x)

            task = asyncio.create_task(asyncio.to_thread(other))
            await asyncio.sleep(0.01)
            y = x * 0.0
            for _ in range(3000):
                y = y + x
            done.set()
            await task
            g(y, tensor(1.0))
        return got

    assert asyncio.run(main()) == [3000.0]


def test_the_default_dtype_belongs_to_the_thread_too() -> None:
    with default_dtype_scope("float64"):
        assert in_thread(default_dtype) == np.float32
        assert in_thread(lambda: tensor(1.0).dtype) == np.float32
        assert tensor(1.0).dtype == np.float64


def test_a_batched_value_in_another_thread_is_an_error_that_says_so() -> None:
    def f(x: Tensor) -> Tensor:
        with pytest.raises(LeakedValueError, match="not on this thread's or task's stack"):
            in_thread(lambda: x + 1.0)
        return x

    vmap(f)(tensor([1.0, 2.0]))


def test_an_error_in_one_thread_leaves_the_others_alone() -> None:
    class Fails(Note):
        def apply_transformation(self, op: Operator, inputs: Sequence[Any]) -> Sequence[Any]:
            raise KeyboardInterrupt

    def work() -> int:
        with pytest.raises(KeyboardInterrupt), Fails():
            tensor(1.0) + 1.0
        return depth()

    with Note("mine") as mine:
        assert in_thread(work) == 1
        tensor(1.0) + 1.0
        assert mine.log == ["mine"]


def test_results_do_not_depend_on_which_thread_differentiates() -> None:
    x = tensor(np.linspace(0.5, 1.5, 64, dtype=np.float32))
    f = grad(lambda t: ops.sum(grad(lambda u: ops.sum(ops.exp(u) * u))(t)))
    wanted = f(x).tolist()
    with ThreadPoolExecutor(8) as pool:
        assert all(found.tolist() == wanted for found in pool.map(f, [x] * 64))
