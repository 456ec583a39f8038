"""An operator of your own: four rules, and it can be differentiated twice (and more).

Run it: python examples/your_own_operator.py
"""

from typing import Any

import attrs
import numpy as np

import interp
import ops
from interp import rules
from transformations import grad


@attrs.frozen
class Wave(interp.OpDef):
    """sin(frequency * x), element by element. What is fixed for one use is a field; what varies is an input."""

    frequency: float


@rules.infer.register(Wave)
def infer(op: Wave, x: interp.Spec) -> interp.Spec:
    """Shape and dtype of the output, without data."""
    if x.dtype.kind != "f":
        raise interp.DTypeError(f"Wave takes floats, not {x.dtype}")
    return interp.Spec(x.shape, x.dtype)


@rules.kernel.register(Wave)
def kernel(op: Wave, x: Any) -> Any:
    """The numbers, on numpy."""
    return np.sin(op.frequency * x)


@rules.vjp.register(Wave)
def vjp(op: Wave, inputs: Any, outputs: Any, cotangents: Any) -> Any:
    """The gradient: a program of operators, so that it can be differentiated in turn."""
    return [cotangents[0] * op.frequency * ops.cos(op.frequency * inputs[0])]


@rules.jvp.register(Wave)
def jvp(op: Wave, inputs: Any, outputs: Any, tangents: Any) -> Any:
    """The tangent, for forward mode."""
    return [tangents[0] * op.frequency * ops.cos(op.frequency * inputs[0])]


def wave(x: Any, frequency: float) -> interp.Tensor:
    """The function that users call."""
    return interp.apply(Wave(frequency), x)[0]


def main() -> None:
    x = interp.tensor(0.5, dtype="float64")
    first = grad(lambda t: wave(t, 3.0))
    second = grad(first)
    print(f"wave    {wave(x, 3.0).item():+.6f}   sin(1.5)    = {np.sin(1.5):+.6f}")
    print(f"wave'   {first(x).item():+.6f}   3 cos(1.5)  = {3 * np.cos(1.5):+.6f}")
    print(f"wave''  {second(x).item():+.6f}   -9 sin(1.5) = {-9 * np.sin(1.5):+.6f}")
    assert np.isclose(second(x).item(), -9 * np.sin(1.5))

    try:
        wave(interp.tensor([1, 2]), 3.0)
    except interp.DTypeError as error:
        print("an error names the operator:", error)


if __name__ == "__main__":
    main()
