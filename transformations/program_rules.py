"""How a program that is called as one operator is differentiated: as two programs, one forward and one back.

The program and its gradient are recorded together; what needs no output gradient is the forward program, the rest the
backward one, and what the second reads of the first is kept in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from interp import Spec, Subgraph
from interp.dispatch import deliver
from interp.dtypes import is_floating
from interp.operator import memo
from interp.recorder import record_flat
from interp.subgraph import Expr
from interp.tensor import from_value
from interp.value import settle, spec_of
from ops.programs.call import Call, specs_of_outputs
from ops.programs.straight_line import with_known_shapes

from .custom_call import zeros_of
from .grad_transformation import register_grad_rule
from .gradient import vjp
from .tape import CustomBackward, OutputAttr

__all__ = ["JointProgram"]


class JointProgram:
    """A program and its gradient by the inputs of `wanted`, split into what runs forward and what runs back.

    `forward` gives the outputs and then what is kept; `backward` takes that and a gradient for each floating output.
    """

    def __init__(self, op: Call, wanted: Sequence[bool]) -> None:
        program = op.program
        specs = [program.specs[var] for var in program.inputs]
        moving = [i for i, needs in enumerate(wanted) if needs]
        outputs: list[Any] = []
        floating: list[int] = []

        def body(values: list[Any]) -> list[Any]:
            given, rest = values[: len(specs)], values[len(specs) :]

            def run(*moved: Any) -> tuple[Any, ...]:
                arguments = list(given)
                for i, x in zip(moving, moved, strict=True):
                    arguments[i] = x._value
                results = program.run(arguments)
                outputs[:] = results
                return tuple(from_value(results[i]) for i in floating)

            _, pull = vjp(run, *[from_value(given[i]) for i in moving])
            gradients = pull(tuple(map(from_value, rest)))
            return [*map(settle, outputs), *(settle(g._value) for g in gradients)]

        known = specs_of_outputs(program)
        floating[:] = [i for i, spec in enumerate(known) if isinstance(spec, Spec) and is_floating(spec.dtype)]
        self.floating = floating
        self.outputs = known
        cotangents = [Spec(known[i].shape, known[i].dtype) for i in floating]
        joint, _ = record_flat(body, [*specs, *cotangents])
        self._split(op, joint, len(specs), len(program.outputs))

    def _split(self, op: Call, joint: Subgraph, n_inputs: int, n_outputs: int) -> None:
        joint = with_known_shapes(joint)
        cotangents = joint.inputs[n_inputs:]
        late = set(cotangents)
        forward: list[Expr] = []
        backward: list[Expr] = []
        for expr in joint.exprs:
            if late.intersection(expr.inputs):
                late.update(expr.outputs)
                backward.append(expr)
            else:
                forward.append(expr)
        results, gradients = joint.outputs[:n_outputs], joint.outputs[n_outputs:]
        read = dict.fromkeys([*(var for expr in backward for var in expr.inputs), *gradients])
        kept = [var for var in read if var not in late and var not in joint.constants]
        label = op.label or "program"
        first = Subgraph(
            joint.inputs[:n_inputs], joint.constants, forward, [*results, *kept], joint.specs
        ).without_dead_code()
        second = Subgraph(
            [*kept, *cotangents], joint.constants, backward, gradients, joint.specs
        ).without_dead_code()
        self.forward = Call(first, f"{label}, forward", op.backend)
        self.backward = Call(second, f"{label}, backward", op.backend)


def _zeros(spec: Spec) -> Any:
    return zeros_of((spec.shape, spec.dtype))


def _differentiate(
    op: Call, inputs: Sequence[Any], wanted: Sequence[bool], backward: CustomBackward
) -> Sequence[Any] | None:
    specs = [spec_of(value) for value in inputs]
    mask = [
        needs and isinstance(spec, Spec) and is_floating(spec.dtype)
        for needs, spec in zip(wanted, specs, strict=True)
    ]
    found = memo(op).programs
    key = ("joint", tuple(mask))
    joint = found.get(key)
    if joint is None:
        joint = JointProgram(op, mask)
        memo(op).remember(key, joint)
    count = len(op.program.outputs)
    results = deliver(joint.forward, inputs)
    outputs, kept = results[:count], list(results[count:])

    def run(cotangents: Sequence[Any]) -> list[Any]:
        given = [_zeros(joint.outputs[i]) if cotangents[i] is None else cotangents[i] for i in joint.floating]
        gradients = iter(deliver(joint.backward, [*kept, *given]))
        return [next(gradients) if needs else None for needs in mask]

    backward.op_name = op.label or "Call"
    backward.backward = run
    backward.input_has_grads = mask
    backward.output_attrs = [OutputAttr(i in joint.floating) for i in range(count)]
    return outputs


register_grad_rule(Call, _differentiate)
