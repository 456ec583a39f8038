"""Matrix products and decompositions give MegEngine's outputs and gradients."""

from __future__ import annotations

import pytest

import ops
from tests.golden_data import Case, check_case, load

CASES, ARRAYS = load("linalg")
FUNCTIONS = {
    "matmul": ops.matmul,
    "dot": ops.dot,
    "svd": lambda x, compute_uv: ops.linalg.svdvals(x),
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_products_and_singular_values_are_megengines(case: Case) -> None:
    function = FUNCTIONS[case["op"].removeprefix("functional.")]
    check_case(case, ARRAYS, lambda *xs: function(*xs, **case["params"]), rtol=2e-5, atol=2e-6)
