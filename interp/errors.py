"""The errors that Lamina raises, and the search for the line of user code they point at.

Every error derives from `InterpError` and from the builtin exception that a user of numpy would catch
for the same mistake, so `except ValueError` keeps working around a shape error.
"""

from __future__ import annotations

import contextlib
import functools
import linecache
import os
import sys
from types import FrameType

import numpy as np
import optree

__all__ = [
    "DTypeError",
    "GradError",
    "IndexOutOfRangeError",
    "InterpError",
    "LeakedValueError",
    "Line",
    "LinearAlgebraError",
    "OperatorError",
    "RuleError",
    "ShapeError",
    "StackError",
    "TraceError",
    "user_line",
]


class InterpError(Exception):
    """Base of everything that Lamina raises on purpose."""


class ShapeError(InterpError, ValueError):
    """Shapes, axes or sizes that an operator cannot take."""


class DTypeError(InterpError, TypeError):
    """A dtype, or a kind of argument, that an operator cannot take."""


class LinearAlgebraError(InterpError, np.linalg.LinAlgError):
    """A matrix that has no answer: singular, not positive definite, or one whose iteration does not converge."""


class IndexOutOfRangeError(InterpError, IndexError):
    """An index outside the axis that it selects from."""


class OperatorError(InterpError, ValueError):
    """An operator given the wrong number of inputs, or parameters that make no sense."""


class RuleError(InterpError, TypeError):
    """A rule (kernel, inference, gradient, ...) is missing, or broke its contract."""


class GradError(InterpError, RuntimeError):
    """Gradients asked for in a way that has no answer: twice, of integers, of a finished scope."""


class TraceError(InterpError, RuntimeError):
    """Recording or replaying a program failed."""


class LeakedValueError(InterpError, RuntimeError):
    """A value outlived the transformation that made it and has no meaning without it."""


class StackError(InterpError, RuntimeError):
    """A transformation was registered, closed or used where the stack does not allow it."""


_HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_ROOMS = tuple(os.path.join(_HOME, room) + os.sep for room in ("interp", "ops", "transformations"))
_GENERATED = ("<lamina", "<attrs", "<frozen", "<__array_function__")
# What stands between user code and Lamina where one calls the other through it.
_BETWEEN = (contextlib.__file__, functools.__file__, *(os.path.dirname(str(m.__file__)) + os.sep for m in (np, optree)))
_LONGEST = 120


def user_frame() -> FrameType | None:
    """The innermost frame that is not inside Lamina's own packages, or None."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(_ROOMS) and not name.startswith(_GENERATED) and not name.startswith(_BETWEEN):
            return frame
        frame = frame.f_back
    return None


class Line:
    """A line of user code; its text is looked up only when it is shown."""

    __slots__ = ("filename", "number")

    def __init__(self, filename: str, number: int) -> None:
        self.filename = filename
        self.number = number

    def __str__(self) -> str:
        if not self.number:
            return self.filename
        text = linecache.getline(self.filename, self.number).strip()
        text = text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
        where = f"{os.path.basename(self.filename)}:{self.number}"
        return f"{where}: {text}" if text else where

    __repr__ = __str__


def user_line() -> Line:
    """The user's own line that led here; prints as `file.py:12: the source text`."""
    frame = user_frame()
    return Line("<unknown>", 0) if frame is None else Line(frame.f_code.co_filename, frame.f_lineno)
