"""One training step of a small network on handwritten digits, eager and traced: the same losses, another time.

Run it: python examples/trace_training_step.py
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

import ops
from interp import Tensor, tensor
from transformations import GradManager, trace

STEPS, BATCH, RATE = 300, 64, 0.1
Step = Callable[[Tensor, Tensor], Tensor]


def digits() -> tuple[np.ndarray, np.ndarray]:
    """Images as (n, 64) in [0, 1], and labels."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    return (images / 16.0).astype(np.float32), labels.astype(np.int64)


def training_step(seed: int = 0) -> Step:
    """A step of gradient descent on a network of its own: rebinds the parameters, returns the loss."""
    random = np.random.default_rng(seed)

    def matrix(rows: int, columns: int) -> Tensor:
        return tensor(random.normal(0, np.sqrt(2 / rows), (rows, columns)).astype(np.float32))

    w1, w2, w3 = matrix(64, 32), matrix(32, 32), matrix(32, 10)
    parameters = [w1, w2, w3]
    manager = GradManager().attach(parameters)

    def step(x: Tensor, y: Tensor) -> Tensor:
        with manager:
            hidden = ops.nn.relu(ops.nn.relu(x @ w1) @ w2)
            loss = ops.nn.cross_entropy(hidden @ w3, y)
            manager.backward(loss)
        for w in parameters:
            assert w.grad is not None
            w -= RATE * w.grad
            w.grad = None
        return loss

    return step


def train(step: Step) -> tuple[list[float], float]:
    """The losses of `STEPS` steps, and the seconds of all but the first, which records."""
    images, labels = digits()
    random = np.random.default_rng(1)
    losses = []
    started = 0.0
    for i in range(STEPS):
        if i == 1:
            started = time.perf_counter()
        rows = random.integers(0, len(images), BATCH)
        losses.append(float(step(tensor(images[rows]), tensor(labels[rows]))))
    return losses, time.perf_counter() - started


def main() -> None:
    eager, eager_seconds = train(training_step())
    traced, traced_seconds = train(trace(training_step()))
    print(f"{'step':>6} {'eager loss':>12} {'traced loss':>12}")
    for i in range(0, STEPS, 60):
        print(f"{i:>6} {eager[i]:>12.6f} {traced[i]:>12.6f}")
    print(f"{STEPS - 1:>6} {eager[-1]:>12.6f} {traced[-1]:>12.6f}")
    assert np.allclose(eager, traced, rtol=1e-3), "the losses must agree"
    print(f"eager {eager_seconds:.3f} s, traced {traced_seconds:.3f} s: {eager_seconds / traced_seconds:.1f} times")


if __name__ == "__main__":
    main()
