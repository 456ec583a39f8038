"""What a function sees besides its arguments: closure cells, defaults and the globals that it names.

Snapshots of it are compared at each call, so that a record made for other values is never used.
"""

from __future__ import annotations

import functools
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from interp.value import short

__all__ = ["CapturedState"]

_PLAIN = (int, float, complex, bool, str, bytes, type(None), slice, range)
_OWN = ("interp", "ops", "transformations")
_MOST_FUNCTIONS = 200
_MOST_ITEMS = 1000
_MISSING = object()


class CapturedState:
    """The captured state of a function as it was when this was made."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.items = [(label, read, _Snapshot(read())) for label, read in _captured(function)]

    def changes(self) -> list[str]:
        """What is different now, each as a sentence: "global `scale`: 3.0, was 2.0"."""
        return [
            f"{label}: {_told(read())}, was {snapshot.told}" for label, read, snapshot in self.items
            if not snapshot.matches(read())
        ]  # fmt: skip

    def unchanged(self) -> bool:
        """Whether everything is as it was."""
        return all(snapshot.matches(read()) for _, read, snapshot in self.items)


class _Snapshot:
    """One value: numbers and strings by type and value, containers of them item by item, the rest by identity."""

    __slots__ = ("frozen", "told")

    def __init__(self, value: Any) -> None:
        self.frozen = _frozen(value, [_MOST_ITEMS])
        self.told = _told(value)

    def matches(self, value: Any) -> bool:
        return _same(self.frozen, value)


def _told(value: Any) -> str:
    return "not there" if value is _MISSING else short(value)


def _frozen(value: Any, left: list[int]) -> tuple[Any, ...]:
    kind = type(value)
    left[0] -= 1
    if kind in _PLAIN:
        return ("plain", kind, repr(value) if kind in (float, complex) else value)
    if left[0] > 0 and kind in (list, tuple):
        return ("items", kind, [_frozen(item, left) for item in value])
    if left[0] > 0 and kind is dict:
        return ("dict", list(value), [_frozen(item, left) for item in value.values()])
    if left[0] > 0 and kind in (set, frozenset):
        return ("set", kind, frozenset(value))
    try:
        return ("is", weakref.ref(value))
    except TypeError:
        return ("held", value)


def _same(frozen: tuple[Any, ...], value: Any) -> bool:
    how = frozen[0]
    if how == "plain":
        kind = frozen[1]
        if type(value) is not kind:
            return False
        return bool(frozen[2] == (repr(value) if kind is float or kind is complex else value))
    if how == "is":
        return frozen[1]() is value
    if how == "held":
        return frozen[1] is value
    if how == "items":
        items = frozen[2]
        return type(value) is frozen[1] and len(value) == len(items) and all(map(_same, items, value))
    if how == "dict":
        return type(value) is dict and list(value) == frozen[1] and all(map(_same, frozen[2], value.values()))
    return type(value) is frozen[1] and value == frozen[2]


Item = tuple[str, Callable[[], Any]]


def _captured(function: Callable[..., Any]) -> Iterator[Item]:
    """Everything that the function captured, and what the functions captured that it captured: label and reader."""
    todo: list[Any] = [function]
    seen: set[int] = set()
    while todo and len(seen) < _MOST_FUNCTIONS:
        each = todo.pop()
        if isinstance(each, functools.partial):
            todo += [each.func, *each.args, *each.keywords.values()]
            continue
        if isinstance(each, types.MethodType):
            each = each.__func__
        if not isinstance(each, types.FunctionType) or id(each) in seen:
            continue
        seen.add(id(each))
        if each is not function and (each.__module__ or "").split(".")[0] in _OWN:
            items = list(_cells(each))  # a wrapper of ours, around a function of the user's
        else:
            items = [*_cells(each), *_defaults(each), *_globals(each)]
        for label, read in items:
            value = read()
            todo.append(value)
            wrapped = getattr(value, "__wrapped__", None)
            if wrapped is not None:
                todo.append(wrapped)
            yield label, read


def _cells(function: types.FunctionType) -> Iterator[Item]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield f"closure variable `{name}`", functools.partial(_content, cell)


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _MISSING


def _defaults(function: types.FunctionType) -> Iterator[Item]:
    for i, _ in enumerate(function.__defaults__ or ()):
        yield f"default {i} of `{function.__name__}`", functools.partial(_default, function, i)
    for name in function.__kwdefaults__ or ():
        yield f"default of `{name}`", functools.partial(_keyword_default, function, name)


def _default(function: types.FunctionType, i: int) -> Any:
    defaults = function.__defaults__ or ()
    return defaults[i] if i < len(defaults) else _MISSING


def _keyword_default(function: types.FunctionType, name: str) -> Any:
    return (function.__kwdefaults__ or {}).get(name, _MISSING)


def _globals(function: types.FunctionType) -> Iterator[Item]:
    space = function.__globals__
    for name in sorted(_names(function.__code__)):
        value = space.get(name, _MISSING)
        if value is not _MISSING and not isinstance(value, types.ModuleType):
            yield f"global `{name}`", functools.partial(space.get, name, _MISSING)


def _names(code: types.CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names(constant)
    return names
