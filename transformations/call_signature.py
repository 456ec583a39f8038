"""What two calls must have in common to share a record: structure, shapes, dtypes, and static values."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from interp import Spec, Tensor, TraceError, pytree
from interp.dispatch import Handle, Level, read_at
from interp.dtypes import default_dtype
from interp.tensor import as_operand
from interp.value import settle, short, spec_of

__all__ = ["CallSignature", "Static"]

ndarray = np.ndarray
_NUMBERS = (float, int, complex)


class Static:
    """An argument that is part of the signature by its value and type."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class CallSignature:
    """One call taken apart: the values of its array leaves, and the key that a record is found by."""

    __slots__ = ("key", "leaves", "parts", "structure", "values")

    def __init__(self, f: Callable[..., Any], leaves: Sequence[Any], structure: Any, level: Level) -> None:
        self.leaves = leaves
        self.structure = structure
        self.values: list[Any] = []
        self.parts: list[Any] = []
        values, parts = self.values, self.parts
        plain = level.reader is None
        for i, leaf in enumerate(leaves):
            if plain and type(leaf) is Tensor and type(value := leaf._value) is ndarray:  # most often
                values.append(value)
                parts.append((value.shape, value.dtype))
                continue
            part, value = _part(leaf, level)
            if part is None:
                part = self._static(f, i, leaf)
            else:
                values.append(value)
            parts.append(part)
        self.key = (structure, default_dtype(), *parts)

    def _static(self, f: Callable[..., Any], i: int, leaf: Any) -> tuple[Any, ...]:
        value = leaf.value if isinstance(leaf, Static) else leaf
        try:
            hash(value)
        except TypeError:
            path = names_of_leaves(f, self.structure)[i]
            raise TraceError(
                f"trace({getattr(f, '__name__', f)}): {path} is {short(value)}, which is no array and cannot be "
                "hashed; pass arrays and numbers, or something hashable, which counts by its value"
            ) from None
        hashing: Any = type(value).__hash__
        by_identity = hashing is object.__hash__ and not isinstance(value, type)
        return ("static", type(value), _weakly(value) if by_identity else value)

    def forget_arguments(self) -> None:
        """Let go of the arguments; the key stays. A record must not keep anybody's arrays alive."""
        self.leaves = ()
        self.values = []

    def difference(self, other: CallSignature, f: Callable[..., Any]) -> str:
        """Why a record for `other` does not do for this call."""
        if self.structure != other.structure:
            return f"the structure of the arguments: {self.structure}, was {other.structure}"
        names = names_of_leaves(f, self.structure)
        for name, now, was in zip(names, self.parts, other.parts, strict=True):
            if now != was:
                return f"{name}: {_difference(now, was)}"
        return f"the default dtype: {self.key[1]}, was {other.key[1]}"

    def arguments(self, values: Sequence[Any]) -> Any:
        """The arguments again, `(args, kwargs)`, with other values at the array leaves."""
        rest = iter(values)
        leaves = [
            (leaf.value if isinstance(leaf, Static) else leaf) if _is_static(part) else next(rest)
            for leaf, part in zip(self.leaves, self.parts, strict=True)
        ]
        return pytree.unflatten(self.structure, leaves)

    def labels(self, f: Callable[..., Any]) -> list[str]:
        """How the array leaves are called in errors."""
        names = names_of_leaves(f, self.structure)
        return [name for name, part in zip(names, self.parts, strict=True) if not _is_static(part)]


def _weakly(value: Any) -> Any:
    """An object that is equal only to itself, so that a record does not keep it alive."""
    try:
        return weakref.ref(value)
    except TypeError:
        return value


def _is_static(part: Any) -> bool:
    return type(part) is tuple and part[0] == "static"


def _part(leaf: Any, level: Level) -> tuple[Any, Any]:
    """The part of the key for one leaf, and its value; (None, None) where it is no array."""
    kind = type(leaf)
    if kind is Tensor:
        value = leaf._value if level.reader is None else read_at(level, leaf)
        if type(value) is ndarray:
            return (value.shape, value.dtype), value
        value = settle(value)
    elif kind is ndarray:
        value = as_operand(leaf)
    elif kind in _NUMBERS:
        return ("number", kind), leaf
    elif isinstance(leaf, Handle):
        value = settle(read_at(level, leaf))
    elif isinstance(leaf, (ndarray, np.generic)):
        value = as_operand(leaf)
    else:
        return None, None
    if isinstance(value, Handle):
        value = read_at(level, value)
    spec = spec_of(value)
    return (spec if spec.weak else (spec.shape, spec.dtype)), value


def _difference(now: Any, was: Any) -> str:
    if _is_static(now) and _is_static(was):
        return f"{_said(now)}, was {_said(was)}"
    new, old = _shape_and_dtype(now), _shape_and_dtype(was)
    if new is not None and old is not None:
        if new[0] != old[0]:
            return f"shape {new[0]}, was {old[0]}"
        return f"dtype {new[1]}, was {old[1]}"
    return f"{_said(now)}, was {_said(was)}"


def _shape_and_dtype(part: Any) -> tuple[Any, Any] | None:
    if isinstance(part, Spec):
        return part.shape, part.dtype
    return part if type(part[0]) is tuple else None


def _said(part: Any) -> str:
    if _is_static(part):
        value = part[2]() if isinstance(part[2], weakref.ref) else part[2]
        return f"static {short(value)}"
    if isinstance(part, Spec):
        return repr(part)
    return f"a Python {part[1].__name__}" if part[0] == "number" else f"an array {Spec(*part)!r}"


def names_of_leaves(f: Callable[..., Any], structure: Any) -> list[str]:
    """Every leaf of the arguments `(args, kwargs)` as errors call it: "argument `x[0]`"."""
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    positional = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    names = []
    for which, first, *rest in pytree.paths_of(structure):
        root = str(first)
        if which == 0:
            root = positional[first] if first < len(positional) else f"argument {first}"
        names.append(f"argument `{root}{''.join(f'[{step!r}]' for step in rest)}`")
    return names
