"""Train a small convolutional network on scikit-learn's handwritten digits, eagerly, with gradients from a scope.

Run it: python examples/train_digits.py
Writes the loss curve to digits.png. Takes well under a minute on two cores.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import ops
from interp import Tensor, tensor
from transformations import GradManager

EPOCHS, BATCH, RATE = 15, 64, 3e-3


def load() -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.float32], NDArray[np.int64]]:
    """Images as (n, 1, 8, 8) in [0, 1] and labels: four fifths to train on, one fifth held out."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images))
    images = (images[order] / 16.0).astype(np.float32).reshape(-1, 1, 8, 8)
    labels = labels[order].astype(np.int64)
    held_out = len(images) // 5
    return images[held_out:], labels[held_out:], images[:held_out], labels[:held_out]


def initialise(seed: int = 0) -> dict[str, Tensor]:
    """Two convolutions and one linear layer, He-initialised."""
    random = np.random.default_rng(seed)

    def he(*shape: int) -> Tensor:
        fan_in = int(np.prod(shape[1:])) if len(shape) > 2 else shape[0]
        return tensor(random.normal(0, np.sqrt(2 / fan_in), shape).astype(np.float32))

    def zeros(*shape: int) -> Tensor:
        return tensor(np.zeros(shape, np.float32))

    return {
        "conv1.weight": he(16, 1, 3, 3), "conv1.bias": zeros(1, 16, 1, 1),
        "conv2.weight": he(32, 16, 3, 3), "conv2.bias": zeros(1, 32, 1, 1),
        "linear.weight": he(32 * 2 * 2, 10), "linear.bias": zeros(10),
    }  # fmt: skip


def network(p: dict[str, Tensor], x: Tensor) -> Tensor:
    """Logits of shape (n, 10) for images of shape (n, 1, 8, 8)."""
    x = ops.nn.relu(ops.nn.conv2d(x, p["conv1.weight"], padding=1) + p["conv1.bias"])
    x = ops.nn.max_pool2d(x, 2, 2)
    x = ops.nn.relu(ops.nn.conv2d(x, p["conv2.weight"], padding=1) + p["conv2.bias"])
    x = ops.nn.max_pool2d(x, 2, 2)
    x = ops.reshape(x, (x.shape[0], -1))
    return x @ p["linear.weight"] + p["linear.bias"]


class Adam:
    """Adam (Kingma and Ba, 2015): rebinds each parameter's handle to its next value."""

    def __init__(self, parameters: list[Tensor], rate: float) -> None:
        self.parameters = parameters
        self.rate = rate
        self.step_count = 0
        self.mean = [np.zeros(p.shape, np.float32) for p in parameters]
        self.square = [np.zeros(p.shape, np.float32) for p in parameters]

    def step(self) -> None:
        self.step_count += 1
        for p, mean, square in zip(self.parameters, self.mean, self.square, strict=True):
            assert p.grad is not None
            gradient = p.grad.numpy()
            mean += 0.1 * (gradient - mean)
            square += 0.001 * (gradient * gradient - square)
            unbiased_mean = mean / (1 - 0.9**self.step_count)
            unbiased_square = square / (1 - 0.999**self.step_count)
            p -= self.rate * unbiased_mean / (np.sqrt(unbiased_square) + 1e-8)
            p.grad = None


def accuracy(p: dict[str, Tensor], images: NDArray[np.float32], labels: NDArray[np.int64]) -> float:
    predicted = ops.argmax(network(p, tensor(images)), axis=1).numpy()
    return float(np.mean(predicted == labels))


def plot(losses: list[float], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 3.5))
    axes.plot(losses, linewidth=0.8)
    axes.set(xlabel="step", ylabel="cross entropy", yscale="log", title="digits")
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main() -> None:
    from rich.progress import track

    images, labels, held_images, held_labels = load()
    p = initialise()
    manager = GradManager().attach(p.values())
    optimiser = Adam(list(p.values()), RATE)
    random = np.random.default_rng(1)
    losses: list[float] = []
    start = time.perf_counter()
    for _ in track(range(EPOCHS), description="training"):
        order = random.permutation(len(images))
        for i in range(0, len(images) - BATCH + 1, BATCH):
            batch = order[i : i + BATCH]
            with manager:
                loss = ops.nn.cross_entropy(network(p, tensor(images[batch])), tensor(labels[batch]))
                manager.backward(loss)
            optimiser.step()
            losses.append(loss.item())
    seconds = time.perf_counter() - start
    score = accuracy(p, held_images, held_labels)
    plot(losses, Path("digits.png"))
    print(f"{score:.1%} of {len(held_labels)} held-out digits right after {seconds:.1f} s; loss curve in digits.png")
    assert score >= 0.97, score


if __name__ == "__main__":
    main()
