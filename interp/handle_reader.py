"""A layer that says what handles refer to, so that it knows which of them a piece of code read or rebound."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from .dispatch import Handle, Level, Transformation, read_at

__all__ = ["HandleReader"]


class HandleReader(Transformation):
    """A layer that is asked whenever code above it reads or rebinds a handle, or takes a snapshot of a host array.

    `below` is the level below the layer: what is asked there is what the layer's own caller would have seen.
    """

    reads_handles: ClassVar[bool] = True

    def read_handle(self, handle: Handle, below: Level) -> Any:
        """The value that `handle` refers to."""
        return read_at(below, handle)

    def rebind_handle(self, handle: Handle, value: Any, below: Level) -> None:
        """Make `handle` refer to `value`."""
        rebind_at(below, handle, value)

    def read_array(self, array: Any, below: Level) -> Any:
        """The value of a host array that the caller may change later."""
        return read_array_at(below, array)

    def read_gradient(self, handle: Any, below: Level) -> Any:
        """The handle that `handle.grad` is, or None."""
        return gradient_at(below, handle)

    def write_gradient(self, handle: Any, gradient: Any, below: Level) -> None:
        """Make `handle.grad` another handle, or None."""
        write_gradient_at(below, handle, gradient)


def rebind_at(level: Level, handle: Handle, value: Any) -> None:
    """Rebind for code whose operators go to `level`."""
    reader = level.reader
    if reader is None:
        handle._value = value
    else:
        reader.layer.rebind_handle(handle, value, reader.below)  # type: ignore[attr-defined]


def read_array_at(level: Level, array: Any) -> Any:
    """The value of a host array for code whose operators go to `level`: a snapshot, where no layer keeps track."""
    reader = level.reader
    if reader is None:
        return np.array(array)
    return reader.layer.read_array(array, reader.below)  # type: ignore[attr-defined]


def gradient_at(level: Level, handle: Any) -> Any:
    """What `handle.grad` is for code whose operators go to `level`."""
    reader = level.reader
    if reader is not None:
        return reader.layer.read_gradient(handle, reader.below)  # type: ignore[attr-defined]
    try:
        return handle._grad
    except AttributeError:
        return None


def write_gradient_at(level: Level, handle: Any, gradient: Any) -> None:
    """Set `handle.grad` for code whose operators go to `level`."""
    reader = level.reader
    if reader is None:
        handle._grad = gradient
    else:
        reader.layer.write_gradient(handle, gradient, reader.below)  # type: ignore[attr-defined]
