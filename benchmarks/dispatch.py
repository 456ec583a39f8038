"""What one operation costs: `python -m benchmarks.dispatch` prints ratios to bare numpy, peers beside.

A chain of 200 alternating `*` and `+` on 4 float32 elements, on Tensor handles against the same chain on the arrays:
medians of 25, best of three rounds, in which the numpy chain is measured beside each contestant. Opening the scope (and
in the second row attaching and the backward call) is inside, shared by the 200. `--deep` adds the backward pass of
chains of up to 10^6 operations, with its time and memory an operation; `--pieces` what one `x * y` is made of.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import statistics
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

import interp
import ops
from interp import tensor
from transformations import Grad

LENGTH, REPEATS, ROUNDS = 200, 25, 3
A = np.full(4, 1.01, np.float32)
B = np.full(4, 0.1, np.float32)
ONE = np.ones(4, np.float32)


def chain(x: Any, w: Any, b: Any) -> Any:
    for _ in range(LENGTH // 2):
        x = x * w
        x = x + b
    return x


def median(f: Callable[[], object]) -> float:
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        f()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def ratio(f: Callable[[], object], base: Callable[[], object]) -> tuple[float, float, float]:
    """The best of three rounds of median(f) over that of median(base), and the least and largest of the rounds."""
    f()
    base()
    pairs = [(median(f), median(base)) for _ in range(ROUNDS)]
    each = [a / b for a, b in pairs]
    return min(a for a, _ in pairs) / min(b for _, b in pairs), min(each), max(each)


def rows() -> dict[str, tuple[Callable[[], object], Callable[[], object], float]]:
    """Name -> (ours, the same in numpy, the budget in pure Python)."""
    x, w, b, one = tensor(A), tensor(A), tensor(B), tensor(ONE)
    ignore: Callable[[Any], None] = lambda gradient: None

    def idle() -> None:
        with Grad():
            chain(x, w, b)

    def both() -> None:
        with Grad() as g:
            g.wrt(x, callback=ignore)
            g(chain(x, w, b), one)

    def both_two() -> None:
        with Grad() as g:
            g.wrt(x, w, callback=ignore)
            g(chain(x, w, b), one)

    def bare() -> None:
        chain(A, A, B)

    ours, theirs = mlp_steps()
    return {
        "small op, [Grad, Eval], nothing attached": (idle, bare, 4.0),
        "small op, forward + backward (x attached)": (both, bare, 16.0),
        "small op, forward + backward (x and w attached)": (both_two, bare, 16.0),
        "MLP step 64x784-256-10, eager": (ours, theirs, 1.15),
    }


def mlp_steps() -> tuple[Callable[[], object], Callable[[], object]]:
    """A forward and backward pass and an SGD step of a two-layer network: ours, and written out in numpy."""
    random = np.random.default_rng(0)
    data = random.normal(size=(64, 784)).astype(np.float32)
    labels = random.integers(0, 10, 64)
    first = (random.normal(size=(784, 256)) * 0.05).astype(np.float32)
    second = (random.normal(size=(256, 10)) * 0.05).astype(np.float32)
    rate = np.float32(0.01)
    xs, ys = tensor(data), tensor(labels)
    parameters = [tensor(first), tensor(np.zeros(256, np.float32)), tensor(second), tensor(np.zeros(10, np.float32))]
    arrays = [first.copy(), np.zeros(256, np.float32), second.copy(), np.zeros(10, np.float32)]

    def ours() -> None:
        w1, b1, w2, b2 = parameters
        found: dict[int, Any] = {}
        with Grad() as g:
            for p in parameters:
                g.wrt(p, callback=lambda d, p=p: found.__setitem__(id(p), d))  # type: ignore[misc]
            hidden = ops.nn.relu(xs @ w1 + b1)
            loss = ops.nn.cross_entropy(hidden @ w2 + b2, ys)
            g(loss, tensor(1.0))
        for p in parameters:
            p -= found[id(p)] * float(rate)

    def theirs() -> None:
        w1, b1, w2, b2 = arrays
        hidden = np.maximum(data @ w1 + b1, np.float32(0))
        logits = hidden @ w2 + b2
        shifted = logits - logits.max(axis=1, keepdims=True)
        exponentials = np.exp(shifted)
        total = exponentials.sum(axis=1, keepdims=True)
        float((np.log(total) - shifted[np.arange(64), labels][:, None]).mean())
        g_logits = exponentials / total
        g_logits[np.arange(64), labels] -= 1
        g_logits /= np.float32(64)
        g_hidden = (g_logits @ w2.T) * (hidden > 0)
        gradients = [data.T @ g_hidden, g_hidden.sum(0), hidden.T @ g_logits, g_logits.sum(0)]
        for i, gradient in enumerate(gradients):
            arrays[i] = arrays[i] - rate * gradient

    return ours, theirs


def peers() -> dict[str, tuple[Callable[[], object] | None, Callable[[], object] | None]]:
    """Name -> (the chain forward, forward and backward) in other frameworks, where they are installed."""
    found: dict[str, tuple[Callable[[], object] | None, Callable[[], object] | None]] = {}
    if importlib.util.find_spec("torch"):
        import torch

        torch.set_num_threads(1)
        tx, tw, tb, t1 = (torch.from_numpy(v.copy()) for v in (A, A, B, ONE))

        def torch_both() -> None:
            x = tx.detach().requires_grad_()
            chain(x, tw, tb).backward(t1)

        found["torch"] = (lambda: chain(tx, tw, tb), torch_both)
    if importlib.util.find_spec("autograd"):
        import autograd

        vjp = autograd.make_vjp(lambda x: chain(x, A, B))
        found["autograd"] = (None, lambda: vjp(A)[0](ONE))
    if importlib.util.find_spec("mygrad"):
        import mygrad

        mw, mb = mygrad.tensor(A, constant=True), mygrad.tensor(B, constant=True)

        def mygrad_both() -> None:
            chain(mygrad.tensor(A), mw, mb).backward(ONE)

        found["mygrad"] = (lambda: chain(mygrad.tensor(A, constant=True), mw, mb), mygrad_both)
    return found


def pieces() -> None:
    """One `x * y` from the inside out: the least of forty rounds for each, taken in turn."""
    x, w, attached = tensor(A), tensor(A), tensor(A)
    count = 1000
    evaluate = interp.current_level().layer.apply_transformation
    multiply = ops.Elemwise("MUL")
    best: dict[str, float] = {}

    def take(name: str, f: Callable[[], object]) -> None:
        start = time.perf_counter()
        for _ in range(count):
            f()
        each = (time.perf_counter() - start) / count * 1e9
        best[name] = min(best.get(name, each), each)

    for _ in range(40):
        take("numpy.multiply itself", lambda: np.multiply(A, A))
        take("the evaluator and the kernel of Elemwise around it", lambda: evaluate(multiply, (A, A)))
        take("x * y on handles, nothing attached", lambda: x * w)
        with Grad() as g:
            g.wrt(attached)
            take("x * y with x attached", lambda: attached * w)
    for name, nanoseconds in best.items():
        print(f"  {name:<55} {nanoseconds:6.0f} ns", flush=True)


def long_chain(length: int) -> None:
    """Forward and backward through this many small operations."""
    x, w = tensor(A), tensor(np.ones(4, np.float32))
    with Grad() as g:
        g.wrt(x, callback=lambda d: None)
        y = x
        for _ in range(length):
            y = y * w
        g(y, tensor(ONE))


def deep() -> None:
    """Forward and backward of long chains: microseconds and peak bytes an operation, the collector off."""
    gc.disable()
    for length in (10**3, 10**4, 10**5, 10**6):
        start = time.perf_counter()
        long_chain(length)
        seconds = time.perf_counter() - start
        tracemalloc.start()
        long_chain(length)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        each = f"{seconds / length * 1e6:6.2f} us each, peak {peak / length:6.0f} bytes each"
        print(f"  {length:>9,} operations: {each}", flush=True)
    gc.enable()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--deep", action="store_true", help="chains of 10^3 to 10^6 operations")
    parser.add_argument("--pieces", action="store_true", help="one x * y from the inside out")
    arguments = parser.parse_args()
    print(f"core: {'compiled' if interp.is_compiled() else 'pure Python'}; ratios to bare numpy (spread of the rounds)")
    for name, (f, base, budget) in rows().items():
        best, low, high = ratio(f, base)
        print(f"  {name:<50} {best:6.2f}   ({low:.2f} to {high:.2f})   budget {budget}", flush=True)

    def bare() -> object:
        return chain(A, A, B)

    for name, (forward, both) in peers().items():
        shown = [f"{ratio(f, bare)[0]:6.2f}" if f else "     -" for f in (forward, both)]
        print(f"  {name:<12} forward {shown[0]}   forward + backward {shown[1]}", flush=True)
    if arguments.pieces:
        pieces()
    if arguments.deep:
        deep()


if __name__ == "__main__":
    main()
