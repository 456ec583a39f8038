"""Functions of neural networks give MegEngine's outputs and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from interp import tensor
from ops import nn
from tests.golden_data import Case, check_case, load

CASES, ARRAYS = load("nn")

# Parameters that ours do not have: `affine` says that weights are given, `order` describes the inputs.
_NEEDLESS = ("affine", "order")


def meaning(case: Case) -> Any:
    """Our function of the case's inputs."""
    name = case["op"].removeprefix("functional.nn.")
    params = {key: value for key, value in case["params"].items() if key not in _NEEDLESS}
    function = getattr(nn, name)
    if name == "embedding":
        indices = np.array(params["inp"])
        return lambda weight: nn.embedding(indices, weight)
    if "label" in params:
        label = tensor(np.array(params.pop("label"), "int32"))
        return lambda pred: function(pred, label, **params)
    if name in ("layer_norm", "group_norm"):
        first = params.pop("normalized_shape" if name == "layer_norm" else "num_groups")
        return lambda x, weight, bias: function(x, first, weight, bias, **params)
    return lambda *inputs: function(*inputs, **params)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_a_function_is_megengines(case: Case) -> None:
    check_case(case, ARRAYS, meaning(case), atol=1e-5)  # sums of dozens of products, rounded in another order
