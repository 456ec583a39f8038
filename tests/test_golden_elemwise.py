"""Element-wise operators give MegEngine's outputs and gradients, and keep no more for the backward pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from interp import apply
from interp.value import spec_of
from ops.elemwise import Elemwise
from tests.golden_data import arrays_of, check_case, load, mask_of
from transformations import make_backward_graph

CASES, ARRAYS = load("elemwise")

# Where MegEngine keeps the mathematics at arm's length: the mode, and why ours is right.
MATHEMATICS_WINS: dict[str, str] = {}
KEEPS_OTHERWISE = {
    "ACOS": "MegEngine divides by sin(output); ours is exact near the ends and keeps the input instead",
    "MOD": "ours has the gradient by the divisor, too, which MegEngine leaves out",
    "TAN": "ours keeps the output (1 + y^2) in place of the input",
    "SQRT": "ours keeps the output in place of the input",
}


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_outputs_and_gradients(case: dict[str, Any]) -> None:
    op = Elemwise(case["params"]["mode"])
    with np.errstate(all="ignore"):
        check_case(case, ARRAYS, lambda *xs: apply(op, *xs)[0], rtol=2e-5)


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_keeps_no_more_than_megengine(case: dict[str, Any]) -> None:
    mode = case["params"]["mode"]
    mask = case["save_for_backward"]
    inputs = arrays_of(ARRAYS, case["inputs"])
    op = Elemwise(mode)
    if mask is None or not any(case["input_has_grad"]) or make_backward_graph(op, [spec_of(x) for x in inputs]) is None:
        return
    if mode in KEEPS_OTHERWISE:
        return
    ours, kept = sum(mask_of(op, inputs)), sum(mask)
    assert ours <= kept, f"{mode}: keeps {mask_of(op, inputs)}, MegEngine {mask}"
