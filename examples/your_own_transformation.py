"""A transformation of your own in twenty lines: a counter, stacked above and below Grad.

Run it: python examples/your_own_transformation.py
"""

from collections import Counter

import interp
import ops
from transformations import Grad


class Count(interp.Transformation):
    """Counts the computing operators that come past. It wraps nothing, so every value passes through it."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()

    def apply_transformation(self, op, inputs):
        if op.computes:
            self.seen[getattr(op, "mode", type(op).__name__)] += 1
        return interp.apply(op, *inputs)  # to whatever lies below


def loss_and_gradient(x: interp.Tensor) -> None:
    """sum(exp(x) * x) and its gradient, whatever the stack is."""
    with Grad() as g:
        g.wrt(x, callback=lambda gradient: None)
        y = ops.sum(ops.exp(x) * x)
        g(y, interp.tensor(1.0))


def main() -> None:
    x = interp.tensor([0.0, 1.0, 2.0])

    with Count() as below:  # opened first, so Grad lies above it
        loss_and_gradient(x)

    above = Count()
    with Grad() as g:
        g.wrt(x, callback=lambda gradient: print("gradient:", gradient))
        with above:  # opened inside: nearer to the user than Grad
            y = ops.sum(ops.exp(x) * x)
        g(y, interp.tensor(1.0))

    print("below Grad:", dict(below.seen))
    print("above Grad:", dict(above.seen))
    print("Above, it sees what you wrote: an EXP, a MUL, a SUM.")
    print("Below, it also sees the backward pass, for gradient rules are programs of operators too:")
    print("the SUM becomes a broadcast, the MUL two more, the EXP one more and an ADD where both meet.")


if __name__ == "__main__":
    main()
