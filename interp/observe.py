"""Seeing the stack: the dispatch log, `explain`, the layers as records, named parts, debug mode.

While somebody observes, every level of the chain carries an observer that is told of each step down and up. Nobody
observing costs nothing.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO, TypeAlias

import attrs

from .basic import GetName, PopScope, PushScope, RenameValue
from .dispatch import Transformation, apply, current_level, levels_from, observe_everywhere, observed, read
from .errors import Line, user_line
from .operator import Operator
from .tensor import Tensor, as_operand, call_one
from .value import Wrapper, short

__all__ = [
    "Event",
    "LayerRecord",
    "debug_mode",
    "explain",
    "explain_stack",
    "log_dispatch",
    "name_of",
    "observe_from_environment",
    "rename",
    "scope",
]


@attrs.define
class Event:
    """One operator at one layer: what went in, what came out (or was raised), and how long it took.

    `depth` counts the layers above it within the same operation, `seconds` includes the layers below.
    """

    layer: str
    op: Operator
    inputs: tuple[str, ...]
    depth: int
    line: Line
    outputs: tuple[str, ...] | None = None
    error: str | None = None
    seconds: float = 0.0

    @property
    def came(self) -> str:
        """What came of it: the outputs, or what was raised."""
        return f"raised {self.error}" if self.error else f"({', '.join(self.outputs or ())})"

    def __str__(self) -> str:
        return f"{'  ' * self.depth}{self.layer}: {self.op!r} ({', '.join(self.inputs)}) -> {self.came}"


Step: TypeAlias = tuple[Event, float]


class _Place(threading.local):
    """Where a thread is: how many steps deep, and whether it is busy describing one."""

    def __init__(self) -> None:
        self.depth = 0
        self.busy = False


class Observer:
    """Told by the dispatcher of every step, as long as it is `open`; keeps events, or prints them, or both."""

    def __init__(self, events: list[Event] | None, stream: Callable[[], TextIO] | None = None) -> None:
        self.events = events
        self.stream = stream
        self.open = True
        self.place = _Place()

    def enter(self, layer: Transformation, depth: int, op: Operator, inputs: Sequence[Any]) -> Step | None:
        place = self.place
        if place.busy or not self.open:  # operators that a value applies to describe itself are no part of the program
            return None
        event = Event(layer.name, op, self.described(inputs), place.depth, user_line())
        if self.events is not None:
            self.events.append(event)
        if self.stream is not None:
            self.print(f"{'  ' * event.depth}> {event.layer}: {event.op!r} ({', '.join(event.inputs)})")
        place.depth += 1
        return event, time.perf_counter()

    def leave(self, step: Step | None, outcome: Any) -> None:
        if step is None:
            return
        event, start = step
        event.seconds = time.perf_counter() - start
        self.place.depth = event.depth
        if isinstance(outcome, BaseException):
            event.error = f"{type(outcome).__name__}: {outcome}"
        else:
            event.outputs = self.described(outcome)
        if self.stream is not None and self.open:
            self.print(f"{'  ' * event.depth}< {event.layer}: {event.came}")

    def described(self, values: Sequence[Any]) -> tuple[str, ...]:
        self.place.busy = True
        try:
            return tuple(map(short, values))
        finally:
            self.place.busy = False

    def print(self, line: str) -> None:
        assert self.stream is not None
        print(line, file=self.stream())


@contextmanager
def log_dispatch(stream: TextIO | None = None) -> Iterator[list[Event]]:
    """`with log_dispatch() as events:` every step down and up within the block becomes an event.

    With a `stream`, each is also printed there, indented as it goes down. Layers opened within the block are seen,
    too, and so are tasks started in it, up to its end. Setting LAMINA_LOG_DISPATCH=1 before the import prints every
    step of every thread to stderr.

    >>> import interp, ops
    >>> with log_dispatch() as events:
    ...     y = interp.tensor([1.0, 2.0]) * 3.0
    >>> print(events[-1])
    EvalTransformation: Elemwise(mode='MUL') (float32[2], 3.0) -> (float32[2])
    """
    events: list[Event] = []
    observer = Observer(events, None if stream is None else lambda: stream)
    try:
        with observed(observer):
            yield events
    finally:
        observer.open = False  # a task that was started within the block still holds it


def observe_from_environment() -> None:
    """Log to stderr from now on if LAMINA_LOG_DISPATCH asks for it, and note lines if LAMINA_DEBUG does."""
    if os.environ.get("LAMINA_LOG_DISPATCH", "0") not in ("", "0"):
        observe_everywhere(Observer(None, lambda: sys.stderr))
    if os.environ.get("LAMINA_DEBUG", "0") not in ("", "0"):
        observe_everywhere(_Annotator())


def explain(f: Callable[..., Any], *args: Any, stream: TextIO | None = None) -> list[Event]:
    """Run `f(*args)` and print one line for each operator at each layer; returns the events.

    A line tells the layer, the operator, what went in and out, the time (layers below included), and where in user
    code it was applied. Where `f` raises, what came before is printed.

    >>> import interp, ops
    >>> events = explain(lambda x: ops.exp(x), interp.tensor([0.0]))
    EvalTransformation ...EXP... (float32[1]=[0.]) -> (float32[1]=[1.]) ...
    """
    events: list[Event] = []
    out = sys.stdout if stream is None else stream
    try:
        with log_dispatch() as events:
            f(*args)
    finally:
        for event in events:
            step = f"{'  ' * event.depth}{event.layer:<20} {short(event.op):<24} ({', '.join(event.inputs)})"
            print(f"{step} -> {event.came}   {event.seconds * 1e6:.0f} us   {event.line}", file=out)
    return events


class _Annotator:
    """Writes on every value that a layer makes which line of user code asked for it."""

    def enter(self, layer: Transformation, depth: int, op: Operator, inputs: Sequence[Any]) -> Sequence[Any]:
        return inputs

    def leave(self, inputs: Sequence[Any], outcome: Any) -> None:
        if isinstance(outcome, BaseException):
            return
        for value in outcome:
            if isinstance(value, Wrapper) and not any(value is given for given in inputs):
                object.__setattr__(value, "made_at", user_line())  # a frozen class does not mind


@contextmanager
def debug_mode() -> Iterator[None]:
    """Within the block, every value made by a layer remembers the line that made it; errors about it name that.

    Slow, and off by default. LAMINA_DEBUG=1 set before the import turns it on in every thread.
    """
    with observed(_Annotator()):
        yield


@attrs.frozen
class LayerRecord:
    """One layer of the stack: its name, how many layers lie below it, who owns it, and where it was opened."""

    name: str
    level: int
    owner: str
    line: str


def explain_stack() -> tuple[LayerRecord, ...]:
    """The layers that an `apply` made now would go through, top first.

    >>> [record.name for record in explain_stack()]
    ['EvalTransformation']
    """
    records = []
    levels = levels_from(current_level())
    for below, level in zip(reversed(range(len(levels))), levels, strict=True):
        held = level.scope
        owner = held.name or type(level.layer).__name__
        records.append(LayerRecord(level.layer.name, below, owner, str(held.opened_at)))
    return tuple(records)


@contextmanager
def scope(name: str) -> Iterator[None]:
    """`with scope("encoder"):` what is applied within belongs to a named part, for layers that care.

    >>> with scope("encoder"):
    ...     pass
    """
    apply(PushScope(name))
    try:
        yield
    finally:
        apply(PopScope(name))


def rename(x: Any, name: str) -> Tensor:
    """The same value under a name, which layers and `name_of` see.

    >>> import interp
    >>> name_of(rename(interp.tensor(1.0), "w"))
    'w'
    """
    return call_one(RenameValue(name), x)


def name_of(x: Any) -> str:
    """The name that a value was given; "" when it has none."""
    operand = as_operand(x)
    return str(apply(GetName(), read(operand) if isinstance(operand, Tensor) else operand)[0])
