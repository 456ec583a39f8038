"""What can be asked of the gradient layers of a stack. None of these operators computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import attrs

from interp import GradError, Operator, OperatorKind

from .tape import GradKey

__all__ = [
    "AttachGrad",
    "DetachGrad",
    "GetBackwardClosure",
    "GetGradKey",
    "GetGradSlot",
    "GradBackward",
    "InsertGradCallback",
    "IsAttachedTo",
    "SetGrad",
]


@attrs.frozen(eq=False)
class _KeyOperator(Operator):
    key: GradKey

    def fallback(self, inputs: Sequence[Any]) -> Sequence[Any]:
        raise GradError(
            f"{type(self).__name__}: no layer of the current stack has {self.key!r}; it is finished, or it was "
            "opened in another thread or task"
        )


@attrs.frozen(eq=False)
class AttachGrad(_KeyOperator):
    """Inputs: a value, and a callback or None. The value, attached to the key; `label` names it in errors."""

    label: str = ""


@attrs.frozen(eq=False)
class GradBackward(_KeyOperator):
    """Inputs: outputs, then as many gradients of them. Runs the backward pass of the key; no outputs."""


@attrs.frozen(eq=False)
class GetBackwardClosure(_KeyOperator):
    """Inputs: outputs. Freezes the key; a function of the outputs' gradients that runs the backward pass."""


@attrs.frozen(eq=False)
class IsAttachedTo(_KeyOperator):
    """Whether gradients are asked of the one input under the key. Asked of every layer below, too."""

    def fallback(self, inputs: Sequence[Any]) -> Sequence[Any]:
        return (False,)


@attrs.frozen(eq=False)
class SetGrad(Operator):
    """Inputs: `nr_inputs` values, then outputs computed from them. The outputs, with `grad_fn` as their backward.

    `grad_fn` takes a sequence of output gradients (None where none came) and returns one for each input, or None.
    Each gradient layer of the stack gives the outputs a slot.
    """

    grad_fn: Callable[[Sequence[Any]], Sequence[Any]]
    nr_inputs: int

    def fallback(self, inputs: Sequence[Any]) -> Sequence[Any]:
        return tuple(inputs[self.nr_inputs :])


@attrs.frozen
class DetachGrad(Operator):
    """The one input, cut from the innermost gradient layer that holds it; from all of them with `everywhere`."""

    kind: ClassVar[OperatorKind] = OperatorKind.IDENTITY_LIKE
    stays_in_programs: ClassVar[bool] = True
    everywhere: bool = False

    def fallback(self, inputs: Sequence[Any]) -> Sequence[Any]:
        return (inputs[0],)


@attrs.frozen
class GetGradKey(Operator):
    """The key of the innermost gradient layer to which one of the inputs is attached; None without one."""

    kind: ClassVar[OperatorKind] = OperatorKind.GET_ATTR_LIKE

    def fallback(self, inputs: Sequence[Any]) -> Sequence[Any]:
        return (None,)


@attrs.frozen
class GetGradSlot(Operator):
    """The slot of the one input in the innermost gradient layer to which it is attached; None without one."""

    kind: ClassVar[OperatorKind] = OperatorKind.GET_ATTR_LIKE

    def fallback(self, inputs: Sequence[Any]) -> Sequence[Any]:
        return (None,)


@attrs.frozen(eq=False)
class InsertGradCallback(Operator):
    """Inputs: an attached value, and a callback that is given its gradient when it is complete. No outputs."""

    def fallback(self, inputs: Sequence[Any]) -> Sequence[Any]:
        raise GradError("InsertGradCallback: the value is not attached to any gradient layer of the current stack")
