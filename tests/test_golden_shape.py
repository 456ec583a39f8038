"""Functions that rearrange give MegEngine's outputs and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import ops
from tests.golden_data import Case, check_case, load

CASES, ARRAYS = load("shape")

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "reshape": ops.reshape,
    "transpose": lambda x, axes: ops.permute_dims(x, axes),
    "broadcast_to": ops.broadcast_to,
    "concat": lambda *xs, axis: ops.concat(xs, axis=axis),
    "split": lambda x, split_points, axis: ops.split(x, split_points, axis),
    "tile": lambda x, reps: ops.tile(x, reps),
    "repeat": lambda x, repeats, axis: ops.repeat(x, repeats, axis=axis),
    "flatten": ops.flatten,
    "swapaxes": ops.swapaxes,
    "pad": lambda x, pad_width, mode, constant_value: ops.pad(x, pad_width, mode, constant_value),
    "pixel_shuffle": lambda x, upscale_factor: ops.nn.pixel_shuffle(x, upscale_factor),
    "diag": ops.diag,
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_a_rearrangement_is_megengines(case: Case) -> None:
    function = FUNCTIONS[case["op"].removeprefix("functional.")]
    check_case(case, ARRAYS, lambda *xs: function(*xs, **case["params"]))
