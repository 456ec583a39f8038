"""What runs a program: backends by name, open to user code.

A backend is a function from a program to a `CompiledProgram`. `numpy` is the default.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from weakref import WeakKeyDictionary

from interp import OperatorError, Subgraph
from interp.dispatch import at_bottom

__all__ = ["CompiledProgram", "backend", "compile_program", "default_backend", "register_backend"]


class CompiledProgram:
    """A program made ready to run: call it with a sequence of arrays, get a list of arrays.

    `program` is what is run, after the passes. Calls may overlap.
    """

    def __init__(
        self, program: Subgraph, run: Callable[[Sequence[Any]], list[Any]], source: Callable[[], str] | None = None
    ) -> None:
        self.program = program
        self._source = source
        self._run = run

    @property
    def source(self) -> str:
        """What was generated, as text; "" before that."""
        return "" if self._source is None else self._source()

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        return self._run(inputs)

    def summary(self) -> str:
        """What the program consists of, as text."""
        return f"{len(self.program.exprs)} operators, {len(self.program.inputs)} inputs"


CompileFunction = Callable[[Subgraph], CompiledProgram]
_backends: dict[str, CompileFunction] = {}
_default: ContextVar[str] = ContextVar("lamina_backend", default="numpy")
_compiled: WeakKeyDictionary[Subgraph, dict[str, CompiledProgram]] = WeakKeyDictionary()
_lock = threading.RLock()


def register_backend(name: str, compile_fn: CompileFunction) -> None:
    """Let programs be run by what `compile_fn(program)` makes of them, under this name.

    Raises OperatorError for what is not callable.
    """
    if not callable(compile_fn):
        raise OperatorError(f"a backend is a function from a program to a CompiledProgram, not {compile_fn!r}")
    with _lock:
        _backends[name] = compile_fn


def default_backend() -> str:
    """The name of the backend that programs are run by here, where none was asked for."""
    return _default.get()


@contextmanager
def backend(name: str) -> Iterator[None]:
    """Within the block, programs that name no backend are run by this one. Raises OperatorError for an unknown name.

    >>> with backend("numpy"):
    ...     default_backend()
    'numpy'
    """
    _check(name)
    token = _default.set(name)
    try:
        yield
    finally:
        _default.reset(token)


def _check(name: str) -> None:
    if name not in _backends:
        known = ", ".join(sorted(_backends))
        raise OperatorError(f"there is no backend {name!r}; there are: {known}. register_backend adds one")


def compile_program(program: Subgraph, backend: str | None = None) -> CompiledProgram:
    """The program made ready to run by a backend; the same one again for the same program.

    Raises OperatorError for an unknown backend.

    >>> import interp, ops, numpy as np
    >>> program = interp.record(lambda x: ops.exp(x) * 2.0, interp.Spec((2,), "float32"))
    >>> compile_program(program)([np.zeros(2, np.float32)])
    [array([2., 2.], dtype=float32)]
    """
    name = _default.get() if backend is None else backend
    _check(name)
    with _lock:
        made = _compiled.setdefault(program, {})
        if name not in made:
            made[name] = _backends[name](program)
        return made[name]


def _one_by_one(program: Subgraph) -> CompiledProgram:
    """The plainest backend: the evaluator runs one operator after another."""

    def run(inputs: Sequence[Any]) -> list[Any]:
        with at_bottom():
            return program.run(inputs)

    return CompiledProgram(program, run, lambda: str(program))


register_backend("eager", _one_by_one)
