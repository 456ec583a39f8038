"""The stack of transformations, and `apply`: the one entrance of every operation.

The registered layers are an immutable linked list of `Level`s in a context variable, so each thread and each
asyncio task has its own. While a layer handles a request, the thread's position is the level below it, and an
`apply` made meanwhile starts there. That is all: whatever a layer does, it can only go down.
"""

from __future__ import annotations

import copy
import enum
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, ClassVar, Self

import numpy as np

from .errors import Line, StackError
from .operator import Operator
from .position import Thread, local
from .value import Scope, Wrapper, settle

__all__ = ["Handle", "Level", "Segment", "Transformation", "apply", "current_level", "deliver", "method_of", "stack"]

ndarray = np.ndarray


class Segment(enum.IntEnum):
    """Where in the stack a layer belongs that is opened with no regard to nesting; higher is nearer the user."""

    EVAL = 0
    SYMBOL = 10
    TRACE = 20
    COMPILED = 30
    MIDDLE = 50
    GRAD = 70
    FORMAT = 80
    TOP = 100


class Handle:
    """What user code holds: a reference to a value that Python code can rebind. `Tensor` is its one subclass."""

    __slots__ = ("__weakref__", "_value")

    def __init__(self, value: Any) -> None:
        self._value = value


class Transformation:
    """A layer of the stack. Subclass it, define `apply_transformation`, and open it with `with`.

    `apply_transformation(op, inputs)` answers an operator by returning a sequence of output values, usually
    after calling `apply(op, *inputs)`, which goes to the layer below. Whatever it must recognise later it
    wraps in a `Wrapper` of its own; `unwrap` takes that off for a reader.

    A class that sets `only_wrapped` to its class of wrappers promises to pass on, unchanged, every computing
    operator none of whose inputs it wrapped; the dispatcher then does not even ask it.

    >>> import interp, ops
    >>> class Count(interp.Transformation):
    ...     seen = 0
    ...     def apply_transformation(self, op, inputs):
    ...         self.seen += op.computes
    ...         return interp.apply(op, *inputs)
    >>> with Count() as count:
    ...     y = ops.exp(interp.tensor(1.0)) * 2
    >>> count.seen
    2
    """

    segment: ClassVar[Segment] = Segment.MIDDLE
    only_wrapped: ClassVar[type[Wrapper] | None] = None

    scope: Scope | None = None
    registered: bool = False

    @property
    def name(self) -> str:
        """How the layer is called in logs and errors."""
        return type(self).__name__

    def apply_transformation(self, op: Operator, inputs: Sequence[Any]) -> Sequence[Any]:
        """Answer `op`; by default, pass it on to the layer below."""
        return apply(op, *inputs)

    def takes_program(self, op: Operator) -> bool:
        """Whether the layer answers this operator that carries programs by itself.

        By default it does not: the dispatcher runs the operators of the program one by one through the layer.
        """
        return False

    def renewed(self) -> Transformation:
        """Another layer of the same kind, not registered, with a scope of its own: for a program that runs later."""
        other = copy.copy(self)
        other.registered = False
        other.scope = Scope(self.name)
        return other

    def gradient_for(self, gradient: Any, template: Wrapper | None) -> tuple[Any, ...]:
        """The gradients of the leaves of an input, from its gradient as this layer sees it.

        `template` is the input where this layer had wrapped it, else None. Raises StackError where a gradient is
        wrapped and the input was not, which only the layer itself could know how to undo.
        """
        mine = isinstance(gradient, Wrapper) and gradient.scope is self.scope
        if mine and template is None:
            raise StackError(
                f"{self.name}: a custom gradient came back wrapped for an input that was not; define gradient_for"
            )
        if mine:
            return tuple(gradient.flatten())
        return (gradient,) if template is None else (gradient,) + (None,) * (len(template.flatten()) - 1)

    def unwrap(self, value: Any) -> Any:
        """The value below, where `value` is one that this layer wrapped; else `value` itself."""
        scope = self.scope
        if scope is not None and isinstance(value, Wrapper) and value.scope is scope:
            return value.unwrap()
        return value

    def make_scope(self) -> Scope:
        """The lifetime of the wrappers made from now until the layer is unregistered."""
        return Scope(self.name)

    def on_register(self) -> None:
        """Called just after the layer came onto a stack."""

    def on_unregister(self) -> None:
        """Called just before the layer leaves."""

    @property
    def pos(self) -> int:
        """How many layers lie below this one in the current stack. Raises StackError when it is not on it."""
        level = current_level()
        while level.below is not None:
            if level.layer is self:
                return level.depth
            level = level.below
        raise StackError(f"{self.name} is not on the current stack:\n{describe_stack()}")

    def register(self) -> Transformation:
        """Put the layer on top of the current stack (within an `apply`: onto the current position)."""
        _push(self)
        return self

    def register_at(self, pos: int) -> Transformation:
        """Insert the layer so that `pos` layers lie below it (1 is just above the evaluator).

        Raises StackError when there are fewer layers, or when `segment` forbids the place.
        """
        _insert(self, pos)
        return self

    def register_by_segment(self) -> Transformation:
        """Insert the layer above every layer of its own or a lower segment."""
        pos = 1
        for index, layer in enumerate(reversed(stack())):
            if index and layer.segment <= self.segment:
                pos = index + 1
        return self.register_at(pos)

    def unregister(self) -> None:
        """Take the layer off the current stack, wherever it is. Its values settle.

        Raises StackError when it is not there.
        """
        _remove(self)

    def __enter__(self) -> Self:
        self.register()
        return self

    def __exit__(self, *exc: object) -> None:
        close(self, exc[0] is None or exc[0] is GeneratorExit)

    def __repr__(self) -> str:
        return f"<{self.name}>"


class Level:
    """One layer in one stack: the layer and the level below it. Immutable."""

    __slots__ = ("below", "depth", "guard", "layer", "observer", "plain")

    def __init__(self, layer: Transformation, below: Level | None, observer: Any = None) -> None:
        self.layer = layer
        self.below = below
        self.observer = observer
        self.depth: int = 0 if below is None else below.depth + 1
        # What the level wants to see: computing operators on wrappers of this type, or everything (None).
        self.guard: type[Wrapper] | None = layer.only_wrapped if below is not None and observer is None else None
        # The first level that wants a computing operator none of whose inputs is a wrapper.
        self.plain: Level = below.plain if self.guard is not None and below is not None else self

    def deliver(self, op: Operator, values: Sequence[Any]) -> Sequence[Any]:
        """`apply` from this level for a layer: a sequence of values (no handles) in, one out."""
        level = self
        plain = True
        for value in values:
            if type(value) is not ndarray and isinstance(value, Wrapper):
                plain = False
                if not value.scope.live:
                    values = [settle(value) for value in values]
                    break
        if plain and level.below is not None and op.computes:
            level = level.plain
        if level.below is None and level.observer is None:
            return level.layer.apply_transformation(op, values)
        return level.handle(local.thread, op, values)

    def handle(self, thread: Thread, op: Operator, inputs: Sequence[Any]) -> Sequence[Any]:
        """Let this level, or the first below it that has a say, answer `op`."""
        level = self
        layer = level.layer
        guard = level.guard
        while guard is not None:
            scope = layer.scope
            for value in inputs:
                if type(value) is guard and value.scope is scope:
                    guard = None
                    break
            else:
                if not op.computes:
                    break
                level = level.below  # type: ignore[assignment]
                layer = level.layer
                guard = level.guard
        below = level.below
        if level.observer is not None or below is None:
            if level.observer is not None:
                return _observed(level, thread, op, inputs)
            return layer.apply_transformation(op, inputs)
        if layer.scope is None:  # unregistered elsewhere, or finished: passes through
            return below.handle(thread, op, inputs)
        saved = thread.position
        try:
            if op.is_program and op.inlined_by(layer, inputs):
                thread.position = level
                return op.through(layer, inputs)
            thread.position = below
            return layer.apply_transformation(op, inputs)
        finally:
            thread.position = saved


def _observed(level: Level, thread: Thread, op: Operator, inputs: Sequence[Any]) -> Sequence[Any]:
    """One step, told to the observer of the stack before and after."""
    layer = level.layer
    if layer.scope is None and level.below is not None:
        return level.below.handle(thread, op, inputs)
    saved = thread.position
    inlined = op.is_program and level.below is not None and op.inlined_by(layer, inputs)
    thread.position = level if inlined or level.below is None else level.below
    step = level.observer.enter(layer, level.depth, op, inputs)
    try:
        outputs = op.through(layer, inputs) if inlined else layer.apply_transformation(op, inputs)
    except BaseException as error:
        level.observer.leave(step, error)
        raise
    finally:
        thread.position = saved
    level.observer.leave(step, outputs)
    return outputs


class _Nothing(Transformation):
    """Stands at the bottom until the evaluator is installed."""


_bottom = Level(_Nothing(), None)
_chain: ContextVar[Level | None] = ContextVar("lamina_stack", default=None)
_make_handle: Callable[[Any], Any] = Handle
_handle_type: type[Handle] = Handle
_new = object.__new__


def install_bottom(layer: Transformation) -> None:
    """Say what evaluates at the bottom of every stack; done once, when `interp` is imported."""
    global _bottom
    layer.scope = Scope(layer.name, opened_at=Line("import interp", 0))
    _bottom = Level(layer, None)


def install_handle(handle_type: type[Handle], make: Callable[[Any], Any]) -> None:
    """Say what wraps an output for user code; done once, when `interp` is imported."""
    global _make_handle, _handle_type
    _make_handle = make
    _handle_type = handle_type


def apply(op: Operator, *inputs: Any) -> tuple[Any, ...]:
    """Hand `op` and its inputs to the top of the stack (within a layer: to the layer below it).

    Given at least one `Tensor` it returns Tensors; given only values it returns values. Finished wrappers are
    settled first. Raises whatever the layers raise, with the stack as it was before.

    >>> import interp, ops
    >>> interp.apply(ops.Elemwise("ADD"), interp.tensor(1.0), 2.0)
    (tensor(3.),)
    """
    thread = local.thread
    level = thread.position or _chain.get() or _bottom
    handles = False
    plain = True
    values: list[Any] = []
    for value in inputs:
        kind = type(value)
        if kind is not ndarray:
            if kind is _handle_type or isinstance(value, Handle):
                handles = True
                value = value._value
                kind = type(value)
            if kind is not ndarray and isinstance(value, Wrapper):
                plain = False
                if not value.scope.live:
                    value = settle(value)
        values.append(value)
    if plain and op.computes:
        level = level.plain
    if level.below is None and level.observer is None:
        outputs = level.layer.apply_transformation(op, values)
    else:
        outputs = level.handle(thread, op, values)
    if handles:
        if len(outputs) == 1:
            return (_make_handle(outputs[0]),)
        return tuple([_make_handle(value) for value in outputs])
    return tuple(outputs)


def method_of(op: Operator, otherwise: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """The method of a handle that is `apply` of an operator with one output to it and another handle.

    It is what every operator sign runs, so nothing is packed for more operands or outputs. `otherwise` answers where
    the second operand is not a handle.
    """

    def method(left: Any, right: Any) -> Any:
        if type(right) is not _handle_type:
            return otherwise(left, right)
        a = left._value
        b = right._value
        made = _new(_handle_type)
        thread = local.thread
        level = thread.position or _chain.get() or _bottom
        if type(a) is ndarray and type(b) is ndarray:
            level = level.plain
            if level.below is None and level.observer is None:
                made._value = level.layer.apply_transformation(op, (a, b))[0]
                return made
        else:
            if type(a) is not ndarray and isinstance(a, Wrapper) and not a.scope.live:
                a = settle(a)
            if type(b) is not ndarray and isinstance(b, Wrapper) and not b.scope.live:
                b = settle(b)
        made._value = level.handle(thread, op, (a, b))[0]
        return made

    return method


def deliver(op: Operator, values: Sequence[Any]) -> Sequence[Any]:
    """`apply` for a layer: a sequence of values (no handles) in, one out."""
    return current_level().deliver(op, values)


@contextmanager
def at_level(level: Level) -> Iterator[None]:
    """Within the block, `apply` starts at `level`; the position is put back whatever is raised."""
    thread = local.thread
    saved = thread.position
    thread.position = level
    try:
        yield
    finally:
        thread.position = saved


def at_bottom() -> AbstractContextManager[None]:
    """Within the block, `apply` goes straight to the evaluator."""
    return at_level(_bottom)


def current_level() -> Level:
    """The level at which an `apply` made now would start."""
    return local.thread.position or _chain.get() or _bottom


def stack() -> tuple[Transformation, ...]:
    """The layers that an `apply` made now would go through, top first; the last one evaluates."""
    return tuple(layers_from(current_level()))


def layers_from(level: Level | None) -> list[Transformation]:
    layers: list[Transformation] = []
    while level is not None:
        layers.append(level.layer)
        level = level.below
    return layers


def describe_stack() -> str:
    """The current stack, a line a layer, top first."""
    return "\n".join(f"  {layer.scope!r}" if layer.scope else f"  <{layer.name}>" for layer in stack())


# How the stack changes. Levels are immutable, so whoever is using an older chain is not disturbed.


def replace_chain(level: Level) -> None:
    """Make `level` the place where the next `apply` starts: the position within an `apply`, else the chain."""
    thread = local.thread
    if thread.position is not None:
        thread.position = level
    else:
        _chain.set(None if level is _bottom else level)


def _claim(layer: Transformation) -> None:
    if layer.registered:
        raise StackError(
            f"{layer.name} is already registered ({layer.scope!r}); a transformation is on one stack at a time: "
            "make a new one"
        )
    layer.scope = layer.make_scope()
    layer.registered = True


def _release(layer: Transformation) -> None:
    scope = layer.scope
    layer.scope = None
    layer.registered = False
    if scope is not None:
        scope.close()


def _register(layer: Transformation, level: Level) -> None:
    before = current_level()
    _claim(layer)
    replace_chain(level)
    try:
        layer.on_register()
    except BaseException:
        _release(layer)
        replace_chain(before)
        raise


def _rebuild(level: Level, change: Callable[[Level], Level | None], observer: Any) -> Level:
    """The chain with `change` made to it: what a level answers becomes the chain from there on down."""
    above: list[Level] = []
    changed = change(level)
    while changed is None and level.below is not None:
        above.append(level)
        level = level.below
        changed = change(level)
    if changed is None:  # nothing to change but the observer, down to the bottom
        usual = observer is None and level.layer is _bottom.layer
        changed = _bottom if usual else Level(level.layer, None, observer)
    for upper in reversed(above):
        changed = Level(upper.layer, changed, observer)
    return changed


class _Both:
    """Two observers as one."""

    def __init__(self, outer: Any, inner: Any) -> None:
        self.outer = outer
        self.inner = inner

    def enter(self, layer: Transformation, depth: int, op: Operator, inputs: Sequence[Any]) -> Any:
        return self.outer.enter(layer, depth, op, inputs), self.inner.enter(layer, depth, op, inputs)

    def leave(self, step: Any, outcome: Any) -> None:
        self.outer.leave(step[0], outcome)
        self.inner.leave(step[1], outcome)


@contextmanager
def observed(observer: Any) -> Iterator[None]:
    """Within the block, every step of this thread or task is told to `observer` (its `enter` and `leave`).

    Layers registered within the block are seen, and stay on the stack after it as they were left.
    """
    before = current_level().observer
    observe(observer)
    try:
        yield
    finally:
        replace_chain(_rebuild(current_level(), _never, before))


def observe(observer: Any) -> None:
    """From now on, every step of this thread or task is told to `observer`, beside those who observe already."""
    top = current_level()
    before = top.observer
    replace_chain(_rebuild(top, _never, observer if before is None else _Both(before, observer)))


def _never(level: Level) -> Level | None:
    return None


@contextmanager
def exchanged(change: Callable[[Transformation], Transformation]) -> Iterator[None]:
    """Within the block, every layer of the current stack is replaced by what `change` answers for it.

    The chain is another one for the block, so other tasks and threads do not see the change.
    Raises StackError when a layer opened within the block is still open at its end.
    """
    before = current_level()
    level = before
    layers: list[Transformation] = []
    while level.below is not None:
        layers.append(level.layer)
        level = level.below
    for layer in reversed(layers):
        level = Level(change(layer), level, before.observer)
    replace_chain(level)
    try:
        yield
    finally:
        after = current_level()
        replace_chain(before)
        if after is not level and sys.exc_info()[0] is None:
            raise StackError("a layer that was opened within the block is still open at its end")


def _push(layer: Transformation) -> None:
    level = current_level()
    _register(layer, Level(layer, level, level.observer))


def _insert(layer: Transformation, pos: int) -> None:
    top = current_level()
    if not 1 <= pos <= top.depth + 1:
        raise StackError(f"{layer.name} cannot be registered at {pos}; positions run from 1 to {top.depth + 1}")
    layers = layers_from(top)
    upper, lower = layers[: top.depth + 1 - pos], layers[top.depth + 1 - pos : -1]
    if any(other.segment < layer.segment for other in upper) or any(other.segment > layer.segment for other in lower):
        raise StackError(
            f"{layer.name} (segment {layer.segment.name}) at position {pos} would break the order of segments "
            f"in this stack, top first:\n{describe_stack()}\nUse register_by_segment(), or nest it with `with`."
        )

    def place(level: Level) -> Level | None:
        return Level(layer, level, top.observer) if level.depth == pos - 1 else None

    _register(layer, _rebuild(top, place, top.observer))


def _holds(level: Level | None, layer: Transformation) -> bool:
    while level is not None:
        if level.layer is layer:
            return True
        level = level.below
    return False


def _remove(layer: Transformation) -> None:
    top = current_level()
    if not _holds(top, layer):
        raise StackError(f"{layer.name} is not registered on the current stack, top first:\n{describe_stack()}")

    def cut(level: Level) -> Level | None:
        return level.below if level.layer is layer else None

    try:
        layer.on_unregister()
    finally:
        replace_chain(_rebuild(top, cut, top.observer))
        _release(layer)


def close(layer: Transformation, orderly: bool) -> None:
    """End the scope of `layer`; an error where it is not the innermost one, unless one is already on its way."""
    top = current_level()
    innermost = top.layer is layer
    shown = "" if innermost else describe_stack()
    opened = layer.scope
    if _holds(top, layer):
        _remove(layer)
    elif layer.registered:
        try:
            layer.on_unregister()
        finally:
            _release(layer)
    if not innermost and orderly:
        raise StackError(
            f"{layer.name} was closed out of order, or where it was not opened (opened: {opened!r}); a scope must "
            "be closed in the thread or task that opened it, after the scopes inside it (a generator suspended "
            f"inside a scope breaks this). It has been taken off. The stack was, top first:\n{shown}"
        )
