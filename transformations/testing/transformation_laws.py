"""Laws that every layer must keep, checked by running a small program under it, alone and with the built-in ones.

A layer may watch, rewrite or hold back work, but it must leave the stack as it was, let errors through, and, unless
it is there to change results, give the results that the program has without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

import interp
import ops
from interp import Tensor, stack

from ..forward_mode import jvp
from ..gradient import grad
from ..vectorize import vmap
from .operator_laws import ConformanceError

__all__ = ["LAWS", "check_transformation"]

Make = Callable[[], AbstractContextManager[Any]]
Function = Callable[[Any], Any]

_POINT = np.array([0.5, -1.0, 2.0])


class _Planted(Exception):
    """The error that a law raises inside the layer; no layer can have a reason to answer it."""


def _program(x: Any) -> Any:
    return x * x * x + 2.0 * x


def _tangent(f: Function) -> Function:
    return lambda x: jvp(f, (x,), (interp.tensor(np.ones(x.shape)),))[1]


def _gradient(f: Function) -> Function:
    return grad(lambda x: ops.sum(f(x)))


# A built-in layer as a function of functions, and what it makes of the program by plain numpy.
_BUILT_IN: dict[str, tuple[Callable[[Function], Function], Any]] = {
    "grad": (_gradient, 3 * _POINT**2 + 2),
    "jvp": (_tangent, 3 * _POINT**2 + 2),
    "vmap": (vmap, _POINT**3 + 2 * _POINT),
}


def _under(make: Make, f: Function) -> Function:
    def inside(x: Any) -> Any:
        with make():
            return f(x)

    return inside


def _fail(law: str, make: Make, detail: str) -> None:
    raise ConformanceError(f"{make!r}: {law}: {detail}")


def _expect(law: str, make: Make, f: Function, wanted: Any) -> None:
    try:
        got = f(interp.tensor(_POINT))
        numbers = np.asarray(got.numpy() if isinstance(got, Tensor) else got)
    except Exception as error:
        raise ConformanceError(f"{make!r}: {law}: raised {type(error).__name__}: {error}") from error
    if numbers.shape != wanted.shape or not np.allclose(numbers, wanted, rtol=1e-9):
        _fail(law, make, f"got {numbers!r}, expected {wanted!r}")


def _depth(make: Make) -> None:
    before = list(stack())
    with make():
        _program(interp.tensor(_POINT))
    if list(stack()) != before:
        _fail("depth", make, f"the stack was {before}, and is {list(stack())} after the layer was left")


def _identity(make: Make) -> None:
    _expect("identity", make, _under(make, _program), _POINT**3 + 2 * _POINT)


def _transparent(make: Make) -> None:
    with make():
        made = _program(interp.tensor(_POINT))
    wanted = _POINT**3 + 2 * _POINT
    _expect("transparent", make, _program, wanted)
    _expect("transparent", make, lambda x: made + x, wanted + _POINT)


def _composes(make: Make) -> None:
    for name, (through, wanted) in _BUILT_IN.items():
        _expect(f"composes: the layer inside {name}", make, through(_under(make, _program)), wanted)
        _expect(f"composes: the layer outside {name}", make, _under(make, through(_program)), wanted)


def _error(make: Make) -> None:
    before, planted = list(stack()), _Planted("raised inside the layer")
    try:
        with make():
            _program(interp.tensor(_POINT))
            raise planted
    except _Planted as error:
        if error is not planted:
            _fail("error", make, "another error than the one raised inside came out")
    else:
        _fail("error", make, "the layer swallowed an error raised inside it")
    if list(stack()) != before:
        _fail("error", make, f"the stack was {before}, and is {list(stack())} after an error")
    _expect("error", make, _program, _POINT**3 + 2 * _POINT)


_CHECKS: Mapping[str, Callable[[Make], None]] = {
    "depth": _depth,
    "identity": _identity,
    "transparent": _transparent,
    "composes": _composes,
    "error": _error,
}

LAWS: tuple[str, ...] = tuple(_CHECKS)


def check_transformation(make: Make, laws: Iterable[str] = LAWS) -> None:
    """Check a layer, opened by `with make():`, against `laws`; a layer that changes results leaves some out.

    Laws: "depth", the stack is restored; "identity", results are those without the layer; "transparent", values made
    inside and new ones work after leaving; "composes", right inside and outside of grad, jvp and vmap; "error", what
    is raised inside comes out and the stack stays usable. Raises ConformanceError naming the law that is broken, and
    ValueError for a law that there is not.

    >>> from transformations import no_grad
    >>> check_transformation(no_grad, laws=["depth", "identity", "transparent", "error"])
    """
    for law in laws:
        if law not in _CHECKS:
            raise ValueError(f"there is no law {law!r}; the laws are {', '.join(LAWS)}")
        _CHECKS[law](make)
