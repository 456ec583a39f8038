"""Samples of matrix and tensor products."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from interp import OpDef
from ops.einsum import Einsum
from ops.matmul import MatrixMul, TensorDot


def samples() -> Iterator[tuple[OpDef, tuple[Any, ...]]]:
    rng = np.random.default_rng(0)

    def x(*shape: int) -> Any:
        return rng.uniform(-1, 1, shape)

    for ta in (False, True):
        for tb in (False, True):

            def a(*shape: int, flip: bool = ta) -> Any:
                made = x(*shape)
                return made.swapaxes(-1, -2) if flip and made.ndim > 1 else made

            def b(*shape: int, flip: bool = tb) -> Any:
                made = x(*shape)
                return made.swapaxes(-1, -2) if flip and made.ndim > 1 else made

            op = MatrixMul(ta, tb)
            yield op, (a(2, 3), b(3, 4))
            yield op, (a(5, 2, 3), b(5, 3, 4))
            yield op, (a(5, 2, 3), b(3, 4))
            yield op, (a(2, 3), b(5, 3, 4))
            yield op, (a(2, 1, 2, 3), b(5, 3, 1))
            yield op, (a(3), b(3, 2))
            yield op, (a(2, 3), b(3))
            yield op, (a(3), b(2, 3, 4))
            yield op, (a(2, 2, 3), b(3))
            yield op, (a(3), b(3))
            yield op, (a(2, 0), b(0, 3))
            yield op, (a(0, 2, 3), b(3, 4))
    yield MatrixMul(), (np.arange(6).reshape(2, 3), np.arange(3))
    yield MatrixMul(), (np.arange(6).reshape(2, 3), x(3, 2))
    yield MatrixMul(), (np.ones((2, 2), bool), np.ones((2, 2), bool))
    yield TensorDot((1,), (0,)), (x(2, 3), x(3, 4))
    yield TensorDot((0, 2), (2, 1)), (x(2, 3, 4), x(5, 4, 2))
    yield TensorDot((), ()), (x(2, 3), x(2))
    yield TensorDot((1, 0), (0, 1)), (x(2, 3), x(3, 2))
    yield TensorDot((0,), (0,)), (np.arange(3), x(3, 2))
    yield Einsum(("ij", "jk"), "ik"), (x(2, 3), x(3, 4))
    yield Einsum(("ij",), "i"), (x(2, 3),)
    yield Einsum(("ij",), "ji"), (x(2, 3),)
    yield Einsum(("ij", "ij"), ""), (x(2, 3), x(2, 3))
    yield Einsum(("ij", "ij"), "ij"), (x(2, 3), x(2, 3))
    yield Einsum(("ij", "ik"), "j"), (x(2, 3), x(2, 4))
    yield Einsum(("ij", "jk", "kl"), "li"), (x(2, 3), x(3, 4), x(4, 2))
    yield Einsum(("", "i"), "i"), (x(), x(3))
    yield Einsum(("ij", "j"), "i"), (np.arange(6).reshape(2, 3), x(3))
