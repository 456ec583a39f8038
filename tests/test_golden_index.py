"""Indexing gives MegEngine's outputs and gradients, both ways."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ops
from tests.golden_data import Case, check_case, load

CASES, ARRAYS = load("index")


def _written(x: Any, v: Any) -> Any:
    return ops.index_set(x, (slice(1, None), slice(None, None, 2)), v)


READS: dict[str, Callable[..., Any]] = {
    "[1:, ::-1, 1:4:2]": lambda x: x[1:, ::-1, 1:4:2],
    "[-1, ..., -2:]": lambda x: x[-1, ..., -2:],
    "[[0,2,0]]": lambda x: x[[0, 2, 0]],
    "[[0,1], :, [1,3]]": lambda x: x[[0, 1], :, [1, 3]],
    "[x > 0]": lambda x: x[x > 0],
    "y = x; y[1:, ::2] = v": _written,
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "scatter": lambda p, x, source: ops.scatter(x, p["axis"], p["index"], source),
    "where": lambda p, x, y: ops.where(np.array(p["mask"]), x, y),
    "cond_take": lambda p, x: ops.cond_take(np.array(p["mask"]), x),
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_indexing_is_megengines(case: Case) -> None:
    params = case["params"]
    if "index" in params and "op" not in params:
        check_case(case, ARRAYS, READS[params["index"]])
    else:
        check_case(case, ARRAYS, lambda *xs: FUNCTIONS[params["op"]](params, *xs))
