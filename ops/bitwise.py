"""Integers bit by bit, and the logic of booleans that shares its signs."""

from __future__ import annotations

from typing import Any

import numpy as np

from interp import Tensor
from interp.tensor import call_one, install_sign, syntax

from .elemwise import row

__all__ = [
    "bitwise_and", "bitwise_invert", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor",
]  # fmt: skip

AND = row("AND", np.bitwise_and, [None, None], kinds="biu")
OR = row("OR", np.bitwise_or, [None, None], kinds="biu")
XOR = row("XOR", np.bitwise_xor, [None, None], kinds="biu")
NOT = row("NOT", np.invert, [None], kinds="biu")
SHL = row("SHL", np.left_shift, [None, None], kinds="iu")
SHR = row("SHR", np.right_shift, [None, None], kinds="iu")


def bitwise_and(x1: Any, x2: Any, /) -> Tensor:
    """The bits set in both; for booleans: both. Floats are refused with DTypeError.

    >>> bitwise_and(6, 3)
    tensor(2, dtype=int32)
    """
    return call_one(AND, x1, x2)


def bitwise_or(x1: Any, x2: Any, /) -> Tensor:
    """The bits set in at least one.

    >>> bitwise_or(6, 3)
    tensor(7, dtype=int32)
    """
    return call_one(OR, x1, x2)


def bitwise_xor(x1: Any, x2: Any, /) -> Tensor:
    """The bits set in exactly one.

    >>> bitwise_xor(6, 3)
    tensor(5, dtype=int32)
    """
    return call_one(XOR, x1, x2)


def bitwise_invert(x: Any, /) -> Tensor:
    """The bits that are not set.

    >>> bitwise_invert(0)
    tensor(-1, dtype=int32)
    """
    return call_one(NOT, x)


def bitwise_left_shift(x1: Any, x2: Any, /) -> Tensor:
    """x1 moved x2 bits up.

    >>> bitwise_left_shift(1, 3)
    tensor(8, dtype=int32)
    """
    return call_one(SHL, x1, x2)


def bitwise_right_shift(x1: Any, x2: Any, /) -> Tensor:
    """x1 moved x2 bits down, keeping its sign.

    >>> bitwise_right_shift(-8, 1)
    tensor(-4, dtype=int32)
    """
    return call_one(SHR, x1, x2)


for _sign, _op in {"&": AND, "|": OR, "^": XOR, "<<": SHL, ">>": SHR}.items():
    install_sign(_sign, _op)
syntax.call["__invert__"] = bitwise_invert
