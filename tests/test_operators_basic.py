"""The operators that ask about values and make them, at the bottom of the stack and through every layer."""

from __future__ import annotations

import array
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import interp
import ops
from interp import (
    CreateTensor,
    DTypeError,
    DupTensor,
    GetAttr,
    GetId,
    GetName,
    IsScalar,
    OperatorError,
    PopScope,
    PushScope,
    RenameValue,
    ShapeError,
    Spec,
    Tensor,
    apply,
    name_of,
    record,
    rename,
    tensor,
)
from tests.layers import Box, Note
from tests.samples import all_samples
from transformations import Grad, grad, jvp, no_grad, vmap

X = np.array([1.0, 2.0], np.float32)


def test_operators_that_ask() -> None:
    x = tensor([1.0, 2.0])
    value = x._value
    assert apply(GetAttr("shape"), value) == ((2,),)
    assert apply(GetAttr("dtype"), value) == (np.dtype(np.float32),)
    assert apply(GetAttr("device"), value) == ("cpu",)
    assert apply(GetAttr("value"), value)[0].tolist() == [1, 2]
    assert apply(IsScalar(), value) == (False,)
    assert apply(IsScalar(), tensor(1.0)._value) == (True,)
    copied = apply(DupTensor(), value)[0]
    assert copied is not value
    assert apply(GetId(), value) != apply(GetId(), copied)
    for kind in CreateTensor.Kind:
        assert apply(CreateTensor(kind), np.ones(2))[0].tolist() == [1, 1]


def test_names() -> None:
    x = interp.rename(tensor([1.0]), "weight")
    assert interp.name_of(x) == "weight"
    assert interp.name_of(interp.rename(x, "other")) == "other"
    assert interp.name_of(x + 1.0) == ""
    assert (x * 2.0).tolist() == [2]
    with interp.scope("part"):
        pass


def under_grad(f: Callable[[Tensor], Tensor]) -> Tensor:
    return grad(lambda x: ops.sum(f(x)))(tensor(X))


def under_vmap(f: Callable[[Tensor], Tensor]) -> Tensor:
    return vmap(f)(tensor(X[None]))


def under_jvp(f: Callable[[Tensor], Tensor]) -> Tensor:
    return jvp(f, (tensor(X),), (tensor(X),))[1]


def under_record(f: Callable[[Tensor], Tensor]) -> Tensor:
    return record(f, Spec((2,), "float32"))(tensor(X))[0]


def under_box(f: Callable[[Tensor], Tensor]) -> Tensor:
    with Box(), Note("n"), no_grad():
        return f(tensor(X) * 1.0)


def under_scopes(f: Callable[[Tensor], Tensor]) -> Tensor:
    got: list[Tensor] = []
    x = tensor(X)
    with Grad("outer") as outer, Grad("inner") as inner:
        outer.wrt(x, callback=got.append)
        inner.wrt(x)
        outer(f(x), tensor(np.ones(2, np.float32)))
    return got[0]


LAYERED = [under_grad, under_vmap, under_jvp, under_record, under_box, under_scopes]


@pytest.mark.parametrize("layered", LAYERED)
def test_what_is_known_without_data_is_answered_under_every_layer(layered: Any) -> None:
    def f(x: Tensor) -> Tensor:
        value = x._value
        assert apply(GetAttr("shape"), value) == ((2,),)
        assert apply(GetAttr("dtype"), value) == (np.dtype(np.float32),)
        assert apply(GetAttr("device"), value) == ("cpu",)
        assert apply(IsScalar(), value) == (False,)
        assert apply(IsScalar(), ops.sum(x)._value) == (True,)
        assert apply(GetId(), value) == apply(GetId(), value)
        return x * x

    layered(f)


@pytest.mark.parametrize("layered", LAYERED)
@pytest.mark.parametrize("same", [RenameValue("w"), DupTensor(), CreateTensor(), CreateTensor("const")], ids=repr)
def test_the_same_value_in_another_guise_keeps_its_links(layered: Any, same: Any) -> None:
    def f(x: Tensor) -> Tensor:
        return apply(same, x)[0] * x

    np.testing.assert_array_equal(layered(f).numpy(), layered(lambda x: x * x).numpy())


@pytest.mark.parametrize("layered", LAYERED)
def test_parts_are_pushed_and_popped_under_every_layer(layered: Any) -> None:
    def f(x: Tensor) -> Tensor:
        assert apply(PushScope("part")) == ()
        y = x * x
        assert apply(PopScope("part")) == ()
        return y

    layered(f)


@pytest.mark.parametrize("layered", [under_grad, under_vmap, under_jvp, under_box, under_scopes])
def test_a_name_is_seen_through_every_layer(layered: Any) -> None:
    def f(x: Tensor) -> Tensor:
        named = rename(x, "weight")
        assert name_of(named) == "weight"
        assert name_of(x) == ""
        return named * named

    layered(f)


def test_names_are_for_all_that_is_a_value() -> None:
    assert name_of(rename(X, "array")) == "array"
    assert name_of(rename(2.0, "number")) == "number"
    assert name_of(X) == name_of(2.0) == ""
    assert apply(GetName(), rename(tensor(X), "w")._value) == ("w",)


def test_a_named_value_works_in_every_operator() -> None:
    for op, inputs in all_samples():
        plain = [tensor(x)._value if isinstance(x, np.ndarray) else x for x in inputs]
        named = [rename(x, "n")._value if isinstance(x, np.ndarray) else x for x in inputs]
        for got, wanted in zip(apply(op, *named), apply(op, *plain), strict=True):
            np.testing.assert_array_equal(np.asarray(got), np.asarray(wanted), err_msg=repr(op))


def test_a_weak_number_stays_weak_under_a_name() -> None:
    assert (rename(2.0, "n") * tensor(np.ones(1, np.float16))).dtype == np.float16
    assert (rename(2.0, "n") * 3.0).dtype == np.float32


@pytest.mark.parametrize("kind", list(CreateTensor.Kind))
def test_what_may_be_shared_is_copied_and_what_is_given_away_is_not(kind: CreateTensor.Kind) -> None:
    a = np.ones(2, np.float32)
    value = apply(CreateTensor(kind), a)[0]
    a[:] = 7
    assert value.tolist() == ([7, 7] if kind is CreateTensor.Kind.UNIQUE else [1, 1])


class Foreign:
    """Somebody's array that shows its memory."""

    def __init__(self) -> None:
        self.memory = np.ones(2, np.float32)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.memory


@pytest.mark.parametrize("make", [lambda x: apply(CreateTensor(), x)[0], tensor, ops.asarray])
def test_foreign_arrays_are_snapshots_too(make: Any) -> None:
    foreign = Foreign()
    value = make(foreign)
    foreign.memory[:] = 7
    assert value.tolist() == [1, 1]
    buffer = array.array("f", [1.0, 1.0])
    value = make(buffer) if make is not ops.asarray else tensor(buffer)
    buffer[0] = 7
    assert value.tolist() == [1, 1]


def test_host_data_takes_the_dtypes_that_a_tensor_takes() -> None:
    for data in (1.0, 1, True, 1j, [1.0, 2.0], [1, 2], [True], [[1.0], [2.0]], np.float64(1.0), [np.float64(1.0)], []):
        assert apply(CreateTensor(), data)[0].dtype == tensor(data).dtype, data
    assert apply(CreateTensor("unique", "float16"), [1.0])[0].dtype == np.float16


@pytest.mark.parametrize("data", ["text", object(), None, np.array(["a"]), np.array([None]), {1.0}, ["a"]])
def test_host_data_that_is_no_number_is_refused(data: Any) -> None:
    with pytest.raises(DTypeError):
        apply(CreateTensor(), data)
    with pytest.raises(ShapeError, match="regular"):
        apply(CreateTensor(), [[1.0], [1.0, 2.0]])


def test_parameters_and_counts_that_make_no_sense_are_refused() -> None:
    with pytest.raises(OperatorError, match=r"GetAttr.Attr is one of 'none', 'dtype'.*not 'colour'"):
        GetAttr("colour")
    with pytest.raises(OperatorError, match=r"CreateTensor.Kind is one of"):
        CreateTensor("borrowed")
    for op in (GetAttr("shape"), GetName(), GetId(), IsScalar(), DupTensor(), RenameValue("x"), CreateTensor()):
        with pytest.raises(OperatorError, match="takes 1 inputs, not 0"):
            apply(op)
        with pytest.raises(OperatorError, match="takes 1 inputs, not 2"):
            apply(op, 1.0, 2.0)
    with pytest.raises(OperatorError, match="takes 0 inputs, not 1"):
        apply(PushScope("x"), 1.0)


def test_data_that_is_read_cannot_be_written() -> None:
    x = tensor(X)
    for attr in ("value", "data"):
        with pytest.raises(ValueError, match="read-only"):
            apply(GetAttr(attr), x._value)[0][0] = 5
    assert x.tolist() == [1, 2]
    assert apply(GetAttr("none"), x._value) == (None,)


def test_equal_operators_are_interchangeable_and_of_a_kind() -> None:
    assert GetAttr("shape") == GetAttr(GetAttr.Attr.SHAPE)
    assert hash(RenameValue("a")) == hash(RenameValue("a"))
    assert RenameValue("a") != RenameValue("b")
    kinds = interp.OperatorKind
    assert GetAttr("shape").kind is GetName().kind is GetId().kind is IsScalar().kind is kinds.GET_ATTR_LIKE
    assert RenameValue("a").kind is DupTensor().kind is kinds.IDENTITY_LIKE
    assert CreateTensor().kind is PushScope("a").kind is kinds.OTHER
    assert not any(op.computes for op in (GetAttr("shape"), RenameValue("a"), CreateTensor(), PushScope("a")))
    with pytest.raises(AttributeError):
        RenameValue("a").name = "b"
