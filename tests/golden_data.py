"""Cases measured on MegEngine 1.13.0 (`tests/golden`), and how ours are held against them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from interp import OpDef, Tensor, tensor
from interp.value import spec_of
from transformations import Grad
from transformations.backward_graph import OptimizedBackwardGraph, make_backward_graph

HERE = Path(__file__).parent / "golden"
Case = dict[str, Any]


def load(family: str) -> tuple[list[Case], Any]:
    """The cases of a family and their arrays."""
    return json.loads((HERE / f"{family}.json").read_text()), np.load(HERE / f"{family}.npz")


def arrays_of(arrays: Any, keys: Sequence[str | None]) -> list[Any]:
    return [None if key is None else arrays[key] for key in keys]


def check_case(case: Case, arrays: Any, function: Callable[..., Any], rtol: float = 1e-5, atol: float = 1e-6) -> None:
    """Outputs and gradients of `function`, of Tensors, are MegEngine's."""
    inputs = [tensor(x) for x in arrays_of(arrays, case["inputs"])]
    wanted = arrays_of(arrays, case["outputs"])
    seeds = arrays_of(arrays, case["out_grads"])
    gradients = arrays_of(arrays, case["in_grads"])
    found: dict[int, Any] = {}
    with Grad() as g:
        for i, x in enumerate(inputs):
            if x.dtype.kind == "f":
                g.wrt(x, callback=lambda d, i=i: found.__setitem__(i, d.numpy()))
        result = function(*inputs)
        outputs = [result] if isinstance(result, Tensor) else list(result)
        assert len(outputs) == len(wanted)
        for output, array in zip(outputs, wanted, strict=True):
            np.testing.assert_allclose(output.numpy(), array, rtol=rtol, atol=atol)
        seeded = [(y, s) for y, s in zip(outputs, seeds, strict=True) if s is not None and y.dtype.kind == "f"]
        if seeded:
            g([y for y, _ in seeded], [tensor(s) for _, s in seeded])
    for i, gradient in enumerate(gradients):
        if gradient is not None:
            np.testing.assert_allclose(found[i], gradient, rtol=rtol, atol=atol)
            assert found[i].dtype == inputs[i].dtype


def mask_of(op: OpDef, inputs: Sequence[Any]) -> tuple[bool, ...]:
    """Which of inputs, outputs and output gradients the backward pass of `op` keeps."""
    graph = make_backward_graph(op, [spec_of(x) for x in inputs])
    assert graph is not None
    return OptimizedBackwardGraph(graph, len(inputs)).save_for_backward


def check_mask(case: Case, arrays: Any, op: OpDef) -> None:
    """`op` keeps no more for its backward pass than MegEngine's."""
    mask = mask_of(op, arrays_of(arrays, case["inputs"]))
    for ours, theirs in zip(mask, case["save_for_backward"], strict=True):
        assert theirs or not ours, f"keeps {mask} where MegEngine keeps {case['save_for_backward']}"
