"""What goes wrong is said in words: the operator, the shapes, the layer, the user's own line, and what to do."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import interp
import ops
from interp import (
    DTypeError,
    GradError,
    IndexOutOfRangeError,
    InterpError,
    LeakedValueError,
    LinearAlgebraError,
    OperatorError,
    RuleError,
    ShapeError,
    Spec,
    StackError,
    Tensor,
    TraceError,
    apply,
    record,
    tensor,
)
from tests.layers import Box, Note
from transformations import Grad, grad, hessian, jvp, vmap


@pytest.mark.parametrize("bad", ["text", None, object(), ["a"], np.array(["a"]), {"a": 1}])
def test_what_is_no_number_is_refused(bad: object) -> None:
    with pytest.raises(DTypeError):
        tensor(bad)
    with pytest.raises((DTypeError, TypeError)):
        tensor(1.0) + bad
    with pytest.raises(DTypeError):
        ops.add(bad, 1.0)


def test_ragged_data_is_refused() -> None:
    with pytest.raises(ShapeError, match="regular"):
        tensor([[1.0], [1.0, 2.0]])


def test_a_wrong_number_of_inputs_is_the_callers_error() -> None:
    with pytest.raises(OperatorError, match="takes 2 inputs, not 1"):
        apply(ops.Elemwise.ADD, tensor(1.0))
    with pytest.raises(OperatorError, match="takes 1 inputs, not 2"):
        apply(ops.Elemwise.EXP, tensor(1.0), tensor(1.0))


def test_shape_errors_name_operator_and_shapes() -> None:
    with pytest.raises(ShapeError, match=r"ADD.*\(2,\), \(3,\) do not broadcast"):
        tensor([1.0, 2.0]) + tensor([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="broadcast"):  # and is what numpy's users catch
        tensor([1.0, 2.0]) + tensor([1.0, 2.0, 3.0])


def test_truth_needs_one_element() -> None:
    with pytest.raises(ShapeError, match="neither true nor false"):
        bool(tensor([1.0, 2.0]))
    with pytest.raises(ValueError, match="neither true nor false"):
        bool(tensor([]))


def test_matrices_without_an_answer_are_typed_errors() -> None:
    singular = tensor(np.zeros((2, 2), np.float32))
    for function in (ops.linalg.inv, lambda a: ops.linalg.cholesky(a - tensor(np.eye(2, dtype=np.float32)))):
        with pytest.raises(interp.LinearAlgebraError):
            function(singular)
        with pytest.raises(np.linalg.LinAlgError):
            function(singular)


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (ShapeError, ValueError),
        (DTypeError, TypeError),
        (IndexOutOfRangeError, IndexError),
        (OperatorError, ValueError),
        (RuleError, TypeError),
        (GradError, RuntimeError),
        (TraceError, RuntimeError),
        (LeakedValueError, RuntimeError),
        (StackError, RuntimeError),
        (LinearAlgebraError, np.linalg.LinAlgError),
    ],
)
def test_every_error_is_one_of_ours_and_one_that_numpys_users_catch(error: Any, builtin: Any) -> None:
    assert issubclass(error, InterpError)
    assert issubclass(error, builtin)
    assert error.__doc__
    assert isinstance(pickle.loads(pickle.dumps(error("text"))), error)


def test_all_public_errors_are_in_the_list() -> None:
    errors = {
        n for n in interp.__all__ if isinstance(getattr(interp, n), type) and issubclass(getattr(interp, n), Exception)
    }
    assert errors == {
        "InterpError", "ShapeError", "DTypeError", "IndexOutOfRangeError", "OperatorError", "RuleError", "GradError",
        "TraceError", "LeakedValueError", "StackError", "LinearAlgebraError",
    }  # fmt: skip


CONVERSIONS: dict[str, Callable[[Tensor], Any]] = {
    "float": lambda x: float(ops.sum(x)),
    "int": lambda x: int(ops.sum(x)),
    "complex": lambda x: complex(ops.sum(x)),
    "item": lambda x: ops.sum(x).item(),
    "numpy": lambda x: x.numpy(),
    "tolist": lambda x: x.tolist(),
    "asarray": lambda x: np.asarray(x),
    "format": lambda x: f"{ops.sum(x):.2f}",
    "pickle": lambda x: pickle.dumps(x),
}
LAYERS: dict[str, tuple[type[Exception], str, Callable[[Any], Any]]] = {
    "grad": (GradError, "GradTransformation", lambda f: grad(f)(tensor([1.0, 2.0]))),
    "jvp": (GradError, "JvpTransformation", lambda f: jvp(f, (tensor([1.0, 2.0]),), (tensor([1.0, 2.0]),))),
    "vmap": (TraceError, "VmapTransformation", lambda f: vmap(f)(tensor([[1.0, 2.0]]))),
    "record": (TraceError, "Recorder", lambda f: record(f, Spec((2,), "float32"))),
    "vmap of grad": (GradError, "GradTransformation 'my_loss' over VmapTransformation", lambda f: vmap(grad(f))(tensor([[1.0, 2.0]]))),
    "grad of vmap": (TraceError, "VmapTransformation over GradTransformation", lambda f: grad(lambda x: ops.sum(vmap(f)(x)))(tensor([[1.0, 2.0]]))),
}  # fmt: skip


@pytest.mark.parametrize("layers", LAYERS)
@pytest.mark.parametrize("conversion", CONVERSIONS)
def test_data_that_is_not_there_is_said_with_argument_and_layers(layers: str, conversion: str) -> None:
    error, names, run = LAYERS[layers]

    def my_loss(x: Tensor) -> Any:
        return CONVERSIONS[conversion](ops.exp(x))

    with pytest.raises(error) as caught:
        run(my_loss)
    text = str(caught.value)
    assert "computed from argument 0 of my_loss," in text
    assert names in text
    assert "test_errors.py:" in text  # where the layer was opened
    assert "stop_gradient" in text or "ops.where" in text


def test_the_argument_is_named_down_to_the_leaf() -> None:
    def my_loss(parameters: dict[str, Any], scale: float) -> Any:
        return (parameters["layers"][1]["w"] * scale).numpy()

    w = tensor([1.0, 2.0])
    parameters = {"layers": [{"w": w}, {"w": w}]}
    leaf = r"argument 0\['layers'\]\[1\]\['w'\] of my_loss"
    with pytest.raises(GradError, match=leaf):
        grad(my_loss)(parameters, 2.0)
    with pytest.raises(TraceError, match=leaf):
        vmap(my_loss, in_axes=(0, None))(parameters, 2.0)
    with pytest.raises(GradError, match=leaf):
        jvp(my_loss, (parameters, tensor(2.0)), (parameters, tensor(1.0)))
    with pytest.raises(TraceError, match=leaf):
        record(my_loss, parameters, 2.0)


@pytest.mark.parametrize("layers", ["grad", "jvp"])
def test_an_eager_branch_is_right_where_there_is_one_truth(layers: str) -> None:
    LAYERS[layers][2](lambda x: ops.sum(x) if ops.sum(x) > 0 else ops.sum(-x))
    assert grad(lambda x: x * x if x > 0 else -x)(tensor(3.0)).item() == 6
    assert grad(lambda x: x * x if x > 0 else -x)(tensor(-3.0)).item() == -1


@pytest.mark.parametrize("layers", ["vmap", "record", "vmap of grad"])
def test_an_eager_branch_is_an_error_where_there_is_none(layers: str) -> None:
    with pytest.raises(TraceError, match=r"a Python branch on .*argument 0 of .*ops.where"):
        LAYERS[layers][2](lambda x: ops.sum(x) if ops.sum(x) > 0 else ops.sum(-x))


def test_a_representation_is_never_an_error() -> None:
    seen: list[str] = []

    def look(x: Tensor) -> Tensor:
        seen.extend([repr(x), str(x), f"{x}", repr(x._value), repr(x * 2.0)])
        return ops.sum(x)

    for _, _, run in LAYERS.values():
        run(look)
    hessian(look)(tensor([1.0, 2.0]))
    assert len(seen) >= 5 * len(LAYERS)
    kept: list[Tensor] = []
    vmap(lambda x: kept.append(x) or x)(tensor([1.0, 2.0]))
    record(lambda x: kept.append(x) or x, Spec((2,), "float32"))
    jvp(lambda x: kept.append(x) or x, (tensor(1.0),), (tensor(1.0),))
    with Box(settles=False):
        kept.append(tensor(1.0) * 2.0)
    for x in kept:
        assert "finished" in repr(x), x
        with pytest.raises(LeakedValueError, match=r"opened at test_errors.py:\d+"):
            x + 1.0


def test_a_wrapper_that_says_nothing_of_itself_still_has_a_representation() -> None:
    class Bare(interp.Wrapper):
        def __init__(self, scope: Any) -> None:
            self.scope = scope

    class Wraps(interp.Transformation):
        def apply_transformation(self, op: Any, inputs: Any) -> Any:
            return [Bare(self.scope)] if op.computes else apply(op, *inputs)

    with Wraps():
        x = tensor(1.0) + 1.0
        assert repr(x).startswith("tensor(<")
    assert "of a finished Wraps" in repr(x)


def test_operators_and_inputs_that_are_none_are_refused_in_words() -> None:
    for wrong in ("ADD", ops.Elemwise, None, 3):
        for layer in (Note("n"), Grad(), Box()):
            with layer, pytest.raises(OperatorError, match="apply takes an operator first"):
                apply(wrong, tensor(1.0))
    for wrong in ("x", None, object(), np.array([None])):
        with pytest.raises(InterpError, match=r"not a Tensor, an array or a number|dtype object"):
            apply(ops.Elemwise.ADD, tensor(1.0), wrong)
        with pytest.raises(DTypeError, match=r"Elemwise\(mode='ADD'\), input 1: "):
            ops.add(tensor(1.0), wrong)
    with pytest.raises(TypeError, match="unsupported operand"):
        tensor(1.0) + "x"


def test_errors_within_layers_leave_no_trace() -> None:
    x = tensor([1.0, 2.0])
    for f in (grad, vmap, hessian, lambda f: lambda x: jvp(f, (x,), (x,))):
        for raised in (ShapeError, ZeroDivisionError, KeyboardInterrupt):

            def fails(x: Tensor) -> Tensor:
                ops.exp(x)
                raise raised("here")

            with pytest.raises(raised, match="here"):
                f(fails)(x)
            assert len(interp.stack()) == 1
    assert grad(lambda x: ops.sum(x * x))(x).tolist() == [2, 4]


def test_lines_name_the_users_file_and_text() -> None:
    from interp.errors import Line, user_line

    here = user_line()
    assert str(here) == repr(here)
    assert "here = user_line()" in str(here)
    assert str(Line("<nowhere>", 0)) == "<nowhere>"
    assert str(Line("/no/such/file.py", 3)) == "file.py:3"
