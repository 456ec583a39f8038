"""Where in the stack the current thread is: None outside of any `apply`."""

from __future__ import annotations

import threading
from typing import Any

__all__ = ["Thread", "local"]


class Thread:
    """The state of one thread: its position in the stack, while a layer is at work."""

    __slots__ = ("position",)

    def __init__(self) -> None:
        self.position: Any = None


class _Local(threading.local):
    def __init__(self) -> None:
        self.thread = Thread()


local = _Local()
