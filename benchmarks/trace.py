"""What a traced call costs: `python -m benchmarks.trace` prints ratios to numpy, and times to a first result.

Chains alternate `*` and `+`; a step is one of `benchmarks.dispatch`'s network. Medians of 25, best of three rounds in
which numpy is measured beside us. First results are of functions not seen before, least of five; jax.jit beside, where
it is installed.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import ops
from benchmarks.dispatch import A, B, chain, mlp_steps, ratio
from interp import Spec, record, tensor
from ops.programs import compile_program
from transformations import grad, trace

BIG = np.full(1_000_000, 1.01, np.float32)


def long(length: int) -> Callable[[Any], Any]:
    """A chain of `length` operators, a function of its own each time."""

    def f(x: Any) -> Any:
        for _ in range(length // 2):
            x = x * 1.01
            x = x + 0.1
        return x

    return f


def by_hand(x: Any) -> Any:
    """The gradient of the sum of the chain, as one would write it in numpy."""
    gradient = np.ones_like(x)
    for _ in range(100):
        gradient = gradient * A
    return gradient


def element_wise(x: Any, library: Any) -> Any:
    return library.tanh(x * 0.5 + 1.0) * x - x


def rows() -> dict[str, tuple[Callable[[], object], Callable[[], object]]]:
    """Name -> (ours, the same in numpy)."""
    x, w, b, big = tensor(A), tensor(A), tensor(B), tensor(BIG)
    traced = trace(chain)
    gradient = trace(grad(lambda x: ops.sum(chain(x, w, b))))
    ours, theirs = mlp_steps()
    step = trace(ours)
    smooth = trace(lambda x: element_wise(x, ops))
    return {
        "chain of 200 on 4 elements": (lambda: traced(x, w, b), lambda: chain(A, A, B)),
        "its gradient, traced (numpy: by hand)": (lambda: gradient(x), lambda: by_hand(A)),
        "MLP step 64x784-256-10, traced": (step, theirs),
        "5 element-wise operators on 10^6 elements": (lambda: smooth(big), lambda: element_wise(BIG, np)),
    }


def first_result(make: Callable[[int], Callable[[Any], Any]], length: int, x: Any) -> float:
    """Seconds from a new function to its first result."""
    seconds = []
    for _ in range(5):
        f = make(length)
        start = time.perf_counter()
        np.asarray(f(x))
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def overhead(count: int = 50) -> float:
    """Seconds of a call with `count` array arguments that computes one sum."""
    arrays = [tensor(np.ones(3, np.float32)) for _ in range(count)]
    traced = trace(lambda xs: xs[0] + xs[-1])
    seconds = []
    for _ in range(3000):
        start = time.perf_counter()
        traced(arrays)
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def compile_time(length: int) -> float:
    """Seconds an operator of recording, preparing and first running a long program."""
    start = time.perf_counter()
    program = record(long(length), Spec((4,), "float32"))
    compile_program(program)([A])
    return (time.perf_counter() - start) / length


def main() -> None:
    for name, (f, base) in rows().items():
        best, low, high = ratio(f, base)
        print(f"  {name:<50} {best:6.2f}   ({low:.2f} to {high:.2f})", flush=True)
    for length in (200, 5000):
        ours = first_result(lambda n: trace(long(n)), length, tensor(A))
        line = f"  first result, chain of {length}: {ours * 1e3:.1f} ms"
        if importlib.util.find_spec("jax") and length <= 200:
            import jax

            theirs = first_result(lambda n: jax.jit(long(n)), length, A)
            line += f"; jax.jit {theirs * 1e3:.1f} ms, {theirs / ours:.1f} times as long"
        print(line, flush=True)
    print(f"  a call with 50 arrays: {overhead() * 1e6:.1f} us")
    for length in (10_000, 100_000):
        each = compile_time(length) * 1e6
        print(f"  record, prepare and run {length} operators: {each:.1f} us an operator", flush=True)


if __name__ == "__main__":
    main()
