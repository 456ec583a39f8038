"""`trace`: a function recorded once for each kind of call, and then run as one program.

A record is found by the signature of a call; what the function read from outside is an input of its program, and what
it rebound is rebound again. Down the stack a traced call is one operator, `Call`, whatever layers lie there.
"""

from __future__ import annotations

import functools
import threading
import types
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from interp import Subgraph, TraceError, pytree
from interp.dispatch import Level, current_level

from .call_record import CallRecord, Stale, record_call
from .call_signature import CallSignature, Static
from .trace_result import TraceResult, VarKind

__all__ = ["CacheInfo", "Traced", "trace"]

_RECORDS_PER_SIGNATURE = 8


class CacheInfo(NamedTuple):
    """How often a record served, how often one was made, and how many there are (at most `maxsize` signatures)."""

    hits: int
    misses: int
    currsize: int
    maxsize: int


class Traced:
    """A function whose calls are recorded programs; `trace` makes one."""

    def __init__(
        self,
        f: Callable[..., Any],
        *,
        backend: str | None = None,
        check: bool = False,
        static_argnums: int | Sequence[int] = (),
        capture_as_const: bool = False,
        limit: int = 256,
        maxsize: int = 128,
    ) -> None:
        if not callable(f):
            raise TraceError(f"trace takes a function, not {f!r}")
        functools.update_wrapper(self, f)
        self._f = f
        self._backend = backend
        self._check = check
        self._static = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
        self._capture_as_const = capture_as_const
        self._limit = limit
        self._maxsize = maxsize
        self._lock = threading.RLock()
        self._forget()

    def _forget(self) -> None:
        self._records: OrderedDict[Any, list[CallRecord]] = OrderedDict()
        self._reasons: list[str] = []
        self._hits = 0
        self._misses = 0
        self._last: CallRecord | None = None

    @property
    def label(self) -> str:
        """How errors call the function."""
        return getattr(self._f, "__name__", type(self._f).__name__)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        level = current_level()
        signature = self._signature(args, kwargs, level)
        reason = ""
        for record in self._records.get(signature.key, ()):
            if not self._check and not record.state.unchanged():
                continue
            try:
                result = self._replay(record, signature, level)
            except Stale as stale:
                reason = str(stale)
                continue
            self._hits += 1
            self._last = record
            return result
        values = signature.values
        record = self._record(signature, reason)
        try:
            return record.run(values, level)
        except Stale as stale:
            raise TraceError(
                f"trace({self.label}): what the function read while it was recorded is other data when it runs "
                f"({stale}), so no record of it can hold; return the value instead of reading it"
            ) from None

    def _replay(self, record: CallRecord, signature: CallSignature, level: Level) -> Any:
        if self._check:
            self._verify(record, signature)
        return record.run(signature.values, level)

    def _signature(self, args: tuple[Any, ...], kwargs: dict[str, Any], level: Level) -> CallSignature:
        if self._static:
            places = {i % len(args) for i in self._static if -len(args) <= i < len(args)}
            args = tuple(Static(arg) if i in places else arg for i, arg in enumerate(args))
        leaves, structure = pytree.flatten((args, kwargs))
        return CallSignature(self._f, leaves, structure, level)

    def _record(self, signature: CallSignature, reason: str) -> CallRecord:
        """A new record. Raises TraceError with the reasons when there have been more than `limit`."""
        with self._lock:
            if self._misses:
                self._reasons.append(reason or self._reason(signature))
            if len(self._reasons) > self._limit:
                shown = "\n  ".join(self._reasons[-5:])
                raise TraceError(
                    f"trace({self.label}) was recorded anew {len(self._reasons)} times, more than limit={self._limit}; "
                    f"the last reasons:\n  {shown}\nPass what changes as an array or a number, or raise the limit"
                )
            record = self._recorded(signature)
            self._misses += 1
            others = self._records.setdefault(signature.key, [])
            others.insert(0, record)
            del others[_RECORDS_PER_SIGNATURE:]
            self._records.move_to_end(signature.key)
            while len(self._records) > self._maxsize:
                self._records.popitem(last=False)
            self._last = record
            return record

    def _recorded(self, signature: CallSignature) -> CallRecord:
        return record_call(
            self._f, signature, capture_as_const=self._capture_as_const, backend=self._backend
        )

    def _reason(self, signature: CallSignature) -> str:
        """Why no record does for this call."""
        for record in self._records.get(signature.key, ()):
            changed = record.state.changes()
            if changed:
                return "; ".join(changed)
        if self._last is None or self._last.signature.key == signature.key:
            return "its record was dropped from the cache"
        return signature.difference(self._last.signature, self._f)

    def _verify(self, record: CallRecord, signature: CallSignature) -> None:
        """Run the function's Python again, and compare what it does with the record."""
        again = CallSignature(self._f, list(signature.leaves), signature.structure, current_level())
        _compare(self.label, record.result, self._recorded(again).result)

    def program(self, *args: Any, **kwargs: Any) -> Subgraph:
        """The program for these arguments; recorded where there is none yet. Nothing is run or rebound."""
        level = current_level()
        signature = self._signature(args, kwargs, level)
        for record in self._records.get(signature.key, ()):
            if record.state.unchanged():
                return record.program
        return self._record(signature, "").program

    def cache_info(self) -> CacheInfo:
        """Hits, misses (records made), signatures in the cache, and the most that it holds."""
        return CacheInfo(self._hits, self._misses, len(self._records), self._maxsize)

    def cache_clear(self) -> None:
        """Drop every record, and the reasons."""
        with self._lock:
            self._forget()

    def explain(self) -> list[str]:
        """Why the function was recorded anew, each time: "argument `x`: shape (10,), was (9,)"."""
        return list(self._reasons)

    def __repr__(self) -> str:
        return f"<traced {self.label}: {len(self._records)} signatures>"


def trace(f: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Record `f` at its first call of a kind, and run the record at later ones.

    Calls are told apart by the structure, shapes and dtypes of their arguments; numbers are inputs and cause no new
    record, everything else (bool, str, None, and what `static_argnums` names) counts by its value. Handles and host
    arrays that `f` reads from outside are inputs, and handles that it rebinds are rebound at every call. Numbers,
    strings and containers of them that it closes over, has as defaults or names as globals are compared at every call.
    What is not seen: attributes of objects, items deeper than a thousand, files, clocks, numpy's random numbers.

    Options: `backend`; `check`: run the Python at every call and compare it with the record; `static_argnums`;
    `capture_as_const`: what is read from outside is a constant; `limit`: how many new records there may be before
    that is an error; `maxsize`: how many signatures are kept. Pytrees in and out.

    Raises TraceError where Python branches on data, or does what no replay could repeat.

    >>> import interp, ops
    >>> @trace
    ... def f(x, y):
    ...     return ops.exp(x) * y
    >>> f(interp.tensor([0.0, 0.0]), 2.0), f(interp.tensor([0.0, 0.0]), 3.0)
    (tensor([2., 2.]), tensor([3., 3.]))
    >>> f.cache_info().misses
    1
    """
    if f is None:
        return lambda function: Traced(function, **options)
    return Traced(f, **options)


def _compare(label: str, wanted: TraceResult, got: TraceResult) -> None:
    """Raise TraceError naming the first step at which two records differ."""
    for i, (old, new) in enumerate(zip(wanted.seq, got.seq, strict=False)):
        same = old.op == new.op or (old.op.is_program and type(old.op) is type(new.op))
        if not same or old.inputs != new.inputs:
            raise TraceError(
                f"trace({label}, check=True): step {i} of the record is {old!r}, but the function now does {new!r}"
            )
    if len(wanted.seq) != len(got.seq):
        longer, verb = (wanted, "stops before") if len(wanted.seq) > len(got.seq) else (got, "goes on with")
        step = min(len(wanted.seq), len(got.seq))
        raise TraceError(
            f"trace({label}, check=True): the record has {len(wanted.seq)} steps, and the function now {verb} "
            f"step {step}: {longer.seq[step]!r}"
        )
    for i, (was, now) in enumerate(zip(wanted.vars, got.vars, strict=False)):
        if was.kind is VarKind.CONSTANT and now.kind is VarKind.CONSTANT and not _equal(was.bound, now.bound):
            raise TraceError(
                f"trace({label}, check=True): constant %{i} of the record is {was!r}, but the function now has {now!r}"
            )


def _equal(a: Any, b: Any) -> bool:
    import numpy as np

    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")
    return type(a) is type(b) and (a is b or bool(a == b))
