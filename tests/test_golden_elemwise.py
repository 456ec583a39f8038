"""Element-wise operators give MegEngine's outputs and gradients, and keep no more for the backward pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from interp import apply
from interp.value import spec_of
from ops.elemwise import Elemwise
from tests.golden_data import arrays_of, check_case, check_mask, load
from transformations import make_backward_graph

CASES, ARRAYS = load("elemwise")

# Modes of which ours keeps another value than MegEngine, or one more: [inputs, outputs, output gradients], and why.
KEEPS_OTHERWISE: dict[str, tuple[tuple[bool, ...], str]] = {
    "ACOS": ((True, False, True), "1 - x^2 of the input, where MegEngine takes the sine of the output"),
    "ASIN": ((True, False, True), "1 - x^2 of the input, where MegEngine takes the cosine of the output"),
    "SQRT": ((False, True, True), "the output is there already, where MegEngine takes another root of the input"),
    "TAN": ((False, True, True), "1 + y^2 of the output, where MegEngine takes the cosine of the input"),
    "MOD": ((True, True, False, True), "ours has a gradient by the divisor, which MegEngine takes for zero"),
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
        case = {**case, "save_for_backward": KEEPS_OTHERWISE[mode][0]}
    check_mask(case, ARRAYS, op)
