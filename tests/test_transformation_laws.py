"""The conformance kit for layers: it passes the project's own, and finds each planted fault by its law."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import attrs
import numpy as np
import pytest

import ops
import transformations
from interp import InterpError, OpDef, Spec, Transformation, apply, rules, stack
from interp.operator import Operator
from tests.layers import Box, Note
from transformations import Grad, VmapTransformation, no_grad
from transformations.testing import LAWS, ConformanceError, check_operator, check_transformation

WITHOUT_GRADIENT = [law for law in LAWS if law != "composes"]

# How the layers are made that cannot be made from nothing, and the laws that a layer is there to break.
MAKES: dict[str, Callable[[], Any]] = {"VmapTransformation": lambda: VmapTransformation(3)}
EXCEPT: dict[str, tuple[str, ...]] = {"EvalTransformation": ("composes",)}  # it computes, so gradients end there


def layers() -> list[type[Transformation]]:
    """Every layer that the project exports."""
    found = [getattr(transformations, name) for name in transformations.__all__]
    return [cls for cls in found if isinstance(cls, type) and issubclass(cls, Transformation)]


@pytest.mark.parametrize("cls", [*layers(), Note], ids=lambda cls: cls.__name__)
def test_every_layer_keeps_the_laws(cls: type[Transformation]) -> None:
    check_transformation(MAKES.get(cls.__name__, cls), [law for law in LAWS if law not in EXCEPT.get(cls.__name__, ())])


def test_scopes_keep_the_laws() -> None:
    check_transformation(Grad)


@pytest.mark.parametrize("make", [no_grad, Box])
def test_layers_that_hold_derivatives_back_keep_the_other_laws(make: Callable[[], Any]) -> None:
    check_transformation(make, WITHOUT_GRADIENT)


class Off(Transformation):
    """Adds to every result."""

    def apply_transformation(self, op: Operator, inputs: Sequence[Any]) -> Sequence[Any]:
        outputs = apply(op, *inputs)
        return [y + 1.0 for y in outputs] if op.computes else outputs


class Raises(Transformation):
    """Refuses to compute."""

    def apply_transformation(self, op: Operator, inputs: Sequence[Any]) -> Sequence[Any]:
        if op.computes:
            raise RuntimeError("refused")
        return apply(op, *inputs)


@contextmanager
def left_open() -> Iterator[None]:
    Note().register()
    yield


@contextmanager
def swallows() -> Iterator[None]:
    with suppress(Exception):
        yield


@contextmanager
def replaces() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise type(error)("another") from None


FAULTS: list[tuple[str, Callable[[], Any]]] = [
    ("depth", left_open),
    ("identity", Off),
    ("identity", Raises),
    ("error", swallows),
    ("error", replaces),
    ("composes", no_grad),
    ("transparent", lambda: Box(settles=False)),
]


@pytest.mark.parametrize(("law", "make"), FAULTS)
def test_a_planted_fault_is_found_by_its_law(law: str, make: Callable[[], Any]) -> None:
    before = stack()
    with pytest.raises(ConformanceError, match=law):
        check_transformation(make, [law])
    for layer in [layer for layer in stack() if layer not in before]:
        layer.unregister()


def test_an_unknown_law_is_named() -> None:
    with pytest.raises(ValueError, match="depht"):
        check_transformation(Note, ["depht"])


# Operators with one rule wrong each; what is not wrong is that of x * x.


def wrong_operator(**wrong: Callable[..., Any]) -> OpDef:
    @attrs.frozen
    class Square(OpDef):
        """The square."""

    right: dict[str, Callable[..., Any]] = {
        "infer": lambda op, x: (Spec(x.shape, x.dtype),),
        "kernel": lambda op, x: x * x,
        "vjp": lambda op, inputs, outputs, cotangents: [cotangents[0] * inputs[0] * 2.0],
        "jvp": lambda op, inputs, outputs, tangents: [tangents[0] * inputs[0] * 2.0],
    }
    for table, rule in {**right, **wrong}.items():
        getattr(rules, table).register(Square)(rule)
    return Square()


def _doubles_in_place(op: OpDef, x: Any) -> Any:
    result = x * x
    x *= 1.5
    return result


WRONG: list[dict[str, Callable[..., Any]]] = [
    {"vjp": lambda op, inputs, outputs, cotangents: [cotangents[0] * inputs[0]]},
    {"vjp": lambda op, inputs, outputs, cotangents: [None]},
    {"vjp": lambda op, inputs, outputs, cotangents: [ops.astype(cotangents[0] * inputs[0] * 2.0, "float64")]},
    {"jvp": lambda op, inputs, outputs, tangents: [tangents[0] * inputs[0] * 3.0]},
    {"infer": lambda op, x: (Spec((*x.shape, 1), x.dtype),)},
    {"infer": lambda op, x: (Spec(x.shape, "complex128"),)},
    {"kernel": _doubles_in_place},
]


def test_the_right_operator_passes() -> None:
    check_operator(wrong_operator(), [(np.array([0.5, -1.5]),)])


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: next(iter(wrong)))
def test_a_planted_fault_in_a_rule_is_found(wrong: dict[str, Callable[..., Any]]) -> None:
    with pytest.raises(InterpError):
        check_operator(wrong_operator(**wrong), [(np.array([0.5, -1.5]),)])
