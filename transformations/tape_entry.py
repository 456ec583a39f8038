"""What a tape is made of: entries, each of them one operator and the way back over it.

An entry (`GradFn`) holds its parents and a sequence number, and nothing holds it but the values that it produced. So
whatever the user drops is freed at once, there are no reference cycles, and a walk visits exactly what the outputs
depend on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import numpy as np

from interp import RuleError, apply
from interp.dispatch import Level
from interp.operator import Operator
from interp.value import Wrapper, shape_of, spec_of
from ops.broadcasting import BroadcastTo

from .backward_graph import OptimizedBackwardGraph, Share

__all__ = ["BackwardGraphWithClosure", "Callback", "CustomBackward", "GradFn", "GradSlot", "OutputAttr"]

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
        """As of GradFn. Raises RuleError when the rule gives a wrong number of gradients."""
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

    `parents`, and `slots` where not every slot is the first, say where each gradient goes. An entry without
    `backward` is a leaf, which stands for an attached value (`op` is then what that is called in errors, or None).
    """

    __slots__ = ("backward", "callbacks", "closure", "n_outputs", "op", "parents", "seq", "slots")

    def __init__(
        self,
        op: Any,
        backward: Any,
        n_outputs: int,
        parents: Sequence[GradFn | None] = (),
        slots: Sequence[int] | None = None,
    ) -> None:
        self.op = op
        self.seq = _next()
        self.backward = backward
        self.n_outputs = n_outputs
        self.parents = parents
        self.slots = slots
        self.closure: tuple[Any, ...] = ()  # what is kept for the backward pass
        self.callbacks: dict[int, list[Callback]] | None = None

    @property
    def is_leaf(self) -> bool:
        """Whether this stands for an attached value rather than for an operator."""
        return self.op is None or isinstance(self.op, str)

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

    def gradients(self, level: Level, cotangents: tuple[Any, ...]) -> Sequence[Any] | None:
        """The gradients of the parents' slots (values or `Share`s), in order; None when there are none.

        `cotangents` has a gradient or None for each output; `level` is where the thread is in the stack.
        """
        return self.backward.gradients(cotangents)  # type: ignore[no-any-return]

    def places(self) -> list[tuple[GradFn | None, int]]:
        """Where the gradients go: an entry and a slot of it each."""
        return list(zip(self.parents, self.slots or [0] * len(self.parents)))

    def add_callback(self, index: int, callback: Callback) -> None:
        if self.callbacks is None:
            self.callbacks = {}
        self.callbacks.setdefault(index, []).append(callback)

    def clear(self) -> None:
        """Let go of everything; what was kept for the backward pass is freed."""
        self.backward = None
        self.closure = ()
        self.parents = ()
        self.callbacks = None

    def __repr__(self) -> str:
        what = "leaf" if self.op is None else str(self.op)
        dests = [None if p is None else f"#{p.seq}.{s}" for p, s in self.places()]
        return f"{type(self).__name__}({what}, dests={dests})"


class BackwardGraphWithClosure(GradFn):
    """An entry that leads back by the backward graph of its operator, with the values that this keeps."""

    __slots__ = ("output_descs",)

    def __init__(
        self,
        op: Operator,
        graph: OptimizedBackwardGraph,
        closure: tuple[Any, ...],
        parents: Sequence[GradFn | None],
        slots: Sequence[int] | None,
    ) -> None:
        self.op = op
        self.seq = _next()
        self.backward = graph
        self.n_outputs = graph.n_outputs
        self.parents = parents
        self.slots = slots
        self.callbacks = None
        self.closure = closure
        self.output_descs: list[Any] | None = None

    def describe(self, outputs: Sequence[Any]) -> None:
        """Remember the shapes and dtypes of several outputs, for zeros where no gradient of one comes."""
        self.output_descs = [
            (value.symbolic_shape() if isinstance(value, Wrapper) else shape_of(value), spec_of(value).dtype)
            for value in outputs
        ]

    def gradients(self, level: Level, cotangents: tuple[Any, ...]) -> Sequence[Any] | None:
        graph: OptimizedBackwardGraph = self.backward
        if graph.single:
            copies = graph.copies
            return cotangents * copies if copies else graph.backward.run_at(level, self.closure + cotangents)
        valid = [cotangent for cotangent, read in zip(cotangents, graph.grads_read) if read]
        if all(cotangent is None for cotangent in valid):
            return None
        args = list(self.closure)
        for i, read in enumerate(graph.grads_read):
            if read:
                args.append(self._zeros(i) if cotangents[i] is None else cotangents[i])
        results = graph.backward.run_at(level, args)
        return self._shared(results) if graph.shares else results

    def _zeros(self, i: int) -> Any:
        assert self.output_descs is not None
        shape, dtype = self.output_descs[i]
        return apply(BroadcastTo(), np.zeros((), dtype), shape)[0]

    def _shared(self, results: list[Any]) -> list[Any]:
        gradients: list[Any] = []
        rest = iter(results)
        for position in range(len(self.parents)):
            share = self.backward.shares.get(position)
            if share is None:
                gradients.append(next(rest))
            else:
                gradients.append(Share(share[0], [next(rest) for _ in range(share[1])]))
        return gradients


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
