"""The `numpy` backend: a program as straight-line Python that calls numpy.

The first run goes operator by operator, and notes which kernels give exactly what inference says; from the second on
those are called with nothing in between. An element-wise operator writes into an operand that nobody reads after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from interp import Spec, Subgraph, rules
from interp.dispatch import at_bottom
from interp.evaluate import bound_kernel
from interp.subgraph import SHAPE, Expr
from interp.value import Wrapper, spec_of

from ..elemwise import Elemwise
from .backends import CompiledProgram, register_backend

__all__ = ["compile_straight_line", "with_known_shapes"]

ndarray = np.ndarray
_GENERATE_UP_TO = 20_000
_SAFE = frozenset("fdFD?bhilqpBHILQP")


def with_known_shapes(program: Subgraph) -> Subgraph:
    """The same program with the shapes that it was recorded for as constants."""
    constants = dict(program.constants)
    kept = []
    for expr in program.exprs:
        if expr.op is SHAPE and isinstance(program.specs.get(expr.outputs[0]), tuple):
            constants[expr.outputs[0]] = program.specs[expr.outputs[0]]
        else:
            kept.append(expr)
    return Subgraph(program.inputs, constants, kept, program.outputs, program.specs)


class _Line:
    """One expression made ready: `bare` is what may be called for it, once that was seen to conform."""

    __slots__ = ("bare", "dying", "expr", "packed", "specs", "ufunc")

    def __init__(self, program: Subgraph, expr: Expr, dying: tuple[int, ...]) -> None:
        self.expr = expr
        self.dying = dying
        self.specs = [program.specs.get(var) for var in expr.outputs]
        given = [_spec(program, var) for var in expr.inputs]
        self.ufunc = _ufunc(expr, given)
        self.packed = len(self.specs) != 1
        self.bare: Callable[..., Any] | None = self.ufunc or _bare(expr, given, self.specs)

    def first(self, step: Any, args: list[Any]) -> Sequence[Any]:
        """Run by the bare kernel where that gives what inference says; else forget it."""
        if self.bare is not None:
            try:
                result = self.bare(*args)
            except Exception:  # the evaluator says what was wrong
                result = None
            outputs = result if type(result) is tuple else (result,)
            self.packed = type(result) is tuple
            if len(outputs) == len(self.specs) and all(map(_conforms, outputs, self.specs)):
                return outputs
            self.bare = self.ufunc = None
        return step(self.expr.op, args)  # type: ignore[no-any-return]


def _spec(program: Subgraph, var: int) -> Any:
    return spec_of(program.constants[var]) if var in program.constants else program.specs.get(var)


def _has_axes(spec: Any) -> bool:
    return isinstance(spec, Spec) and bool(spec.shape)


def _conforms(output: Any, spec: Any) -> bool:
    if not isinstance(spec, Spec) or spec.weak or not isinstance(output, (ndarray, np.generic)):
        return False
    return output.shape == spec.shape and output.dtype == spec.dtype


def _ufunc(expr: Expr, given: Sequence[Any]) -> Any:
    """The ufunc that an element-wise operator is on operands of one dtype, with floating ones beside numbers."""
    op = expr.op
    if not isinstance(op, Elemwise) or op.row.conditions or not isinstance(op.row.kernel, np.ufunc):
        return None
    arrays = [spec for spec in given if isinstance(spec, Spec) and not spec.weak]
    if not arrays or any(not isinstance(spec, Spec) for spec in given):
        return None
    dtype = arrays[0].dtype
    if dtype.char not in _SAFE or any(spec.dtype != dtype for spec in arrays):
        return None
    if len(arrays) < len(given):
        numbers = [spec for spec in given if spec.weak]
        if not op.row.takes_numbers or dtype.kind != "f" or any(spec.dtype.kind not in "fi" for spec in numbers):
            return None
    return op.row.kernel


def _bare(expr: Expr, given: Sequence[Any], specs: Sequence[Any]) -> Callable[..., Any] | None:
    op = expr.op
    if op.is_program or not op.computes or type(op) not in rules.kernel or None in specs:
        return None
    if any(isinstance(spec, Spec) and spec.weak for spec in given):
        return None
    return bound_kernel(op)


class _StraightLine:
    """A program on its way from its first run, operator by operator, to a generated function."""

    def __init__(self, program: Subgraph) -> None:
        self.program = program
        self.lines = [_Line(program, expr, dying) for expr, dying in program._lines()]
        self.function: Callable[[Sequence[Any]], list[Any]] | None = None
        self.source = ""

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        if any(isinstance(value, Wrapper) for value in inputs):
            with at_bottom():
                return self.program.run(inputs)
        if self.function is not None:
            return self.function(inputs)
        results = self.by_lines(inputs)
        self.function = self.generated() if len(self.lines) <= _GENERATE_UP_TO else self.by_lines
        return results

    def by_lines(self, inputs: Sequence[Any]) -> list[Any]:
        """Run one prepared line after another."""
        program = self.program
        step = _evaluate
        env: list[Any] = [None] * program.size
        for var, value in program.constants.items():
            env[var] = value
        for var, value in zip(program.inputs, inputs, strict=True):
            env[var] = value
        for line in self.lines:
            results = line.first(step, [env[var] for var in line.expr.inputs])
            for var, value in zip(line.expr.outputs, results, strict=True):
                env[var] = value
            for var in line.dying:
                env[var] = None
        return [env[var] for var in program.outputs]

    def generated(self) -> Callable[[Sequence[Any]], list[Any]]:
        """The same as one Python function."""
        program = self.program
        names: dict[str, Any] = {"step": _evaluate}
        names.update({f"v{var}": value for var, value in program.constants.items()})
        text = ["def run(inputs):", f" ({''.join(f'v{var}, ' for var in program.inputs)}) = inputs"]
        buffers = self.buffers()
        local = {*program.inputs, *(var for line in self.lines for var in line.expr.outputs)}
        for i, line in enumerate(self.lines):
            args = ", ".join(f"v{var}" for var in line.expr.inputs)
            left = ", ".join(f"v{var}" for var in line.expr.outputs)
            comma = "," if args else ""
            taken = None
            if line.bare is None:
                names[f"op{i}"] = line.expr.op
                made = f"({left},) = step(op{i}, ({args}{comma}))"
            else:
                names[f"f{i}"] = line.bare
                taken = next((v for v in line.dying if v in buffers and self.fits(line, v)), None)
                made = f"{left}{',' if line.packed else ''} = f{i}({args}{'' if taken is None else f', out=v{taken}'})"
            dead = [f"v{var}" for var in line.dying if var in local and var != taken]
            if taken is not None:
                dead.append(f"v{taken}")
            text.append(f" {made}" + (f"; {' = '.join(dead)} = None" if dead else ""))
        text.append(f" return [{', '.join(f'v{var}' for var in program.outputs)}]")
        self.source = "\n".join(text)
        exec(compile(self.source, "<lamina program>", "exec"), names)
        return names["run"]  # type: ignore[no-any-return]

    def buffers(self) -> set[int]:
        """The variables whose arrays are made by ufuncs and read by nothing else, so that nobody else holds them."""
        made = {line.expr.outputs[0] for line in self.lines if line.ufunc is not None and _has_axes(line.specs[0])}
        for line in self.lines:
            if line.ufunc is None:
                made.difference_update(line.expr.inputs)
        return made.difference(self.program.outputs)

    def fits(self, line: _Line, var: int) -> bool:
        """Whether the result of an element-wise line can be written over `var`."""
        if line.ufunc is None or var not in line.expr.inputs:
            return False
        spec = self.program.specs.get(var)
        return bool(spec == line.specs[0])


def _evaluate(op: Any, args: Sequence[Any]) -> Sequence[Any]:
    from interp.dispatch import deliver

    with at_bottom():
        return deliver(op, args)


def compile_straight_line(program: Subgraph) -> CompiledProgram:
    """The program as straight-line Python that calls numpy: what it gives is bit for bit what eager evaluation gives.

    >>> import interp, ops
    >>> program = interp.record(lambda x: ops.exp(x) * 2.0, interp.Spec((2,), "float32"))
    >>> run = compile_straight_line(program)
    >>> run([np.zeros(2, np.float32)]), run([np.zeros(2, np.float32)])
    ([array([2., 2.], dtype=float32)], [array([2., 2.], dtype=float32)])
    """
    ready = with_known_shapes(program).without_dead_code()
    run = _StraightLine(ready)
    return CompiledProgram(ready, run, lambda: run.source)


register_backend("numpy", compile_straight_line)
