"""Seeing the stack: the dispatch log, `explain`, the layers as records, named parts, debug mode.

While somebody observes, every level of the chain carries an observer that is told of each step down and up. Nobody
observing costs nothing.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

import attrs

from .basic import GetName, PopScope, PushScope, RenameValue
from .dispatch import Transformation, apply, current_level, observe, observed
from .errors import Line, user_line
from .operator import Operator
from .tensor import Tensor, from_value
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

    def __str__(self) -> str:
        came = f"raised {self.error}" if self.error else ", ".join(self.outputs or ())
        indent = "  " * self.depth
        return f"{indent}{self.layer}: {self.op!r} ({', '.join(self.inputs)}) -> {came}"


class Observer:
    """Told by the dispatcher of every step; keeps the events and passes them on."""

    def __init__(self, before: Callable[[Event], None] | None, after: Callable[[Event], None] | None) -> None:
        self.events: list[Event] = []
        self.before = before
        self.after = after
        self.depth = 0

    def enter(self, layer: Transformation, depth: int, op: Operator, inputs: Sequence[Any]) -> tuple[Event, float]:
        event = Event(layer.name, op, tuple(map(short, inputs)), self.depth, user_line())
        self.events.append(event)
        if self.before is not None:
            self.before(event)
        self.depth += 1
        return event, time.perf_counter()

    def leave(self, step: tuple[Event, float], outcome: Any) -> None:
        event, start = step
        self.depth -= 1
        event.seconds = time.perf_counter() - start
        if isinstance(outcome, BaseException):
            event.error = f"{type(outcome).__name__}: {outcome}"
        else:
            event.outputs = tuple(map(short, outcome))
        if self.after is not None:
            self.after(event)


def _printer(stream: TextIO) -> Observer:
    def down(event: Event) -> None:
        print(f"{'  ' * event.depth}> {event.layer}: {event.op!r} ({', '.join(event.inputs)})", file=stream)

    def up(event: Event) -> None:
        came = f"raised {event.error}" if event.error else f"({', '.join(event.outputs or ())})"
        print(f"{'  ' * event.depth}< {event.layer}: {came}", file=stream)

    return Observer(down, up)


@contextmanager
def log_dispatch(stream: TextIO | None = None) -> Iterator[list[Event]]:
    """`with log_dispatch() as events:` every step down and up within the block becomes an event.

    With a `stream`, each is also printed there, indented as it goes down. Layers opened within the block are seen,
    too. Setting LAMINA_LOG_DISPATCH=1 before the import logs everything of the main thread to stderr.

    >>> import interp, ops
    >>> with log_dispatch() as events:
    ...     y = interp.tensor([1.0, 2.0]) * 3.0
    >>> print(events[-1])
    EvalTransformation: Elemwise(mode='MUL') (float32[2], 3.0) -> float32[2]
    """
    observer = Observer(None, None) if stream is None else _printer(stream)
    with observed(observer):
        yield observer.events


def observe_from_environment() -> None:
    """Log to stderr from now on if LAMINA_LOG_DISPATCH asks for it, and note lines if LAMINA_DEBUG does."""
    if os.environ.get("LAMINA_LOG_DISPATCH", "0") not in ("", "0"):
        observe(_printer(sys.stderr))
    if os.environ.get("LAMINA_DEBUG", "0") not in ("", "0"):
        observe(_Annotator())


def explain(f: Callable[..., Any], *args: Any, stream: TextIO | None = None) -> list[Event]:
    """Run `f(*args)` and print one line for each operator at each layer; returns the events.

    A line tells the layer, the operator, what went in and out, the time (layers below included), and where in user
    code it was applied.

    >>> import interp, ops
    >>> events = explain(lambda x: ops.exp(x), interp.tensor([0.0]))
    EvalTransformation ...EXP... float32[1]=[0.] -> float32[1]=[1.] ...
    """
    with log_dispatch() as events:
        f(*args)
    out = sys.stdout if stream is None else stream
    for event in events:
        came = f"raised {event.error}" if event.error else ", ".join(event.outputs or ())
        where = "  " * event.depth
        print(
            f"{where}{event.layer:<20} {event.op!r:<24} {', '.join(event.inputs)} -> {came}"
            f"   {event.seconds * 1e6:.0f} us   {event.line}",
            file=out,
        )
    return list(events)


class _Annotator:
    """Writes on every value that a layer makes which line of user code asked for it."""

    def enter(self, layer: Transformation, depth: int, op: Operator, inputs: Sequence[Any]) -> None:
        return None

    def leave(self, step: None, outcome: Any) -> None:
        if not isinstance(outcome, BaseException):
            for value in outcome:
                if isinstance(value, Wrapper):
                    value.made_at = user_line()


@contextmanager
def debug_mode() -> Iterator[None]:
    """Within the block, every value made by a layer remembers the line that made it; errors about it name that.

    Slow, and off by default. LAMINA_DEBUG=1 set before the import turns it on for the main thread.
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
    level = current_level()
    while level is not None:
        layer = level.layer
        held = layer.scope
        records.append(
            LayerRecord(
                layer.name,
                level.depth,
                held.name if held is not None and held.name else type(layer).__name__,
                "" if held is None else str(held.opened_at),
            )
        )
        if level.below is None:
            break
        level = level.below
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


def rename(x: Tensor, name: str) -> Tensor:
    """The same value under a name, which layers and `name_of` see.

    >>> import interp
    >>> name_of(rename(interp.tensor(1.0), "w"))
    'w'
    """
    return from_value(apply(RenameValue(name), x._value)[0])


def name_of(x: Tensor) -> str:
    """The name that a value was given; "" when it has none."""
    return str(apply(GetName(), x._value)[0])
