"""Small layers that the tests of the stack share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from interp import Transformation, Wrapper, apply, stack
from interp.operator import Operator


def in_threads(work: Callable[[int], object], seeds: Iterable[int]) -> None:
    """Run `work` of each seed in a thread of its own, all at once; raises what the first of them raised."""
    failures: list[BaseException] = []

    def guarded(seed: int) -> None:
        try:
            work(seed)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(seed,)) for seed in seeds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


class Note(Transformation):
    """Keeps its label for every computing operator that comes past."""

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


class Boxed(Wrapper):
    """A value in a box; `settles` says whether it can be read without its layer."""

    def __init__(self, scope: Any, value: Any, settles: bool) -> None:
        self.scope = scope
        self.value = value
        self.settles = settles

    def flatten(self) -> tuple[Any, ...]:
        return (self.value,)

    def unflatten(self, leaves: tuple[Any, ...]) -> Boxed:
        return Boxed(self.scope, leaves[0], self.settles)

    def settled(self) -> Any:
        return self.value if self.settles else super().settled()


class Box(Transformation):
    """Puts every result in a box of its own."""

    def __init__(self, settles: bool = True) -> None:
        self.settles = settles

    def apply_transformation(self, op: Operator, inputs: Sequence[Any]) -> Sequence[Any]:
        outputs = apply(op, *map(self.unwrap, inputs))
        return [Boxed(self.scope, value, self.settles) for value in outputs] if op.computes else outputs


def depth() -> int:
    """How many layers there are, the evaluator included."""
    return len(stack())
