"""`Call`: a program as one operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import attrs
import numpy as np

from interp import DTypeError, OpDef, OperatorError, ShapeError, Spec, Subgraph, rules
from interp.evaluate import infer as infer_operator
from interp.value import Wrapper, short, spec_of

from .backends import compile_program

__all__ = ["Call", "check_inputs", "specs_of_outputs"]

ndarray = np.ndarray


@attrs.frozen(eq=False)
class Call(OpDef):
    """Run a program on the inputs; its outputs are the outputs.

    A layer that knows nothing of programs sees each of its operators; at the bottom it runs compiled, by `backend`
    or the one in use there. `label` is how errors call it.
    """

    is_program: ClassVar[bool] = True
    checks_first: ClassVar[bool] = False
    keeps_weak: ClassVar[bool] = True

    program: Subgraph
    label: str = ""
    backend: str | None = None

    def inline(self, inputs: Sequence[Any]) -> Sequence[Any]:
        return self.program.run(inputs)


def check_inputs(program: Subgraph, given: Sequence[Any], label: str = "") -> None:
    """Raise where inputs with these Specs are not what the program was recorded for: Shape-, DType-, OperatorError."""
    what = f"the program {label}" if label else "the program"
    if len(given) != len(program.inputs):
        raise OperatorError(f"{what} takes {len(program.inputs)} inputs, not {len(given)}")
    for i, (var, spec) in enumerate(zip(program.inputs, given, strict=True)):
        wanted = program.specs.get(var)
        if wanted is None or wanted == spec:
            continue
        if not isinstance(wanted, Spec) or not isinstance(spec, Spec):
            raise ShapeError(f"input {i} of {what} is {wanted!r}, not {short(spec)}")
        if wanted.shape != spec.shape:
            raise ShapeError(f"input {i} of {what} has shape {wanted.shape}, not {spec.shape}; record it anew for that")
        raise DTypeError(f"input {i} of {what} is {wanted!r}, not {spec!r}; record it anew for that")


def specs_of_outputs(program: Subgraph) -> tuple[Any, ...]:
    """The Specs of the outputs; inferred, where the program does not know them."""
    if all(var in program.specs for var in program.outputs):
        return tuple(program.specs[var] for var in program.outputs)
    specs = dict(program.specs)
    specs.update({var: spec_of(value) for var, value in program.constants.items()})
    for expr in program.exprs:
        found = infer_operator(expr.op, [specs[var] for var in expr.inputs])
        specs.update(zip(expr.outputs, found, strict=True))
    return tuple(specs[var] for var in program.outputs)


@rules.infer.register(Call)
def _infer(op: Call, *specs: Any) -> tuple[Spec, ...]:
    check_inputs(op.program, specs, op.label)
    return specs_of_outputs(op.program)


@rules.kernel.register(Call, per_operator=True)
def _kernel(op: Call) -> Callable[..., Any]:
    program, backend, label = op.program, op.backend, op.label
    specs = [program.specs.get(var) for var in program.inputs]
    wanted = [(s.shape, s.dtype) if isinstance(s, Spec) and not s.weak else (None, None) for s in specs]
    count = len(wanted)
    all_arrays = (None, None) not in wanted

    def run(*inputs: Any) -> tuple[Any, ...]:
        if len(inputs) != count:
            check_inputs(program, [None] * len(inputs), label)
        found = [(value.shape, value.dtype) if type(value) is ndarray else (None, None) for value in inputs]
        if not all_arrays or found != wanted:
            if any(isinstance(value, Wrapper) for value in inputs):
                raise TypeError("not an array")  # the evaluator takes it apart and tries again
            check_inputs(program, [spec_of(value) for value in inputs], label)
        return tuple(compile_program(program, backend)(inputs))

    return run
