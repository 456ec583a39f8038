"""Evaluation put off, and shapes without data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import interp
import ops
from interp import TraceError, tensor
from interp.tensor import call
from tests.samples import all_samples
from transformations import LazyEvalTransformation, SymbolTransformation

SAMPLES = list(all_samples())
IDS = [repr(op)[:60] for op, _ in SAMPLES]


@pytest.mark.parametrize(("op", "inputs"), SAMPLES, ids=IDS)
def test_every_operator_gives_the_same_later(op: interp.OpDef, inputs: tuple[Any, ...]) -> None:
    given = [tensor(x) if isinstance(x, np.ndarray) else x for x in inputs]
    with np.errstate(all="ignore"):
        wanted = call(op, *given)
        with LazyEvalTransformation():
            outputs = call(op, *given)
        for got, right in zip(outputs, wanted, strict=True):
            np.testing.assert_array_equal(np.asarray(got), np.asarray(right))


@pytest.mark.parametrize(("op", "inputs"), SAMPLES, ids=IDS)
def test_every_operator_is_known_by_shape_and_dtype(op: interp.OpDef, inputs: tuple[Any, ...]) -> None:
    if getattr(op, "shape_from_data", False) or not any(isinstance(x, np.ndarray) for x in inputs):
        pytest.skip("its shape is known from data only")
    with np.errstate(all="ignore"):
        wanted = call(op, *[tensor(x) if isinstance(x, np.ndarray) else x for x in inputs])
    with SymbolTransformation() as shapes:
        given = [shapes.symbol(interp.Spec(x.shape, x.dtype)) if isinstance(x, np.ndarray) else x for x in inputs]
        for got, right in zip(call(op, *given), wanted, strict=True):
            assert (got.shape, got.dtype) == (np.shape(right), np.asarray(right).dtype)


def test_only_what_is_alive_or_needed_is_computed() -> None:
    with interp.log_dispatch() as events, LazyEvalTransformation():
        x = ops.exp(ops.zeros((2,)))
        dropped = ops.log(x)
        del dropped
        y = x + 1.0
    done = [str(event.op) for event in events if event.layer.startswith("Eval")]
    assert any("EXP" in op for op in done)
    assert not any("LOG" in op for op in done)
    assert y.tolist() == [2.0, 2.0]


def test_data_cannot_be_read_where_there_is_none() -> None:
    with SymbolTransformation() as shapes:
        x = shapes.symbol(interp.Spec((2,), "float32"), "x")
        with pytest.raises(TraceError, match="the data of"):
            x.numpy()
        with pytest.raises(TraceError, match="a Python branch on"):
            bool(ops.any(x > 0))


def test_eval_shape_of_pytrees() -> None:
    found = ops.eval_shape(lambda p: {"y": p["w"] @ p["x"]}, {"w": interp.Spec((2, 3), "float32"), "x": np.zeros(3)})
    assert found["y"].shape == (2,)
