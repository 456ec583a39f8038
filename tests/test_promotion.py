"""Which dtype comes out: the written rules of promotion, held exhaustively against numpy and MegEngine.

The rules: numpy's, except that an integer beside a floating operand takes the floating operand's dtype, and that where
a kind is raised without a dtype to take (an integer array by a Python float, a boolean one by a Python integer, a
quotient of integers) it is the default one of that kind.
"""

from __future__ import annotations

import itertools
import json
import operator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ops
from interp import DTypeError, InterpError, Spec, apply, default_dtype_scope, infer, tensor
from ops.elemwise import ROWS, Elemwise

INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
FLOATS = ["float16", "float32", "float64"]
DTYPES = ["bool", *INTEGERS, *FLOATS, "complex64", "complex128"]
SCALARS: list[Any] = [True, 1, 1.5, 1.5j]
SIGNS = {
    "add": operator.add, "mul": operator.mul, "truediv": operator.truediv, "floordiv": operator.floordiv,
    "pow": operator.pow, "lt": operator.lt,
}  # fmt: skip
KIND = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}


def of(dtype: str, shape: tuple[int, ...] = (2,)) -> Any:
    return tensor(np.ones(shape, dtype))


def wanted(a: str, b: str) -> Any:
    """numpy's promotion, but for integers beside floating operands. None where there is none."""
    first, second = sorted(map(np.dtype, (a, b)), key=lambda dtype: KIND[dtype.kind])
    if first.kind in "iu" and second.kind in "fc":
        return second
    found = np.promote_types(first, second)
    return None if found.kind == "f" and second.kind in "iu" else found


@pytest.mark.parametrize(("a", "b"), list(itertools.product(DTYPES, DTYPES)))
def test_arrays_meet_in_one_dtype_whatever_their_shapes_and_order(a: str, b: str) -> None:
    for shape in [(), (2,)]:
        if wanted(a, b) is None:
            with pytest.raises(DTypeError, match=r"cast one with ops\.astype"):
                of(a) + of(b, shape)
            continue
        assert (of(a) + of(b, shape)).dtype == (of(b, shape) + of(a)).dtype == wanted(a, b)
        assert (of(a) == of(b, shape)).dtype == np.bool_


@pytest.mark.parametrize(("dtype", "scalar"), list(itertools.product(DTYPES, SCALARS)))
@pytest.mark.parametrize("default", ["float32", "float64"])
def test_python_scalars_are_weak(dtype: str, scalar: Any, default: str) -> None:
    array = np.dtype(dtype)
    with default_dtype_scope(default):
        kind = np.asarray(scalar).dtype.kind
        if KIND[kind] <= KIND[array.kind]:
            expected = array
        elif kind == "i":
            expected = np.dtype("int32")
        elif kind == "f":
            expected = np.dtype(default)
        else:
            real = array if array.kind == "f" else np.dtype(default)
            expected = np.dtype("complex128" if real == np.float64 else "complex64")
        assert (of(dtype) + scalar).dtype == (scalar + of(dtype)).dtype == expected


@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy_scalars_are_not_weak(dtype: str) -> None:
    assert (of("float32") * np.float64(2)).dtype == np.float64
    assert (of(dtype) + np.ones((), "complex128")[()]).dtype == np.complex128


def test_python_scalars_alone_stay_weak() -> None:
    from interp.value import is_weak

    assert is_weak(apply(Elemwise.ADD, 1, 2.0)[0])
    assert (of("float16") * apply(Elemwise.EXP, 1.0)[0]).dtype == np.float16


@pytest.mark.parametrize("dtype", ["bool", *INTEGERS])
@pytest.mark.parametrize("default", ["float32", "float64"])
def test_floating_functions_of_integers_give_the_default_dtype(dtype: str, default: str) -> None:
    with default_dtype_scope(default):
        for result in (of(dtype) / of(dtype), ops.exp(of(dtype)), ops.atan2(of(dtype), 1), ops.hypot(1, of(dtype))):
            assert result.dtype == np.dtype(default)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", sorted(ROWS))
def test_every_mode_gives_what_inference_says(mode: str, dtype: str) -> None:
    """Also for half precision, whatever loops a kernel has; what inference refuses, evaluation refuses alike."""
    row = ROWS[mode]
    for shape in [(3,), ()]:
        names = ["bool"] * row.conditions + [dtype] * (row.arity - row.conditions)
        arrays = [np.ones(shape, name) for name in names]
        with np.errstate(all="ignore"):
            try:
                (spec,) = infer(Elemwise(mode), [Spec(shape, name) for name in names])
            except DTypeError:
                with pytest.raises(DTypeError):
                    apply(Elemwise(mode), *arrays)
                continue
            (result,) = apply(Elemwise(mode), *arrays)
        assert (result.shape, result.dtype) == (spec.shape, spec.dtype)


@pytest.mark.parametrize("function", [ops.sigmoid, ops.erf, ops.nn.gelu, ops.nn.silu, ops.nn.softplus, ops.exp])
def test_half_precision_stays_in_gradients(function: Any) -> None:
    from transformations import grad

    x = tensor(np.asarray([0.5, -0.25], np.float16))
    assert grad(lambda x: ops.sum(function(x)))(x).dtype == np.float16


# Python integers that the array's dtype cannot hold.


def test_comparing_with_a_python_integer_out_of_range_is_right() -> None:
    x = tensor(np.asarray([0, 255], np.uint8))
    assert not (x == 300).numpy().any() and (x != -1).numpy().all()
    assert (x < 256).numpy().all() and (x > -1).numpy().all() and not (x >= 1000).numpy().any()


def test_computing_with_a_python_integer_out_of_range_is_an_error() -> None:
    with pytest.raises(DTypeError, match="300 does not fit uint8"):
        of("uint8") + 300


@settings(deadline=None, max_examples=200)
@given(
    st.sampled_from(INTEGERS), st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=4),
    st.integers(-(2**63), 2**63 - 1), st.sampled_from(["eq", "ne", "lt", "le", "gt", "ge"]),
)  # fmt: skip
def test_comparisons_with_python_integers_are_python_s(
    dtype: str, numbers: list[int], other: int, sign: str
) -> None:
    array = np.asarray(numbers, np.int64).astype(dtype)
    compare = getattr(operator, sign)
    assert compare(tensor(array), other).numpy().tolist() == [compare(x, other) for x in array.tolist()]


@settings(deadline=None, max_examples=200)
@given(st.sampled_from(INTEGERS), st.sampled_from(["add", "sub", "mul", "floordiv", "mod", "and_", "or_", "xor"]),
       st.data())  # fmt: skip
def test_integer_arithmetic_is_numpy_s(dtype: str, sign: str, data: Any) -> None:
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    numbers = st.lists(st.integers(int(low), int(high)), min_size=3, max_size=3)
    a, b = (np.asarray(data.draw(numbers), dtype) for _ in range(2))
    compute = getattr(operator, sign)
    with np.errstate(all="ignore"):
        expected = compute(a, b)
        result = compute(tensor(a), tensor(b)).numpy()
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)


# MegEngine's answers, and why ours differ where they do.

GOLDEN = json.loads((Path(__file__).parent / "golden" / "dtype_promotion.json").read_text())


def _operand(name: str) -> Any:
    if name.startswith("py_"):
        return {"py_int": 1, "py_float": 1.5, "py_bool": True}[name]
    return np.dtype(name[3:]).type(1) if name.startswith("np_") else of(name)


def _reason(case: dict[str, str]) -> str:
    """Why the standard or numpy, and so ours, may differ from MegEngine here; "" where there is no reason to."""
    names = [case["a"].removeprefix("np_").removeprefix("py_"), case["b"].removeprefix("np_").removeprefix("py_")]
    kinds = {"int": "i", "float": "f"}
    found = {kinds.get(name) or np.dtype(name).kind for name in names}
    if "float16" in names and found & set("biu"):
        return "an integer beside float16 leaves it float16; MegEngine goes to float32"
    if found == {"i", "u"}:
        return "signed and unsigned integers have a common dtype; MegEngine refuses them"
    if "b" in found and "f" not in found:
        return "a boolean gives way to an integer, and two add up to a boolean as numpy's do; MegEngine goes to float32"
    if case["op"] == "pow" and found <= {"i", "u"}:
        return "an integer power of an integer is an integer; MegEngine goes to float32"
    return ""


@pytest.mark.parametrize("case", GOLDEN, ids=[f"{c['a']}-{c['op']}-{c['b']}" for c in GOLDEN])
def test_megengine_agrees_but_for_stated_reasons(case: dict[str, str]) -> None:
    try:
        result = SIGNS[case["op"]](_operand(case["a"]), _operand(case["b"]))
        ours = str(result.dtype)
    except InterpError as error:
        ours = type(error).__name__
    assert ours == case.get("dtype") or _reason(case)
