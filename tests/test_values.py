"""Values never change, handles can be rebound, scalars are weak, and bad input is refused with a typed error."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import interp
import ops
from interp import (
    DTypeError,
    ShapeError,
    Tensor,
    tensor,
)
from transformations import Grad, grad


def test_a_tensor_is_a_snapshot_of_the_callers_array() -> None:
    a = np.ones(3, np.float32)
    x = tensor(a)
    y = ops.asarray(a)
    z = x + a
    a[:] = 7
    assert x.tolist() == y.tolist() == [1, 1, 1]
    assert z.tolist() == [2, 2, 2]


def test_what_is_saved_for_backward_does_not_change_with_the_callers_array() -> None:
    a = np.array([2.0, 3.0], np.float32)
    x, got = tensor([1.0, 1.0]), []
    with Grad() as g:
        g.wrt(x, callback=got.append)
        y = x * a
        a[:] = 100
        x *= 5.0  # rebinds the handle; the recorded value stands
        g(y, tensor([1.0, 1.0]))
    assert got[0].tolist() == [2, 3]


def test_data_cannot_be_written_to() -> None:
    x = tensor([1.0, 2.0])
    with pytest.raises(ValueError, match="read-only"):
        x.numpy()[0] = 5
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(x)[0] = 5


def test_in_place_syntax_rebinds_and_keeps_shape_and_dtype() -> None:
    x = tensor([1.0, 2.0])
    alias, before = x, x._value
    x += 1
    assert alias is x
    assert x.tolist() == [2, 3]
    assert before.tolist() == [1, 2]
    with pytest.raises(ShapeError, match="does not fit"):
        x += tensor(np.ones((2, 2), np.float32))
    i = tensor([1, 2])
    with pytest.raises(DTypeError, match="cannot be stored"):
        i += 1.5
    assert i.tolist() == [1, 2]


def test_defaults_of_creation() -> None:
    assert [tensor(v).dtype.name for v in (1.0, 1, True, 1j, [1.5], [1], [2**40])] == [
        "float32", "int32", "bool", "complex64", "float32", "int32", "int64",
    ]  # fmt: skip
    assert tensor(np.ones(2)).dtype == np.float64
    assert tensor(np.float64(1.0)).dtype == np.float64
    with interp.default_dtype_scope("float64"):
        assert tensor(1.0).dtype == np.float64
        assert (tensor([1, 2]) / 2).dtype == np.float64
    assert (tensor([1, 2]) / 2).dtype == np.float32


def test_python_scalars_are_weak_and_numpys_are_not() -> None:
    x = tensor([1.0])
    assert (x * 2.0).dtype == (x * 2).dtype == np.float32
    assert (x * np.float64(2)).dtype == np.float64
    assert (ops.add(1.0, 2.0) * x).dtype == np.float32
    assert (tensor(np.ones(1, np.int64)) * 2.5).dtype == np.float32
    assert (tensor(np.ones(1)) * tensor([1])).dtype == np.float64
    assert (tensor(np.ones(1, np.float16)) * tensor(np.ones(1, np.int64))).dtype == np.float16


def test_gradients_have_the_dtype_of_their_input() -> None:
    a, b = tensor([1.0]), tensor(np.ones(1))
    ga, gb = grad(lambda a, b: ops.sum(a * b), argnums=(0, 1))(a, b)
    assert (ga.dtype, gb.dtype) == (np.float32, np.float64)


def test_conversions() -> None:
    x = tensor(2.5)
    assert (float(x), int(x), bool(x), complex(x), f"{x:.1f}") == (2.5, 2, True, 2.5 + 0j, "2.5")
    assert [10, 20, 30][tensor(1)] == 20
    with pytest.raises(DTypeError, match="index"):
        [1, 2][tensor(1.0)]
    with pytest.raises(ShapeError, match="exactly one"):
        tensor([1.0, 2.0]).item()
    with pytest.raises(DTypeError):
        len(tensor(1.0))
    assert [v.item() for v in tensor([1.0, 2.0])] == [1, 2]
    assert 3.0 in tensor([1.0, 3.0]).tolist()


def test_copies_and_pickles() -> None:
    x = tensor([1.0, 2.0])
    for other in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert other is not x
        assert other.tolist() == [1, 2]
        other += 1
        assert x.tolist() == [1, 2]


def test_repr_never_raises() -> None:
    for x in (tensor(1.0), tensor([]), tensor([1, 2]), tensor(True), ops.add(1.0, 2.0)):
        assert repr(x).startswith("tensor(")
    shown = []
    grad(lambda t: (shown.append(repr(t)), t)[1])(tensor(2.0))
    assert shown == ["tensor(2.)"]


# --- rules of users, right and wrong


def test_no_warning_leaks_from_a_rules_own_intermediates() -> None:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert grad(lambda x: ops.sum(ops.where(x > 0, ops.sqrt(ops.where(x > 0, x, 1.0)), 0.0)))(
            tensor([0.0, 4.0])
        ).tolist() == [0, 0.25]
        got = grad(lambda x: ops.sum(ops.sqrt(x)))(tensor([0.0, 4.0]))
    assert got.tolist() == [np.inf, 0.25]


def test_a_tensor_is_a_tensor() -> None:
    assert Tensor([1.0, 2.0]).tolist() == [1, 2]
    assert Tensor(tensor(1.0)).item() == 1


def test_a_python_integer_that_does_not_fit_is_refused() -> None:
    with pytest.raises(DTypeError, match="does not fit int32"):
        tensor([1, 2]) + 2**40
    with pytest.raises(DTypeError, match="does not fit uint8"):
        ops.multiply(tensor(np.ones(2, np.uint8)), -1)
