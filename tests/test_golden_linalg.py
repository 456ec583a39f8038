"""Matrix products and decompositions give MegEngine's outputs and gradients."""

from __future__ import annotations

import pytest

import ops
from tests.golden_data import Case, check_case, load

CASES, ARRAYS = load("linalg")
FUNCTIONS = {"matmul": ops.matmul, "dot": ops.dot}
PRODUCTS = [case for case in CASES if case["op"].removeprefix("functional.") in FUNCTIONS]


@pytest.mark.parametrize("case", PRODUCTS, ids=lambda case: case["id"])
def test_a_product_is_megengines(case: Case) -> None:
    function = FUNCTIONS[case["op"].removeprefix("functional.")]
    check_case(case, ARRAYS, lambda *xs: function(*xs, **case["params"]), rtol=2e-5, atol=2e-6)
