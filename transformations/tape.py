"""What one gradient scope remembers: keys, slots, tape entries, and the walk back over them.

A tape entry (`GradFn`) holds its parents and a sequence number, and nothing holds it but the values that it
produced. So whatever the user drops is freed at once, there are no reference cycles, and a walk visits exactly
what the outputs depend on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, ClassVar

import numpy as np

from interp import GradError, RuleError, apply, rules
from interp.dispatch import current_level
from interp.dtypes import DType, is_floating
from interp.value import Scope, Wrapper, dtype_of, is_weak, settle, shape_of, short, spec_of
from ops.arithmetic import ADD
from ops.broadcasting import BroadcastTo

from .backward_graph import OptimizedBackwardGraph, Share

__all__ = [
    "BackwardGraphWithClosure", "CustomBackward", "CustomGradFn", "GradFn", "GradKey", "GradSlot", "GradValue",
    "OutputAttr", "walk",
]  # fmt: skip

ndarray = np.ndarray
_NOTHING: list[Any] = []
Callback = Callable[[Any], object]
_next = count().__next__


class OutputAttr:
    """What a custom rule says of one output: whether it gets a gradient, and whether the rule keeps it."""

    __slots__ = ("captured", "requires_grad")

    def __init__(self, requires_grad: bool = True, captured: bool = True) -> None:
        self.requires_grad = requires_grad
        self.captured = captured


class CustomBackward:
    """The backward half of a custom rule: a function from output gradients (None where none came) to the
    gradients of the inputs (None where there is none)."""

    __slots__ = ("backward", "input_has_grads", "op_name", "output_attrs")

    def __init__(self) -> None:
        self.backward: Callable[[Sequence[Any]], Sequence[Any]] | None = None
        self.input_has_grads: list[bool] = []
        self.output_attrs: list[OutputAttr] = []
        self.op_name = "custom rule"

    def input_has_grad(self, i: int) -> bool:
        return self.input_has_grads[i]

    def output_requires_grad(self, i: int) -> bool:
        return self.output_attrs[i].requires_grad

    def gradients(self, cotangents: Sequence[Any]) -> list[Any] | None:
        """As of BackwardGraphWithClosure. Raises RuleError when the rule gives a wrong number of gradients."""
        if all(cotangent is None for cotangent in cotangents) or self.backward is None:
            return None
        results = list(self.backward(cotangents))
        if len(results) != len(self.input_has_grads):
            raise RuleError(
                f"the backward of {self.op_name} gave {len(results)} gradients for {len(self.input_has_grads)} "
                "inputs; return one for each, None where there is none"
            )
        return [result for result, has in zip(results, self.input_has_grads, strict=True) if has]

    def __repr__(self) -> str:
        return f"CustomBackward({self.op_name})"


class GradFn:
    """One entry of the tape: how the gradients of its outputs become gradients of its parents' outputs.

    A plain GradFn is a leaf, which stands for an attached value; `label` says what it is called in errors.
    """

    __slots__ = ("__weakref__", "callbacks", "n_outputs", "op", "parents", "seq", "slots")

    def __init__(self, op: Any, n_outputs: int, parents: Sequence[GradFn | None], slots: list[int] | None) -> None:
        self.op = op
        self.seq = _next()
        self.n_outputs = n_outputs
        self.parents = parents
        self.slots = slots  # None where every slot is the first
        self.callbacks: dict[int, list[Callback]] | None = None

    @property
    def is_leaf(self) -> bool:
        """Whether this stands for an attached value rather than for an operator."""
        return type(self) is GradFn

    def targets(self) -> Sequence[int]:
        """Which inputs have a gradient."""
        return ()

    def gradients(self, cotangents: Sequence[Any]) -> list[Any] | None:
        """One gradient for each input that has one, in order (values or `Share`s).

        None when no gradient of an output that is read has come: then nothing is run.
        """
        return None

    def origin(self) -> str:
        """For errors: what the attached value was called that this was computed from; "" without a name."""
        todo: list[GradFn] = [self]
        seen: set[int] = set()
        while todo:
            fn = todo.pop()
            if isinstance(fn.op, str):
                return fn.op
            seen.add(id(fn))
            todo += [parent for parent in fn.parents if parent is not None and id(parent) not in seen]
        return ""

    def places(self) -> list[tuple[GradFn | None, int]]:
        """Where the gradients of the inputs go: an entry and a slot of it each."""
        return list(zip(self.parents, self.slots or [0] * len(self.parents), strict=True))

    def add_callback(self, index: int, callback: Callback) -> None:
        if self.callbacks is None:
            self.callbacks = {}
        self.callbacks.setdefault(index, []).append(callback)

    def awaited(self) -> set[tuple[GradFn, int]]:
        """The places that this entry gives gradients to and where a callback waits."""
        return {
            (parent, slot) for parent, slot in self.places() if parent is not None and parent.callbacks is not None
        }

    def clear(self) -> None:
        """Let go of everything; what was kept for the backward pass is freed."""
        self.parents = ()
        self.slots = None
        self.callbacks = None

    def __repr__(self) -> str:
        what = "leaf" if self.op is None else str(self.op)
        dests = [None if p is None else f"#{p.seq}.{s}" for p, s in self.places()]
        return f"{type(self).__name__}({what}, dests={dests})"


class BackwardGraphWithClosure(GradFn):
    """An entry whose backward is a program: an `OptimizedBackwardGraph`, and the values that it keeps.

    `plain` says that all of them are arrays, and that the program goes from one output gradient to values.
    """

    __slots__ = ("closure", "graph", "output_descs", "plain")

    def __init__(
        self,
        op: Any,
        graph: OptimizedBackwardGraph,
        closure: list[Any],
        parents: Sequence[GradFn | None],
        slots: list[int] | None,
        plain: bool,
    ) -> None:
        self.op = op
        self.seq = _next()
        self.n_outputs = graph.n_outputs
        self.parents = parents
        self.slots = slots
        self.callbacks = None
        self.graph: OptimizedBackwardGraph | None = graph
        self.closure = closure
        self.plain = plain

    def describe(self, outputs: Sequence[Any]) -> None:
        """Remember of several outputs what zeros of them need: shape and dtype."""
        self.output_descs = [
            (value.symbolic_shape() if isinstance(value, Wrapper) else shape_of(value), spec_of(value).dtype)
            for value in outputs
        ]

    def clear(self) -> None:
        self.parents = ()
        self.callbacks = None
        self.graph = None
        self.closure = _NOTHING

    def targets(self) -> Sequence[int]:
        return () if self.graph is None else self.graph.targets

    def gradients(self, cotangents: Sequence[Any]) -> list[Any] | None:
        graph = self.graph
        if graph is None:
            return None
        if graph.single:
            cotangent = cotangents[0]
            return None if cotangent is None else graph.backward.run([*self.closure, cotangent])
        read = [cotangent for cotangent, read in zip(cotangents, graph.grads_read, strict=True) if read]
        if all(cotangent is None for cotangent in read):
            return None
        positions = [i for i, read in enumerate(graph.grads_read) if read]
        filled = [self._zeros(i) if c is None else c for i, c in zip(positions, read, strict=True)]
        results = graph.backward.run([*self.closure, *filled])
        return _shared(graph, results) if graph.shares else results

    def _zeros(self, i: int) -> Any:
        shape, dtype = self.output_descs[i]
        return apply(BroadcastTo(), np.zeros((), dtype), shape)[0]


def _shared(graph: OptimizedBackwardGraph, results: list[Any]) -> list[Any]:
    """The gradients, those that are to be merged with others as shares."""
    gradients: list[Any] = []
    rest = iter(results)
    for position in range(sum(graph.input_has_grad)):
        share = graph.shares.get(position)
        if share is None:
            gradients.append(next(rest))
        else:
            gradients.append(Share(share[0], [next(rest) for _ in range(share[1])]))
    return gradients


class CustomGradFn(GradFn):
    """An entry whose backward is a custom rule."""

    __slots__ = ("rule",)

    def __init__(
        self, op: Any, rule: CustomBackward, n_outputs: int, parents: Sequence[GradFn | None], slots: list[int] | None
    ) -> None:
        super().__init__(op, n_outputs, parents, slots)
        self.rule: CustomBackward | None = rule

    def clear(self) -> None:
        super().clear()
        self.rule = None

    def targets(self) -> Sequence[int]:
        return () if self.rule is None else [i for i, has in enumerate(self.rule.input_has_grads) if has]

    def gradients(self, cotangents: Sequence[Any]) -> list[Any] | None:
        return None if self.rule is None else self.rule.gradients(cotangents)


class GradSlot:
    """The place of one value's gradient: output `index` of a tape entry."""

    __slots__ = ("fn", "index")

    def __init__(self, fn: GradFn, index: int) -> None:
        self.fn = fn
        self.index = index

    @property
    def callbacks(self) -> tuple[Callback, ...]:
        return tuple((self.fn.callbacks or {}).get(self.index, ()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GradSlot) and self.fn is other.fn and self.index == other.index

    def __hash__(self) -> int:
        return hash((id(self.fn), self.index))

    def __repr__(self) -> str:
        return f"GradSlot(#{self.fn.seq}.{self.index}, has_callback={bool(self.callbacks)})"


class GradKey(Scope):
    """One differentiation: its values, its tape, its end. `name` shows in logs and errors."""

    __slots__ = ("spent",)

    def __init__(self, name: str = "") -> None:
        super().__init__("GradTransformation", name)
        self.spent = False

    @property
    def frozen(self) -> bool:
        """Whether the backward pass was asked for, or the scope closed: no more is recorded."""
        return not self.live

    def attach(self, value: Any, callback: Callback | None = None, label: str = "") -> GradValue:
        """Make `value` one that gradients are asked of; `callback` is given its gradient, once, when complete.

        Raises GradError after the freeze, for values that are not floating, and for a leaf attached before.
        """
        if not self.live:
            raise GradError(f"{self!r} is finished; open a new scope to attach to")
        if isinstance(value, GradValue) and value.scope is self:
            if value.fn.is_leaf and (callback is None or value.fn.callbacks):
                raise GradError(f"{value!r} is attached to {self!r} already")
            if callback is not None:
                value.fn.add_callback(value.index, callback)
            return value
        dtype = dtype_of(value)
        if not is_floating(dtype):
            raise GradError(
                f"only floating values have gradients; this one is {dtype}{list(shape_of(value))}. Cast it first: "
                "ops.astype(x, 'float32')"
            )
        leaf = GradFn(label or None, 1, (), None)
        if callback is not None:
            leaf.add_callback(0, callback)
        return GradValue(self, value, leaf, 0)

    def freeze(self) -> None:
        """Stop recording: the scope's values become plain. Raises GradError the second time."""
        if not self.live:
            raise GradError(f"{self!r} is finished: its backward pass was asked for before, or its scope closed")
        self.close()

    def backward(self, slots: Sequence[GradSlot | None], cotangents: Sequence[Any], release: bool = True) -> None:
        """Walk back from the slots of the outputs.

        With `release` it can be done once. Raises GradError unless frozen, and the second time.
        """
        if self.live:
            raise GradError(f"{self!r} must be frozen before its backward pass")
        if self.spent:
            raise GradError(f"the backward pass of {self!r} has run, and what it needed was freed")
        self.spent = release
        walk(slots, cotangents, release)

    def __repr__(self) -> str:
        label = f" {self.name!r}" if self.name else ""
        return f"<GradKey{label} opened at {self.opened_at}{'' if self.live else ', finished'}>"


class GradValue(Wrapper):
    """A value that gradients are asked of: what it is below, and the slot of its gradient."""

    __slots__ = ("fn", "index", "value")

    passes_as_constant: ClassVar[bool] = True

    def __init__(self, key: GradKey, value: Any, fn: GradFn, index: int) -> None:
        self.scope = key
        self.value = value
        self.fn = fn
        self.index = index

    @property
    def key(self) -> GradKey:
        key = self.scope
        assert isinstance(key, GradKey)
        return key

    @property
    def slot(self) -> GradSlot:
        return GradSlot(self.fn, self.index)

    def flatten(self) -> tuple[Any, ...]:
        return (self.value,)

    def unflatten(self, leaves: tuple[Any, ...]) -> GradValue:
        return GradValue(self.key, leaves[0], self.fn, self.index)

    def unwrap(self) -> Any:
        return self.value

    def settled(self) -> Any:
        return self.value

    @property
    def shape(self) -> tuple[int, ...]:
        return shape_of(self.value)

    @property
    def dtype(self) -> DType:
        return dtype_of(self.value)

    @property
    def weak(self) -> bool:
        return is_weak(self.value)

    def symbolic_shape(self) -> Any:
        value = self.value
        return value.symbolic_shape() if isinstance(value, Wrapper) else shape_of(value)

    def symbolic_spec(self) -> Any:
        return spec_of(self.value)

    def __repr__(self) -> str:
        return f"GradValue({self.scope.name or 'grad'}#{self.fn.seq}.{self.index}, {short(self.value)})"


def _add(left: Any, right: Any) -> Any:
    return apply(ADD, left, right)[0]


class _Walk:
    """One backward pass: the gradients that have come so far, and the callbacks that still wait."""

    def __init__(self, release: bool) -> None:
        self.release = release
        self.grads: dict[GradFn, Any] = {}
        self.waiting: dict[tuple[GradFn, int], int] = {}
        self.producers: set[GradFn] = set()
        self.errors = np.geterr()  # the user's own, which callbacks see again
        level = current_level().plain
        # Where arrays go straight to the bottom, the programs of entries that keep only arrays may, too.
        direct = level.below is None and level.observer is None
        self.evaluate = level.layer.apply_transformation if direct else None

    def collect(self, roots: list[GradFn]) -> list[GradFn]:
        """Every entry that the roots depend on, oldest first; counts who contributes where a callback waits."""
        seen: set[int] = set(map(id, roots))
        entries: list[GradFn] = []
        todo = list(dict.fromkeys(roots))
        while todo:
            fn = todo.pop()
            entries.append(fn)
            produces = False
            for parent in fn.parents:
                if parent is not None:
                    if parent.callbacks is not None:
                        produces = True
                    known = id(parent)
                    if known not in seen:
                        seen.add(known)
                        todo.append(parent)
            if produces:
                self.producers.add(fn)
                for place in fn.awaited():
                    self.waiting[place] = self.waiting.get(place, 0) + 1
        entries.sort(key=_age)
        return entries

    def give(self, fn: GradFn, index: int, gradient: Any) -> None:
        """Add a gradient to what has come for output `index` of `fn`."""
        if fn.n_outputs == 1:
            before = self.grads.get(fn)
            self.grads[fn] = gradient if before is None else _accumulate(before, gradient)
            return
        slots = self.grads.get(fn)
        if slots is None:
            slots = self.grads[fn] = [None] * fn.n_outputs
        slots[index] = gradient if slots[index] is None else _accumulate(slots[index], gradient)

    def total(self, fn: GradFn, index: int) -> Any:
        """What has come for one output, added up to one value; None when nothing has."""
        grads = self.grads
        if fn.n_outputs == 1:
            gradient = grads.get(fn)
            if isinstance(gradient, (Share, list)):
                gradient = grads[fn] = _added(gradient)
            return gradient
        slots = grads.get(fn)
        if slots is None:
            return None
        if isinstance(slots[index], (Share, list)):
            slots[index] = _added(slots[index])
        return slots[index]

    def call_back(self, fn: GradFn, index: int) -> None:
        gradient = self.total(fn, index)
        if gradient is not None and fn.callbacks is not None:
            with np.errstate(**self.errors):
                for callback in fn.callbacks.get(index, ()):
                    callback(gradient)

    def run(self, entries: list[GradFn]) -> None:
        """Pass gradients on from entry to entry, newest first, until none is left."""
        grads = self.grads
        evaluate = self.evaluate
        producers = self.producers
        while entries:
            fn = entries.pop()
            gradients: Sequence[Any] | None
            if type(fn) is BackwardGraphWithClosure and fn.plain:
                cotangent = grads.pop(fn, None)
                if type(cotangent) is ndarray and evaluate is not None and fn.graph is not None:
                    gradients = fn.graph.backward.run_plain(evaluate, [*fn.closure, cotangent])
                else:
                    gradients = fn.gradients([_added(cotangent)])
            elif type(fn) is GradFn:
                continue  # a leaf: its gradient stays where it is
            else:
                cotangents = [self.total(fn, i) for i in range(fn.n_outputs)]
                grads.pop(fn, None)
                gradients = fn.gradients(cotangents)
            if gradients is not None:
                self.hand_on(fn, gradients)
            if fn in producers:
                self.settle_producers(fn)
            if self.release:
                fn.clear()

    def hand_on(self, fn: GradFn, gradients: Sequence[Any]) -> None:
        """Give each gradient to the slot that it is for."""
        grads = self.grads
        parents = fn.parents
        slots = fn.slots
        for i, gradient in zip(fn.targets(), gradients):
            parent = parents[i]
            if parent is None or gradient is None:
                continue
            if parent.n_outputs == 1 and parent not in grads:
                grads[parent] = gradient
            else:
                self.give(parent, slots[i] if slots is not None else 0, gradient)

    def settle_producers(self, fn: GradFn) -> None:
        """`fn` was a producer of gradients; call back, in the order of its inputs, wherever it was the last one."""
        done: set[tuple[GradFn, int]] = set()
        for place in fn.places():
            parent, slot = place
            if parent is None or parent.callbacks is None or (parent, slot) in done:
                continue
            done.add((parent, slot))
            left = self.waiting[parent, slot] - 1
            self.waiting[parent, slot] = left
            if not left:
                self.call_back(parent, slot)


def _age(fn: GradFn) -> int:
    return fn.seq


def _accumulate(before: Any, gradient: Any) -> Any:
    """Two contributions together; those that can be merged wait for each other."""
    if isinstance(gradient, Share):
        if isinstance(before, Share) and type(before.op) is type(gradient.op):
            return [before, gradient]
        if isinstance(before, list) and type(before[0].op) is type(gradient.op):
            before.append(gradient)
            return before
        gradient = _added(gradient)
    return _add(_added(before), gradient)


def _added(gradient: Any) -> Any:
    if isinstance(gradient, Share):
        return apply(gradient.op, *gradient.inputs)[0]
    if isinstance(gradient, list):
        rule = rules.merge.require(gradient[0].op)
        op, inputs = rule([(share.op, share.inputs) for share in gradient])
        return apply(op, *inputs)[0]
    return gradient


def check_seed(cotangent: Any, value: Any) -> Any:
    """A gradient handed in for an output, settled. Raises GradError when its shape or dtype is another's."""
    cotangent = settle(cotangent)
    got, wanted = spec_of(cotangent), spec_of(value)
    if got.shape != wanted.shape or (got.dtype != wanted.dtype and not got.weak):
        raise GradError(f"the gradient given for an output is {got!r}, but the output is {wanted!r}")
    return np.asarray(cotangent, wanted.dtype) if got.weak and not isinstance(cotangent, Wrapper) else cotangent


def walk(slots: Sequence[GradSlot | None], cotangents: Sequence[Any], release: bool) -> dict[GradFn, Any]:
    """Pass `cotangents` back from `slots`, newest entry first, without recursion.

    Callbacks run as soon as their gradient is complete. Returns the gradients that came to leaves. With `release`
    each entry is freed when it is done, and all that are left when something is raised.
    """
    state = _Walk(release)
    with np.errstate(all="ignore"):
        roots = [slot.fn for slot in slots if slot is not None]
        entries = state.collect(list(roots))
        for slot, cotangent in zip(slots, cotangents, strict=True):
            if slot is not None and cotangent is not None:
                state.give(slot.fn, slot.index, cotangent)
        try:
            for slot in dict.fromkeys(slot for slot in slots if slot is not None):
                if slot.callbacks and not state.waiting.get((slot.fn, slot.index)):
                    state.call_back(slot.fn, slot.index)
            state.run(entries)
            for slot in dict.fromkeys(slots) if release else ():
                if slot is not None:
                    slot.fn.callbacks = None
        except BaseException:
            for fn in entries if release else ():
                fn.clear()
            raise
    return {fn: state.total(fn, 0) for fn in state.grads}
