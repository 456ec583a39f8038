"""What a trace holds: the sequence of operators, and what is known of each variable."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from interp import Expr, Subgraph
from interp.value import short

__all__ = ["TraceResult", "TraceVar", "VarKind"]


class VarKind(enum.Enum):
    """Where a variable comes from: from outside at each run, from the record, or from an operator of the trace."""

    EXTERNAL = "external"
    CONSTANT = "constant"
    INTERNAL = "internal"


class TraceVar:
    """One variable of a trace.

    `shape_required`, `data_required` and `value_required` say what of it was asked for while it was traced: by code
    that reads the array, or (`value_required`) by code that reads or branches on it. `mark` and `name` are what the
    traced code called it, `bound` is the data of a constant and `read` the data that was read.
    """

    __slots__ = (
        "bound", "data_required", "kind", "mark", "name", "read", "read_at", "shape_required", "spec", "value_required",
    )  # fmt: skip

    def __init__(self, kind: VarKind, spec: Any, bound: Any = None) -> None:
        self.kind = kind
        self.spec = spec
        self.bound = bound
        self.mark = ""
        self.name = ""
        self.shape_required = False
        self.data_required = False
        self.value_required = False
        self.read: Any = None
        self.read_at = ""

    def __repr__(self) -> str:
        flags = [what for what in ("shape", "data", "value") if getattr(self, f"{what}_required")]
        called = [f"{what} {text!r}" for what, text in (("mark", self.mark), ("name", self.name)) if text]
        bound = [f"= {short(self.bound)}"] if self.kind is VarKind.CONSTANT else []
        needs = [f"{'/'.join(flags)} required"] if flags else []
        return ", ".join([f"{self.kind.value} {self.spec!r}", *bound, *called, *needs])


class TraceResult:
    """A finished trace: `seq` holds the operators in order, `vars` what is known of each variable by number.

    >>> import interp, ops
    >>> from transformations import TracingTransformation
    >>> with TracingTransformation() as tracing:
    ...     x = tracing.external(interp.tensor([1.0, 2.0]), mark="x")
    ...     y = ops.exp(x)
    ...     result = tracing.result([y])
    >>> print(result)
    trace {
      %0: external float32[2], mark 'x'
      %1: internal float32[2]
      %1 = Elemwise(mode='EXP') %0
      return %1
    }
    """

    def __init__(self, seq: Sequence[Expr], variables: Sequence[TraceVar], outputs: Sequence[int]) -> None:
        self.seq = tuple(seq)
        self.vars = tuple(variables)
        self.outputs = tuple(outputs)

    def inputs(self) -> list[int]:
        """The external variables, in the order in which they came."""
        return [i for i, var in enumerate(self.vars) if var.kind is VarKind.EXTERNAL]

    def marked(self, mark: str) -> int:
        """The variable with this mark. Raises KeyError where there is none."""
        for i, var in enumerate(self.vars):
            if var.mark == mark:
                return i
        raise KeyError(mark)

    def program(self, inputs: Sequence[int] | None = None, outputs: Sequence[int] | None = None) -> Subgraph:
        """The trace as a program from these variables (all external ones) to these (those that it returned)."""
        constants = {i: var.bound for i, var in enumerate(self.vars) if var.kind is VarKind.CONSTANT}
        specs = {i: var.spec for i, var in enumerate(self.vars)}
        given = self.inputs() if inputs is None else inputs
        wanted = self.outputs if outputs is None else outputs
        return Subgraph(given, constants, self.seq, wanted, specs).without_dead_code()

    def __str__(self) -> str:
        lines = [f"  %{i}: {var!r}" for i, var in enumerate(self.vars)]
        lines += [f"  {expr!r}" for expr in self.seq]
        lines.append(f"  return {' '.join(f'%{var}' for var in self.outputs)}".rstrip())
        return "\n".join(["trace {", *lines, "}"])
