"""The shapes and dtypes of what a function returns, without computing it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from interp import Spec, pytree
from interp.dispatch import Handle, read
from interp.recorder import record_flat
from interp.tensor import as_operand, from_value
from interp.value import spec_of

__all__ = ["eval_shape"]


def eval_shape(f: Callable[..., Any], /, *specs: Any) -> Any:
    """The Specs of what `f` returns for arguments with these Specs (or of Tensors and arrays, for their specs).

    Pytrees in and out. Nothing is computed; raises TraceError where `f` reads data.

    >>> import interp, ops
    >>> eval_shape(lambda x, y: {"product": x @ y}, interp.Spec((2, 3), "float32"), interp.Spec((3, 4), "float32"))
    {'product': float32[2,4]}
    """
    names, leaves, tree = pytree.flatten_arguments(specs)
    flat = [leaf if isinstance(leaf, Spec) else spec_of(_value(leaf)) for leaf in leaves]
    found: list[Any] = []

    def body(values: list[Any]) -> list[Any]:
        outputs, structure = pytree.flatten(f(*pytree.unflatten(tree, map(from_value, values))))
        results = [_value(leaf) for leaf in outputs]
        found[:] = [structure, [spec_of(value) for value in results]]
        return results

    label = getattr(f, "__name__", type(f).__name__)
    record_flat(body, flat, [f"{name} of {label}" for name in names])
    return pytree.unflatten(found[0], found[1])


def _value(leaf: Any) -> Any:
    operand = as_operand(leaf)
    return read(operand) if isinstance(operand, Handle) else operand
