"""What one gradient scope remembers: its key, its values, and the walk back over the entries of its tape."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np

from interp import GradError, apply, rules
from interp.dispatch import current_level
from interp.dtypes import is_floating
from interp.value import LeafWrapper, Scope, Wrapper, dtype_of, settle, shape_of, short, spec_of
from ops.arithmetic import ADD

from .backward_graph import Share
from .tape_entry import BackwardGraphWithClosure, Callback, CustomBackward, GradFn, GradSlot, OutputAttr

__all__ = [
    "BackwardGraphWithClosure",
    "CustomBackward",
    "GradFn",
    "GradKey",
    "GradSlot",
    "GradValue",
    "OutputAttr",
    "walk",
]

ndarray = np.ndarray
_AGE = attrgetter("seq")


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
        leaf = GradFn(label or None, None, 1)
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


class GradValue(LeafWrapper):
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

    def source(self) -> str:
        return self.fn.origin()

    def __repr__(self) -> str:
        return f"GradValue({self.scope.name or 'grad'}#{self.fn.seq}.{self.index}, {short(self.value)})"


class _Walk:
    """One backward pass: the gradients that have come so far, and the callbacks that still wait."""

    def __init__(self, release: bool) -> None:
        self.release = release
        self.level = current_level()
        # Every entry that takes part and is not done, with what has come for it: a gradient, or a list of them where
        # it has several outputs.
        self.grads: dict[GradFn, Any] = {}
        # Where a callback waits, the oldest entry that gives a gradient: the last one to do so.
        self.last: dict[tuple[GradFn, int], GradFn] = {}
        self.errors = np.geterr()  # the user's own, which callbacks see again

    def collect(self, roots: Sequence[GradFn]) -> list[GradFn]:
        """Every entry that the roots depend on, oldest first."""
        grads = self.grads
        grads.update(dict.fromkeys(roots))
        entries = list(grads)
        for fn in entries:  # which grows on the way
            awaited = False
            for parent in fn.parents:
                if parent is not None:
                    if parent not in grads:
                        grads[parent] = None
                        entries.append(parent)
                    if parent.callbacks is not None:
                        awaited = True
            if awaited:
                self.note(fn)
        entries.sort(key=_AGE)
        return entries

    def note(self, fn: GradFn) -> None:
        """`fn` gives gradients to where callbacks wait; maybe it is the oldest to do so."""
        last = self.last
        slots = fn.slots
        for i, parent in enumerate(fn.parents):
            if parent is not None and parent.callbacks is not None:
                place = (parent, 0 if slots is None else slots[i])
                known = last.get(place)
                if known is None or fn.seq < known.seq:
                    last[place] = fn

    def give(self, fn: GradFn, index: int, gradient: Any) -> None:
        """Add a gradient to what has come for output `index` of `fn`."""
        if fn.n_outputs == 1:
            before = self.grads[fn]
            self.grads[fn] = gradient if before is None else self.accumulated(before, gradient)
            return
        slots = self.grads[fn]
        if slots is None:
            slots = self.grads[fn] = [None] * fn.n_outputs
        slots[index] = gradient if slots[index] is None else self.accumulated(slots[index], gradient)

    def accumulated(self, before: Any, gradient: Any) -> Any:
        """Two contributions together; those that can be merged wait for each other."""
        if type(before) is not ndarray or type(gradient) is not ndarray:
            if isinstance(gradient, Share):
                if isinstance(before, Share) and type(before.op) is type(gradient.op):
                    return [before, gradient]
                if isinstance(before, list) and type(before[0].op) is type(gradient.op):
                    before.append(gradient)
                    return before
                gradient = _added(gradient)
            before = _added(before)
        return self.level.deliver(ADD, (before, gradient))[0]

    def total(self, fn: GradFn, index: int) -> Any:
        """What has come for one output, added up to one value; None when nothing has."""
        grads = self.grads
        if fn.n_outputs == 1:
            gradient = grads[fn] = _added(grads[fn])
            return gradient
        slots = grads[fn]
        if slots is None:
            return None
        slots[index] = _added(slots[index])
        return slots[index]

    def totals(self, fn: GradFn) -> tuple[Any, ...]:
        """What has come for each of several outputs."""
        return tuple([self.total(fn, i) for i in range(fn.n_outputs)])

    def call_back(self, fn: GradFn, index: int) -> None:
        gradient = self.total(fn, index)
        if gradient is not None and fn.callbacks is not None:
            with np.errstate(**self.errors):
                for callback in fn.callbacks.get(index, ()):
                    callback(gradient)

    def run(self, entries: list[GradFn]) -> None:
        """Take the entries from the end, and pass the gradients of each on to its parents' slots."""
        grads = self.grads
        release = self.release
        producers = set(self.last.values())
        while entries:
            fn = entries.pop()
            if fn.backward is None:  # a leaf; it keeps what has come
                if release:
                    fn.callbacks = None
                continue
            gradients: Sequence[Any] | None = None
            if fn.n_outputs == 1:
                cotangent = grads.pop(fn)
                if cotangent is not None:
                    if type(cotangent) is not ndarray:
                        cotangent = _added(cotangent)
                    gradients = fn.gradients(self.level, (cotangent,))
            else:
                gradients = fn.gradients(self.level, self.totals(fn))
                del grads[fn]
            if gradients is not None:
                slots = fn.slots
                for i, parent in enumerate(fn.parents):
                    gradient = gradients[i]
                    if parent is None or gradient is None:
                        continue
                    if parent.n_outputs == 1:
                        before = grads[parent]
                        grads[parent] = gradient if before is None else self.accumulated(before, gradient)
                    else:
                        self.give(parent, 0 if slots is None else slots[i], gradient)
            if fn in producers:
                for parent, slot in dict.fromkeys(fn.places()):
                    if parent is not None and self.last.get((parent, slot)) is fn:
                        self.call_back(parent, slot)
            if release:  # as `clear` does
                fn.backward = None
                fn.closure = fn.parents = ()
                fn.callbacks = None


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
        entries = state.collect(roots)
        for slot, cotangent in zip(slots, cotangents, strict=True):
            if slot is not None and cotangent is not None:
                state.give(slot.fn, slot.index, cotangent)
        try:
            for slot in dict.fromkeys(slot for slot in slots if slot is not None):
                if slot.callbacks and (slot.fn, slot.index) not in state.last:
                    state.call_back(slot.fn, slot.index)
            state.run(entries)
        except BaseException:
            for fn in entries if release else ():
                fn.clear()
            raise
    return {fn: state.total(fn, 0) for fn in state.grads}
