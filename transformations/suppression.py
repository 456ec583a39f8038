"""`no_grad`: a stretch of code in which the gradient layers below record nothing."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, ContextDecorator
from typing import Any

from interp import Transformation
from interp.dispatch import exchanged
from interp.operator import Operator
from interp.value import Scope

from .grad_transformation import GradTransformation

__all__ = ["no_grad"]


class SuppressedGrad(Transformation):
    """Stands in a changed chain for a gradient layer: takes its values apart, and records nothing."""

    def __init__(self, layer: GradTransformation) -> None:
        self.layer = layer

    @property
    def scope(self) -> Scope | None:  # type: ignore[override]
        """The lifetime of the values of the layer that this one stands for."""
        return self.layer.scope

    @property
    def name(self) -> str:
        return f"{self.layer.name} suppressed"

    def apply_transformation(self, op: Operator, inputs: Sequence[Any]) -> Sequence[Any]:
        return self.layer.answer(op, inputs, suppressed=True)


def _suppressed(layer: Transformation) -> Transformation:
    return SuppressedGrad(layer) if isinstance(layer, GradTransformation) else layer


class no_grad(ContextDecorator):
    """`with no_grad():` or `@no_grad()`: what is computed here has no gradient, in any layer opened outside.

    The stack is another one for the block, so other threads and tasks are not touched; scopes opened inside record
    as usual.

    >>> import interp
    >>> from transformations import grad
    >>> def f(x):
    ...     with no_grad():
    ...         scale = x * x
    ...     return x * scale
    >>> grad(f)(interp.tensor(3.0))
    tensor(9.)
    """

    def __init__(self) -> None:
        self._open: list[AbstractContextManager[None]] = []

    def __enter__(self) -> no_grad:
        block = exchanged(_suppressed)
        block.__enter__()
        self._open.append(block)
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        self._open.pop().__exit__(kind, error, traceback)
