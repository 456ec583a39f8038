"""One record of a function: its program, what it reads from outside, and what it does to it."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from interp import GetAttr, Subgraph, TraceError, apply, pytree
from interp.dispatch import Handle, Level, read, upon
from interp.tensor import from_value
from interp.value import Wrapper, settle, short, spec_of
from ops.programs import Call

from .call_signature import CallSignature
from .captured_state import CapturedState
from .lazy_eval import LazyEvalTransformation
from .trace_result import TraceResult, VarKind
from .tracing_layer import Source, TracingTransformation

__all__ = ["CallRecord", "Guard", "Stale", "record_call"]

_READ = GetAttr(GetAttr.Attr.VALUE)


class Stale(Exception):
    """A record does not hold for a call; the message says why."""


class Guard:
    """Data that the function read while it was recorded: the record holds where it is the same."""

    __slots__ = ("data", "read_at", "what")

    def __init__(self, what: str, data: Any, read_at: str) -> None:
        self.what = what
        self.data = data
        self.read_at = read_at

    def check(self, value: Any) -> None:
        """Raise Stale where `value` is other data."""
        data = np.asarray(apply(_READ, value)[0])
        if not np.array_equal(data, self.data, equal_nan=data.dtype.kind in "fc"):
            raise Stale(f"the data of {self.what}, read at {self.read_at}: {_data(data)}, was {_data(self.data)}")


def _data(array: Any) -> str:
    return np.array2string(array, precision=6, threshold=8)


class CallRecord:
    """A record: `call` is the operator; its inputs are the array leaves of the arguments, then the `sources`."""

    def __init__(self, signature: CallSignature, state: CapturedState) -> None:
        self.signature = signature
        self.state = state
        self.result: TraceResult
        self.call: Call
        self.label = ""
        self.sources: list[Source] = []
        self.source_specs: list[Any] = []
        self.input_guards: list[tuple[int, Guard]] = []
        self.guards: list[tuple[int, Guard]] = []
        self.rebound: list[tuple[Handle, int]] = []
        self.gradients: list[tuple[Any, int | None]] = []
        self.had_gradient: list[tuple[Any, bool]] = []
        self.structure: Any = None
        self.outputs: list[int | tuple[Any]] = []

    @property
    def program(self) -> Subgraph:
        """The program that the call runs."""
        return self.call.program

    def inputs(self, values: Sequence[Any], level: Level) -> list[Any]:
        """The inputs of the call, with what is read from outside now. Raises Stale where the record does not hold."""
        for handle, had in self.had_gradient:
            if (handle.grad is not None) is not had:
                raise Stale(f"`.grad` of {short(handle)}: {'None, was not' if had else 'there, was None'}")
        given = list(values)
        for source, spec in zip(self.sources, self.source_specs, strict=True):
            value = source.now(level)
            if value is None or (now := spec_of(value)) != spec:
                raise Stale(f"a captured {source.kind}: {'gone' if value is None else repr(now)}, was {spec!r}")
            given.append(value)
        for i, guard in self.input_guards:
            guard.check(given[i])
        return given

    def finish(self, values: Sequence[Any]) -> Any:
        """What the function returns, from the outputs of the call; rebinds what it rebinds.

        Raises Stale, with nothing rebound, where data that was read is different now.
        """
        for i, guard in self.guards:
            guard.check(values[i])
        for handle, i in self.rebound:
            handle._rebind(values[i])  # type: ignore[attr-defined]
        for handle, place in self.gradients:
            handle.grad = None if place is None else from_value(values[place])
        leaves = [from_value(values[where]) if type(where) is int else where[0] for where in self.outputs]  # type: ignore[index]
        return pytree.unflatten(self.structure, leaves)

    def run(self, values: Sequence[Any], level: Level) -> Any:
        """Replay: one operator down the stack."""
        return self.finish(level.deliver(self.call, self.inputs(values, level)))


def record_call(
    f: Callable[..., Any], signature: CallSignature, *, capture_as_const: bool = False, backend: str | None = None
) -> CallRecord:
    """Run `f` once on values that are traced, and compute nothing that it does not read.

    Handles and captured state are as before afterwards. Raises TraceError for what no replay could repeat.
    """
    label = getattr(f, "__name__", type(f).__name__)
    state = CapturedState(f)
    record = CallRecord(signature, state)
    record.label = label
    tracing = TracingTransformation(capture_as_const=capture_as_const, symbolic=True)
    with upon(tracing, LazyEvalTransformation()):
        inputs = [tracing.variable(VarKind.EXTERNAL, value) for value in signature.values]
        for value, name in zip(inputs, signature.labels(f), strict=True):
            tracing.vars[value.var].mark = name
        args, kwargs = signature.arguments([from_value(value) for value in inputs])
        leaves, record.structure = pytree.flatten(f(*args, **kwargs))
        del args, kwargs
        values = [_result(leaf) for leaf in leaves]
        del leaves
        changed = state.changes()
        if changed:
            raise TraceError(
                f"trace({label}): the function changed what it closes over while it was recorded, which no later call "
                f"would do again: {'; '.join(changed)}. Return the value, or keep it in a Tensor and rebind that"
            )
        _Finish(record, tracing, [value.var for value in inputs]).run(values, backend)
    _warn_of_reads(record)
    signature.forget_arguments()
    return record


def _result(leaf: Any) -> Any:
    """The value of a leaf that was returned; in a tuple of its own where it is none."""
    if isinstance(leaf, Handle):
        return settle(read(leaf))
    return settle(leaf) if isinstance(leaf, Wrapper) else (leaf,)


class _Finish:
    """From a finished trace to the program of a record: which variables are its inputs, and which its outputs."""

    def __init__(self, record: CallRecord, tracing: TracingTransformation, arguments: list[int]) -> None:
        self.record = record
        self.tracing = tracing
        self.arguments = arguments
        self.wanted: list[int] = []

    def place(self, value: Any) -> int:
        """Where among the outputs of the program a value is."""
        var = self.tracing.number(value)
        if var not in self.wanted:
            self.wanted.append(var)
        return self.wanted.index(var)

    def run(self, values: Sequence[Any], backend: str | None) -> None:
        record, tracing = self.record, self.tracing
        record.outputs = [value if type(value) is tuple else self.place(value) for value in values]
        for handle, value in tracing.rebound.values():
            value = settle(value)
            source = tracing.sources.get(("handle", id(handle)))
            if source is None or not tracing.mine(value) or value.var != source.var:
                record.rebound.append((handle, self.place(value)))
        for handle, gradient in tracing.gradients.values():
            value = None if gradient is None else settle(gradient._value)
            source = tracing.sources.get(("gradient", id(handle)))
            if value is None or source is None or not tracing.mine(value) or value.var != source.var:
                record.gradients.append((handle, None if value is None else self.place(value)))
        record.had_gradient = list(tracing.had_gradient.values())
        result = tracing.result()
        read = [i for i, var in enumerate(result.vars) if var.read is not None]
        sources = self.sources(result, {*self.wanted, *read})
        inputs = [*self.arguments, *(source.var for source in sources)]
        for var in read:
            about = result.vars[var]
            told = about.mark or tracing.source(var)
            what = about.mark or f"%{var}{f', computed from {told}' if told else ''}"
            guard = Guard(what, about.read, about.read_at)
            if var in inputs:
                record.input_guards.append((inputs.index(var), guard))
            elif about.kind is VarKind.INTERNAL:
                if var not in self.wanted:
                    self.wanted.append(var)
                record.guards.append((self.wanted.index(var), guard))
        record.sources = sources
        record.source_specs = [result.vars[source.var].spec for source in sources]
        record.result = TraceResult(result.seq, result.vars, self.wanted)
        record.call = Call(record.result.program(inputs), record.label, backend)

    def sources(self, result: TraceResult, wanted: set[int]) -> list[Source]:
        """What is read from outside and used. What nobody can change any more becomes a constant."""
        live = _used(result, wanted)
        kept = []
        for source in self.tracing.sources.values():
            var = result.vars[source.var]
            if var.kind is not VarKind.EXTERNAL or source.var not in live:
                continue
            if source.may_change():
                kept.append(source)
            else:
                var.kind = VarKind.CONSTANT
                var.bound = source.value.value
        return kept


def _used(result: TraceResult, wanted: set[int]) -> set[int]:
    live = set(wanted)
    for expr in reversed(result.seq):
        if live.intersection(expr.outputs):
            live.update(expr.inputs)
    return live


def _warn_of_reads(record: CallRecord) -> None:
    if record.guards or record.input_guards:
        first = (record.input_guards or record.guards)[0][1]
        warnings.warn(
            f"trace({record.label}) read the data of {first.what} at {first.read_at} while it was recorded. Later "
            "calls run no Python, so what is printed there is not printed again; where the data differs, the function "
            "is recorded anew. Return the value to read it at each call",
            stacklevel=_user_depth(),
        )


def _user_depth() -> int:
    """How far up the first frame is that is not Lamina's own, for `warnings.warn` in the caller."""
    home = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
    own = tuple(home + room + os.sep for room in ("interp", "ops", "transformations"))
    frame = sys._getframe(1)
    depth = 1
    while frame.f_back is not None and os.path.abspath(frame.f_code.co_filename).startswith(own):
        frame = frame.f_back
        depth += 1
    return depth
