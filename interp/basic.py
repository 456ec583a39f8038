"""The operators that ask about values and make them, rather than compute: MegEngine's basic operators."""

from __future__ import annotations

import enum
from typing import Any, ClassVar

import attrs

from .errors import OperatorError
from .operator import Operator, OperatorKind

__all__ = [
    "CreateTensor",
    "DupTensor",
    "GetAttr",
    "GetId",
    "GetName",
    "IsScalar",
    "PopScope",
    "PushScope",
    "RenameValue",
]


def _one_of(options: type[enum.Enum], value: Any) -> Any:
    """The member of an enumeration that `value` names. Raises OperatorError where there is none."""
    try:
        return options(value)
    except ValueError:
        names = ", ".join(repr(option.value) for option in options)
        raise OperatorError(f"{options.__qualname__} is one of {names}, not {value!r}") from None


def _attr(value: Any) -> GetAttr.Attr:
    return _one_of(GetAttr.Attr, value)  # type: ignore[no-any-return]


def _kind(value: Any) -> CreateTensor.Kind:
    return _one_of(CreateTensor.Kind, value)  # type: ignore[no-any-return]


@attrs.frozen
class GetAttr(Operator):
    """Ask one attribute of the one input.

    SHAPE answers a tuple, DTYPE a numpy dtype, DEVICE a string, DATA the array that may not be written to,
    VALUE the same for somebody who reads it (a layer may refuse), TRUTH for somebody who branches on it.
    """

    class Attr(enum.Enum):
        NONE = "none"
        DTYPE = "dtype"
        DEVICE = "device"
        SHAPE = "shape"
        VALUE = "value"
        DATA = "data"
        TRUTH = "truth"

    kind: ClassVar[OperatorKind] = OperatorKind.GET_ATTR_LIKE
    attr: Attr = attrs.field(converter=_attr)


@attrs.frozen
class CreateTensor(Operator):
    """Bring host data, the one input, onto the stack as a value.

    UNIQUE data is the caller's to give away, COMMON may be shared, CONST may be captured in a program,
    NO_TRACE is left out of any record.
    """

    class Kind(enum.Enum):
        COMMON = "common"
        UNIQUE = "unique"
        CONST = "const"
        NO_TRACE = "no_trace"

    create: Kind = attrs.field(default=Kind.COMMON, converter=_kind)
    dtype: Any = None
    device: str = "cpu"


@attrs.frozen
class RenameValue(Operator):
    """The one input, under a name."""

    kind: ClassVar[OperatorKind] = OperatorKind.IDENTITY_LIKE
    name: str


@attrs.frozen
class GetName(Operator):
    """The name of the one input: "" when it has none."""

    kind: ClassVar[OperatorKind] = OperatorKind.GET_ATTR_LIKE


@attrs.frozen
class GetId(Operator):
    """A number that tells the one input from every other value alive."""

    kind: ClassVar[OperatorKind] = OperatorKind.GET_ATTR_LIKE


@attrs.frozen
class IsScalar(Operator):
    """Whether the one input has no axes."""

    kind: ClassVar[OperatorKind] = OperatorKind.GET_ATTR_LIKE


@attrs.frozen
class DupTensor(Operator):
    """The one input in memory of its own."""

    kind: ClassVar[OperatorKind] = OperatorKind.IDENTITY_LIKE


@attrs.frozen
class PushScope(Operator):
    """What follows belongs to a named part of the program, for logs, records and profiles."""

    name: str


@attrs.frozen
class PopScope(Operator):
    """The named part ends."""

    name: str
