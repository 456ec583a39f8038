"""Samples of inverses, systems, determinants and factorisations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from interp import OpDef
from ops.linalg.decompositions import QR, SVD, Cholesky, Eigh, SingularValues
from ops.linalg.solving import Cofactors, Det, Inverse, PseudoInverse, SlogDet, Solve


def samples() -> Iterator[tuple[OpDef, tuple[Any, ...]]]:
    rng = np.random.default_rng(0)

    def x(*shape: int) -> Any:
        return rng.uniform(-1, 1, shape)

    def square(*shape: int) -> Any:
        return x(*shape, shape[-1]) + 2 * np.eye(shape[-1])

    for op in (Inverse(), Det(), Cofactors(), SlogDet()):
        yield op, (square(3),)
        yield op, (square(2, 2),)
        yield op, (square(1),)
        yield op, (-square(3),)
        yield op, (square(0, 2),)
    for flag in (False, True):
        yield Solve(flag), (square(3), x(3, 2))
        yield Solve(flag), (square(2, 3), x(3, 1))
        yield Solve(flag), (square(3), x(2, 3, 2))
        yield Solve(flag), (square(2, 1, 2), x(3, 2, 2))
    for shape in ((4, 3), (3, 4), (3, 3), (2, 3, 2)):
        yield PseudoInverse(1e-6), (x(*shape),)
        yield SingularValues(), (x(*shape),)
        yield SVD(), (x(*shape),)
    yield SVD(True), (x(3, 3),)
    for shape in ((4, 3), (3, 3), (2, 3, 2)):
        yield QR(), (x(*shape),)
    yield QR(True), (x(3, 3),)
    for n in (1, 3):
        a = x(2, n, n)
        yield Cholesky(), (a @ a.swapaxes(-1, -2) + np.eye(n),)
        yield Eigh(), (a + a.swapaxes(-1, -2) + 3 * np.diag(np.arange(n)),)
    yield Eigh(), (x(3, 3),)
