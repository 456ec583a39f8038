"""Reductions give MegEngine's outputs and gradients, and keep no more for the backward pass."""

from __future__ import annotations

from typing import Any

import pytest

import ops
from interp import apply
from ops.reduction import Reduce
from tests.golden_data import Case, check_case, check_mask, load

CASES, ARRAYS = load("reduce")
OPERATORS = [case for case in CASES if case["op"] == "Reduce"]
FUNCTIONS = [case for case in CASES if case["op"] != "Reduce"]

# MegEngine's sort returns indices beside the values.
MEANING = {
    "sum": ops.sum,
    "mean": ops.mean,
    "prod": ops.prod,
    "norm": ops.norm,
    "argmax": ops.argmax,
    "argmin": ops.argmin,
    "argsort": ops.argsort,
    "sort": lambda x: (ops.sort(x), ops.argsort(x)),
    "topk": ops.topk,
}


def operator(case: Case) -> Reduce:
    params = case["params"]
    return Reduce(params["mode"], (params["axis"],), params["keepdim"])


@pytest.mark.parametrize("case", OPERATORS, ids=lambda case: case["id"])
def test_a_reduction_is_megengines(case: Case) -> None:
    check_case(case, ARRAYS, lambda x: apply(operator(case), x))


@pytest.mark.parametrize("case", OPERATORS, ids=lambda case: case["id"])
def test_a_reduction_keeps_no_more_than_megengines(case: Case) -> None:
    check_mask(case, ARRAYS, operator(case))


@pytest.mark.parametrize("case", FUNCTIONS, ids=lambda case: case["id"])
def test_a_function_of_axes_is_megengines(case: Case) -> None:
    params: dict[str, Any] = dict(case["params"])
    if isinstance(params.get("axis"), list):
        params["axis"] = tuple(params["axis"])
    check_case(case, ARRAYS, lambda x: MEANING[case["op"].removeprefix("functional.")](x, **params))
