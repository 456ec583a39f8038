"""Operators: what can be asked of a stack of transformations."""

from __future__ import annotations

import enum
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, ClassVar
from weakref import WeakSet

from .errors import DTypeError

__all__ = ["Memo", "OpDef", "Operator", "OperatorKind", "memo"]


class OperatorKind(enum.Enum):
    """How a layer that does not know an operator may treat it.

    IDENTITY_LIKE gives back its one input in another guise, GET_ATTR_LIKE only asks about its input,
    OTHER is everything else.
    """

    IDENTITY_LIKE = "IdentityLike"
    GET_ATTR_LIKE = "GetAttrLike"
    OTHER = "Other"


class Operator:
    """One thing that can be asked through `apply`. Immutable; equal ones are interchangeable.

    Subclasses are frozen attrs classes, so that equality and hash follow from their fields. What is
    derived from an operator (its kernel, its backward programs) is kept in a `Memo` that all equal
    operators share, so that an operator is hashed at most once in its life.
    """

    __slots__ = ("__weakref__", "_memo")

    _memo: Memo

    kind: ClassVar[OperatorKind] = OperatorKind.OTHER
    computes: ClassVar[bool] = False
    is_program: ClassVar[bool] = False
    stays_in_programs: ClassVar[bool] = False
    """Of an operator that does not compute but says something to layers: whether a record of it must keep it."""

    def inline(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """For an operator that carries programs (`is_program`): run them, one `apply` an operator."""
        raise TypeError(f"{type(self).__name__} carries no program")

    def inlined_by(self, layer: Any, inputs: Sequence[Any]) -> bool:
        """For an operator that carries programs: whether `layer` is to see less than this operator as a whole."""
        return not layer.takes_program(self)

    def through(self, layer: Any, inputs: Sequence[Any]) -> Sequence[Any]:
        """For an operator that carries programs: pass through a layer that does not take it.

        Called with the position at the layer itself, so that by default the layer sees each operator of the program.
        """
        return self.inline(inputs)

    def fallback(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """Answer for a stack in which no layer knew this operator; by default an error.

        Raises RuleError.
        """
        from .errors import RuleError

        raise RuleError(
            f"{self!r} reached the bottom of the stack and no transformation answered it; "
            "is the transformation that knows it registered?"
        )


class OpDef(Operator):
    """An operator that computes arrays from arrays, described by rules registered beside it.

    `checks_first` says whether the evaluator runs the inference rule before the kernel (the default, which
    gives typed errors and checks what the kernel returns) or only to explain a kernel that failed.
    `keeps_weak` says whether Python scalars reach the kernel as they are (weakly typed); otherwise the
    evaluator turns them into arrays of the default dtype first. `shape_from_data` says that the shapes of the
    outputs depend on data, so that inference can only refuse (with TraceError). `cuts_gradient` says that some inputs
    have no gradient by choice, though the outputs move with them.
    """

    __slots__ = ()

    computes: ClassVar[bool] = True
    checks_first: ClassVar[bool] = True
    keeps_weak: ClassVar[bool] = False
    shape_from_data: ClassVar[bool] = False
    cuts_gradient: ClassVar[bool] = False


class Memo:
    """What has been derived from an operator, shared by all operators equal to it."""

    __slots__ = ("__weakref__", "kernel", "owner", "programs", "recent")

    def __init__(self, owner: type[Operator]) -> None:
        self.owner = owner
        self.kernel: Callable[..., Any] | None = None
        self.programs: dict[Any, Any] = {}
        self.recent: tuple[Any, ...] = (None, None, None, None)

    def forget(self) -> None:
        self.kernel = None
        self.recent = (None, None, None, None)
        self.programs = {}

    def remember(self, key: object, value: object, limit: int = 512) -> None:
        """Keep `value` under `key`; drops everything older when `limit` is reached."""
        if len(self.programs) >= limit:
            self.programs = {}
        self.programs[key] = value


_LIMIT = 4096
_memos: OrderedDict[tuple[Operator, str], Memo] = OrderedDict()
_living: WeakSet[Memo] = WeakSet()
_lock = threading.Lock()


def memo(op: Operator) -> Memo:
    """The memo of `op`, the same object for equal operators (the last 4096 kinds of them).

    Raises DTypeError when a parameter of the operator cannot be hashed.
    """
    try:
        return op._memo
    except AttributeError:
        pass
    if type(op).__hash__ is object.__hash__:  # equal to nothing else, and must not be kept alive by a table
        alone = Memo(type(op))
        object.__setattr__(op, "_memo", alone)
        return alone
    with _lock:
        key = (op, repr(op))  # repr tells 1 from 1.0 and 0.0 from -0.0, which compare equal
        try:
            found = _memos.get(key)
        except TypeError as error:
            raise DTypeError(f"parameters of {type(op).__name__} must be hashable: {error}") from None
        if found is None:
            found = _memos[key] = Memo(type(op))
            _living.add(found)
            if len(_memos) > _LIMIT:
                _memos.popitem(last=False)
        else:
            _memos.move_to_end(key)
        object.__setattr__(op, "_memo", found)
        return found


def forget(owner: type[Operator]) -> None:
    """Drop what was derived from operators of this class, as when a rule of theirs changes."""
    with _lock:
        for entry in list(_living):
            if issubclass(entry.owner, owner):
                entry.forget()
