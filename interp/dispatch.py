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

from .errors import Line, OperatorError, RuleError, StackError
from .operator import Operator
from .position import Thread, local
from .value import Scope, Wrapper, settle

__all__ = [
    "Handle", "Level", "Segment", "Transformation", "apply", "current_level", "deliver", "method_of", "read", "stack",
]  # fmt: skip

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
    reads_handles: ClassVar[bool] = False
    """Whether the layer is asked what a handle above it refers to, as a `HandleReader` is."""

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
        for top in _tops():
            layers = layers_from(top)
            for index, layer in enumerate(layers):
                if layer is self:
                    return len(layers) - 1 - index
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
        """Take the layer off the current stack, wherever it is, at any moment. Its values settle.

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
    """One layer in one stack: the layer, for as long as it is registered as it is now, and the level below it.

    Immutable. A level whose layer was unregistered since (or registered anew, elsewhere) passes everything through.
    """

    __slots__ = ("below", "depth", "guard", "layer", "observer", "plain", "reader", "scope")

    def __init__(
        self, layer: Transformation, below: Level | None, observer: Any = None, scope: Scope | None = None
    ) -> None:
        self.layer = layer
        self.below = below
        self.observer = observer
        self.depth: int = 0 if below is None else below.depth + 1
        self.scope: Scope = scope or layer.scope or _NO_SCOPE
        # The first level from here on down whose layer says what handles refer to.
        self.reader: Level | None = self if layer.reads_handles else None if below is None else below.reader
        # What the level wants to see: computing operators on wrappers of this type, or everything (None).
        self.guard: type[Wrapper] | None = layer.only_wrapped if below is not None and observer is None else None
        # The first level that wants a computing operator none of whose inputs is a wrapper.
        self.plain: Level = below.plain if self.guard is not None and below is not None else self

    @property
    def gone(self) -> bool:
        """Whether the layer has left this stack, but the level is still in somebody's chain."""
        scope = self.layer.scope
        if scope is None:
            return not self.layer.registered  # a layer may finish its scope, and stay where it is
        return scope is not self.scope

    def upon(self, below: Level, observer: Any) -> Level:
        """The same layer in a changed stack."""
        return Level(self.layer, below, observer, self.scope)

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
        if layer.scope is not level.scope:  # unregistered since, or finished: passes through
            return below.handle(thread, op, inputs)
        saved = thread.position
        try:
            if op.is_program and op.inlined_by(layer, inputs):
                thread.position = level
                return op.through(layer, inputs)
            thread.position = below
            if level.guard is None:
                return _answered(layer, op, layer.apply_transformation(op, inputs))
            return layer.apply_transformation(op, inputs)
        finally:
            thread.position = saved


def _observed(level: Level, thread: Thread, op: Operator, inputs: Sequence[Any]) -> Sequence[Any]:
    """One step, told to the observer of the stack before and after."""
    layer = level.layer
    if layer.scope is not level.scope and level.below is not None:
        return level.below.handle(thread, op, inputs)
    saved = thread.position
    inlined = op.is_program and level.below is not None and op.inlined_by(layer, inputs)
    step = level.observer.enter(layer, level.depth, op, inputs)
    try:
        thread.position = level if inlined or level.below is None else level.below
        outputs = op.through(layer, inputs) if inlined else layer.apply_transformation(op, inputs)
        outputs = _answered(layer, op, outputs)
    except BaseException as error:
        thread.position = saved
        level.observer.leave(step, error)
        raise
    finally:
        thread.position = saved
    level.observer.leave(step, outputs)
    return outputs


def _answered(layer: Transformation, op: Operator, outputs: Any) -> Sequence[Any]:
    """What a layer answered, as a sequence of values: Tensors, which public functions return, are taken apart.

    Raises RuleError where it is no sequence.
    """
    if type(outputs) is not tuple and type(outputs) is not list and not isinstance(outputs, Sequence):
        raise RuleError(
            f"{layer.name} answered {op!r} with {'None' if outputs is None else f'one {type(outputs).__name__}'}; "
            "apply_transformation must return a sequence of output values, as in `return apply(op, *inputs)`"
        )
    for value in outputs:
        if type(value) is _handle_type or isinstance(value, Handle):
            return [each._value if isinstance(each, Handle) else each for each in outputs]
    return outputs


_NO_SCOPE = Scope("", opened_at=Line("", 0))
_NO_SCOPE.close()


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
    layer.registered = True
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
                value = value._value if level.reader is None else read_at(level, value)
                kind = type(value)
            if kind is not ndarray and isinstance(value, Wrapper):
                plain = False
                if not value.scope.live:
                    value = settle(value)
        values.append(value)
    try:
        if plain and op.computes:
            level = level.plain
        if level.below is None and level.observer is None:
            outputs = level.layer.apply_transformation(op, values)
        else:
            outputs = level.handle(thread, op, values)
    except (AttributeError, TypeError):
        if isinstance(op, Operator):
            raise
        raise OperatorError(f"apply takes an operator first, such as ops.Elemwise('ADD'), not {op!r}") from None
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
        if level.reader is not None:
            a = read_at(level, left)
            b = read_at(level, right)
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


def read_at(level: Level, handle: Handle) -> Any:
    """What `handle` refers to for code whose operators go to `level`."""
    reader = level.reader
    if reader is None:
        return handle._value
    return reader.layer.read_handle(handle, reader.below)  # type: ignore[attr-defined]


def read(handle: Handle) -> Any:
    """The value that `handle` refers to; a layer that records which handles were read is asked for it.

    >>> import interp, ops
    >>> read(interp.tensor(1.0))
    array(1., dtype=float32)
    """
    return read_at(current_level(), handle)


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


@contextmanager
def upon(*layers: Transformation) -> Iterator[Level]:
    """Within the block, `apply` starts at the first of these layers, which lie in this order on where it started.

    They are not registered, so nobody's stack changes; their scopes begin and end with the block.
    """
    level = current_level()
    observer = level.observer
    for layer in reversed(layers):
        layer.scope = layer.make_scope()
        level = Level(layer, level, observer)
    try:
        with at_level(level):
            yield level
    finally:
        for layer in layers:
            if layer.scope is not None:
                layer.scope.close()
                layer.scope = None


def at_bottom() -> AbstractContextManager[None]:
    """Within the block, `apply` goes straight to the evaluator."""
    return at_level(_bottom)


def current_level() -> Level:
    """The level at which an `apply` made now would start."""
    return local.thread.position or _chain.get() or _bottom


def stack() -> tuple[Transformation, ...]:
    """The layers that an `apply` made now would go through, top first; the last one evaluates."""
    return tuple(layers_from(current_level()))


def levels_from(level: Level | None) -> list[Level]:
    """This level and those below it, without those whose layer is gone."""
    levels: list[Level] = []
    while level is not None:
        if level.below is None or not level.gone:
            levels.append(level)
        level = level.below
    return levels


def layers_from(level: Level | None) -> list[Transformation]:
    return [level.layer for level in levels_from(level)]


def _tops() -> list[Level]:
    """Where the thread stands; within an `apply` also the top of the whole stack."""
    whole = _chain.get() or _bottom
    position = local.thread.position
    return [whole] if position is None else [position, whole]


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


def _register(layer: Transformation, chain: Callable[[], Level]) -> None:
    before = current_level()
    _claim(layer)
    try:
        replace_chain(chain())
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
        if not level.gone:
            above.append(level)
        level = level.below
        changed = change(level)
    if changed is None:  # nothing to change but the observer, down to the bottom
        usual = observer is None and level.layer is _bottom.layer
        changed = _bottom if usual else Level(level.layer, None, observer)
    for upper in reversed(above):
        changed = upper.upon(changed, observer)
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
    top = current_level()
    before = top.observer
    replace_chain(_rebuild(top, _never, observer if before is None else _Both(before, observer)))
    try:
        yield
    finally:
        replace_chain(_rebuild(current_level(), _never, before))


def observe_everywhere(observer: Any) -> None:
    """From now on, every step on stacks that begin here (in new threads, too) is told to `observer`."""
    global _bottom
    before = _bottom.observer
    _bottom = Level(_bottom.layer, None, observer if before is None else _Both(before, observer))


def _never(level: Level) -> Level | None:
    return None


@contextmanager
def exchanged(change: Callable[[Transformation], Transformation]) -> Iterator[None]:
    """Within the block, every layer of the current stack is replaced by what `change` answers for it.

    The chain is another one for the block, so other tasks and threads do not see the change.
    Raises StackError when a layer opened within the block is still open at its end.
    """
    before = current_level()
    *upper, level = levels_from(before)
    for each in reversed(upper):
        layer = change(each.layer)
        same = layer is each.layer
        level = each.upon(level, before.observer) if same else Level(layer, level, before.observer)
    replace_chain(level)
    try:
        yield
    finally:
        after = current_level()
        replace_chain(before)
        if list(map(id, layers_from(after))) != list(map(id, layers_from(level))) and sys.exc_info()[0] is None:
            raise StackError("a layer that was opened within the block is still open at its end")


def _push(layer: Transformation) -> None:
    top = level = current_level()
    while level.below is not None and level.gone:
        level = level.below
    _register(layer, lambda: Level(layer, level, top.observer))


def _insert(layer: Transformation, pos: int) -> None:
    top = current_level()
    levels = levels_from(top)
    if not 1 <= pos <= len(levels):
        raise StackError(f"{layer.name} cannot be registered at {pos}; positions run from 1 to {len(levels)}")
    upper, lower = levels[:-pos], levels[-pos:]
    disorder = [each for each in upper if each.layer.segment < layer.segment]
    disorder += [each for each in lower if each.layer.segment > layer.segment]
    if disorder:
        raise StackError(
            f"{layer.name} (segment {layer.segment.name}) at position {pos} would break the order of segments "
            f"in this stack, top first:\n{describe_stack()}\nUse register_by_segment(), or nest it with `with`."
        )

    def place(level: Level) -> Level | None:
        return Level(layer, level, top.observer) if level is lower[0] else None

    _register(layer, lambda: _rebuild(top, place, top.observer))


def _holds(level: Level | None, layer: Transformation) -> bool:
    return any(each.layer is layer for each in levels_from(level)[:-1])  # the bottom is nobody's to take off


def _remove(layer: Transformation) -> None:
    if not any(_holds(top, layer) for top in _tops()):
        raise StackError(f"{layer.name} is not registered on the current stack, top first:\n{describe_stack()}")
    try:
        layer.on_unregister()
    finally:
        _cut(layer)
        _release(layer)


def _cut(layer: Transformation) -> None:
    """Take a layer out of the stack, and out of what lies below the thread's position in it."""

    def cut(level: Level) -> Level | None:
        return level.below if level.layer is layer and not level.gone else None

    position = local.thread.position
    if position is not None and _holds(position, layer):
        local.thread.position = _rebuild(position, cut, position.observer)
    whole = _chain.get()
    if whole is not None and _holds(whole, layer):
        rest = _rebuild(whole, cut, whole.observer)
        _chain.set(None if rest is _bottom else rest)


def close(layer: Transformation, orderly: bool) -> None:
    """End the scope of `layer`; an error where it is not the innermost one, unless one is already on its way."""
    innermost = levels_from(current_level())[0].layer is layer
    shown = "" if innermost else describe_stack()
    opened = layer.scope
    if any(_holds(top, layer) for top in _tops()):
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
