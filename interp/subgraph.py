"""Programs as data: a `Subgraph` is a straight line of operators over numbered variables (SSA)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from .basic import GetAttr
from .dispatch import Handle, Level, current_level, read
from .errors import OperatorError, RuleError
from .operator import Operator
from .position import local
from .value import Spec, Wrapper, settle, shape_of, short

__all__ = ["Expr", "Subgraph"]

ndarray = np.ndarray
_GENERATE_UP_TO = 40
_LINES_BEFORE = 3
Step = Callable[[Operator, Sequence[Any]], Sequence[Any]]
SHAPE = GetAttr(GetAttr.Attr.SHAPE)


def _shape_of(value: Any) -> tuple[Any]:
    return (value.symbolic_shape() if isinstance(value, Wrapper) else shape_of(value),)


def _check_count(expr: Expr, results: Sequence[Any]) -> None:
    if len(results) != len(expr.outputs):
        raise RuleError(f"{expr.op!r} gave {len(results)} outputs where the program has {len(expr.outputs)}")


class Expr:
    """One operator applied to variables, giving variables."""

    __slots__ = ("inputs", "op", "outputs")

    def __init__(self, op: Operator, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        self.op = SHAPE if type(op) is GetAttr and op == SHAPE else op  # told by identity below
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)

    def __reduce__(self) -> Any:
        return Expr, (self.op, self.inputs, self.outputs)

    def __repr__(self) -> str:
        return _written(_names(self.outputs), self)


class Subgraph:
    """A program: input variables, constants, expressions in order, output variables.

    Immutable once made. `specs` tells what is known of each variable (for printing and for the passes).

    >>> import interp, ops
    >>> program = interp.record(lambda x: ops.exp(x) * x, interp.Spec((3,), "float32"))
    >>> print(program)
    program(%0: float32[3]) {
      %1: float32[3] = Elemwise(mode='EXP') %0
      %2: float32[3] = Elemwise(mode='MUL') %1 %0
      return %2
    }
    """

    __slots__ = (
        "__weakref__", "_function", "_runs", "captures", "constants", "exprs", "inputs", "outputs", "size", "specs",
    )  # fmt: skip

    def __init__(
        self,
        inputs: Sequence[int],
        constants: Mapping[int, Any],
        exprs: Sequence[Expr],
        outputs: Sequence[int],
        specs: Mapping[int, Any] | None = None,
    ) -> None:
        self.inputs = tuple(inputs)
        self.constants = dict(constants)
        # Whether a constant is some layer's value: then no layer may be passed by, whatever the inputs are.
        self.captures = any(isinstance(value, Wrapper) for value in self.constants.values())
        self.exprs = tuple(exprs)
        self.outputs = tuple(outputs)
        self.specs = dict(specs or {})
        self.size = 1 + max(
            [-1, *self.inputs, *self.constants, *self.outputs, *(v for e in self.exprs for v in e.inputs + e.outputs)]
        )
        self._function: Callable[[Step, Sequence[Any]], list[Any]] | None = None
        self._runs = 0

    @property
    def empty(self) -> bool:
        """Whether the program computes nothing and returns nothing."""
        return not self.exprs and not self.outputs

    def validate(self) -> Subgraph:
        """Check that every variable is defined once, before it is used. Raises OperatorError; returns itself."""
        defined: set[int] = set()
        for var in (*self.inputs, *self.constants, *(var for expr in self.exprs for var in expr.outputs)):
            if var < 0:
                raise OperatorError(f"%{var}: variables are numbered from 0")
        for var in (*self.inputs, *self.constants):
            if var in defined:
                raise OperatorError(f"%{var} is defined twice")
            defined.add(var)
        for index, expr in enumerate(self.exprs):
            if not isinstance(expr.op, Operator):
                raise OperatorError(f"expression {index}: {expr.op!r} is not an Operator")
            for var in expr.inputs:
                if var not in defined:
                    raise OperatorError(f"expression {index} ({expr!r}) uses %{var} before it is defined")
            for var in expr.outputs:
                if var in defined:
                    raise OperatorError(f"expression {index} ({expr!r}) defines %{var} a second time")
                defined.add(var)
        for var in self.outputs:
            if var not in defined:
                raise OperatorError(f"the program returns %{var}, which nothing defines")
        return self

    def _lines(self) -> list[tuple[Expr, tuple[int, ...]]]:
        """The expressions with, for each, the variables that nobody reads after it."""
        kept = set(self.outputs)
        lines = []
        for expr in reversed(self.exprs):
            dying = tuple(var for var in dict.fromkeys(expr.inputs + expr.outputs) if var not in kept)
            kept.update(dying)
            lines.append((expr, dying))
        lines.reverse()
        return lines

    def _interpreted(self) -> Callable[[Step, Sequence[Any]], list[Any]]:
        """A function that runs the program in a loop: for programs of any length."""
        lines = self._lines()

        def run(step: Step, inputs: Sequence[Any]) -> list[Any]:
            env: list[Any] = [None] * self.size
            for var, value in self.constants.items():
                env[var] = value
            for var, value in zip(self.inputs, inputs, strict=True):
                env[var] = value
            for expr, dying in lines:
                args = [env[var] for var in expr.inputs]
                for var in dying:
                    env[var] = None
                results = _shape_of(args[0]) if expr.op is SHAPE else step(expr.op, args)
                _check_count(expr, results)
                for var, value in zip(expr.outputs, results, strict=True):
                    env[var] = value
                for var in dying:
                    env[var] = None
            return [env[var] for var in self.outputs]

        return run

    def _generated(self) -> Callable[[Step, Sequence[Any]], list[Any]]:
        """The same as straight-line Python, made once: for short programs, run often."""
        names: dict[str, Any] = {"shape_of": _shape_of}
        names.update({f"v{var}": value for var, value in self.constants.items()})
        text = ["def run(step, inputs):"]
        names_in = "".join(f"v{var}, " for var in self.inputs)
        text.append(f" ({names_in}) = inputs")
        local = set(self.inputs)
        for i, (expr, dying) in enumerate(self._lines()):
            args = ", ".join(f"v{var}" for var in expr.inputs)
            left = "".join(f"v{var}, " for var in expr.outputs)
            if expr.op is SHAPE:
                line = f" ({left}) = shape_of({args})"
            else:
                names[f"op{i}"] = expr.op
                call = f"step(op{i}, ({args}{',' if args else ''}))"
                line = f" ({left}) = {call}"
            local.update(expr.outputs)
            dead = [f"v{var}" for var in dying if var in local]
            text.append(f"{line}; {' = '.join(dead)} = None" if dead else line)
        text.append(f" return [{', '.join(f'v{var}' for var in self.outputs)}]")
        exec(compile("\n".join(text), f"<lamina {self!r}>", "exec"), names)
        return names["run"]  # type: ignore[no-any-return]

    def run(self, values: Sequence[Any]) -> list[Any]:
        """Run on values, each operator through the current stack; returns values. Frees what is read no more."""
        return self.run_at(current_level(), values)

    def run_at(self, level: Level, values: Sequence[Any]) -> list[Any]:
        """`run` for somebody who knows where in the stack the thread is: at `level`."""
        function = self._function or self._choose(len(values))
        try:
            if self.captures:
                return function(level.deliver, values)
            for value in values:
                if type(value) is not ndarray and isinstance(value, Wrapper):
                    break
            else:  # layers that only care for their wrappers need not be asked
                level = level.plain
                if level.below is None and level.observer is None:
                    return function(level.layer.apply_transformation, values)
                return function(partial(level.handle, local.thread), values)
            return function(partial(level.handle, local.thread), [settle(value) for value in values])
        except ValueError as error:
            self._explain(error, len(values))
            raise

    def _explain(self, error: ValueError, given: int) -> None:
        """Say whose fault a wrong count was, where that is what the error is about."""
        self._check_inputs(given)
        last = error.__traceback__
        while last is not None and last.tb_next is not None:
            last = last.tb_next
        if last is not None and last.tb_frame.f_code is getattr(self._function, "__code__", None):
            expr = self.exprs[last.tb_lineno - _LINES_BEFORE]  # the generated function has a line for each
            raise RuleError(f"{expr.op!r} gave more or fewer outputs than the program's {len(expr.outputs)}") from None

    def _check_inputs(self, given: int) -> None:
        if given != len(self.inputs):
            raise OperatorError(f"the program takes {len(self.inputs)} inputs, not {given}")

    def _choose(self, given: int) -> Callable[[Step, Sequence[Any]], list[Any]]:
        """Loop over the program, or generate a function of it where that will pay."""
        self._check_inputs(given)
        self._runs += 1
        if self._runs <= 2 and len(self.exprs) <= _GENERATE_UP_TO:
            return self._interpreted()
        self._function = self._generated() if len(self.exprs) <= _GENERATE_UP_TO else self._interpreted()
        return self._function

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        """Run through the current stack; Tensors in, Tensors out, values in, values out."""
        from .tensor import from_value

        handles = any(isinstance(value, Handle) for value in inputs)
        results = self.run([read(value) if isinstance(value, Handle) else value for value in inputs])
        return tuple(map(from_value, results)) if handles else tuple(results)

    def replace(self, exprs: Sequence[Expr], outputs: Sequence[int] | None = None) -> Subgraph:
        """The same program with other expressions, and constants that nobody reads dropped."""
        outputs = self.outputs if outputs is None else outputs
        used = {var for expr in exprs for var in expr.inputs} | set(outputs)
        constants = {var: value for var, value in self.constants.items() if var in used}
        return Subgraph(self.inputs, constants, exprs, outputs, self.specs)

    def without_dead_code(self) -> Subgraph:
        """The same program without expressions whose results nobody reads."""
        used = set(self.outputs)
        kept: list[Expr] = []
        for expr in reversed(self.exprs):
            if used.intersection(expr.outputs):
                used.update(expr.inputs)
                kept.append(expr)
        return self.replace(kept[::-1])

    def map_values(self, change: Callable[[Any], Any]) -> Subgraph:
        """The same program with every constant passed through `change`."""
        constants = {var: change(value) for var, value in self.constants.items()}
        return Subgraph(self.inputs, constants, self.exprs, self.outputs, self.specs)

    def __reduce__(self) -> Any:
        return Subgraph, (self.inputs, self.constants, self.exprs, self.outputs, self.specs)

    def __str__(self) -> str:
        def typed(var: int) -> str:
            return f"%{var}: {self.specs[var]!r}" if isinstance(self.specs.get(var), Spec) else f"%{var}"

        lines = [f"program({', '.join(map(typed, self.inputs))}) {{"]
        lines += [f"  {typed(var)} = constant {short(value)}" for var, value in self.constants.items()]
        for expr in self.exprs:
            lines.append(f"  {_written(', '.join(map(typed, expr.outputs)), expr)}")
        lines.append(f"  return {_names(self.outputs)}".rstrip())
        return "\n".join([*lines, "}"])

    def __repr__(self) -> str:
        return f"<program: {len(self.inputs)} inputs, {len(self.exprs)} operators>"


def _written(outputs: str, expr: Expr) -> str:
    return f"{outputs}{' = ' if outputs else ''}{expr.op!r} {_names(expr.inputs)}".rstrip()


def _names(variables: Sequence[int]) -> str:
    return " ".join(f"%{var}" for var in variables)
