"""Rule tables: open to a user's operators, with errors that say which rule is missing or at fault."""

from __future__ import annotations

import attrs
import numpy as np
import pytest

import interp
import ops
from interp import DTypeError, OpDef, Operator, OperatorError, RuleError, ShapeError, Spec, apply, rules, tensor
from transformations import grad, jvp, make_backward_graph, vmap


def test_equal_operators_are_one() -> None:
    a, b = ops.Elemwise("ADD"), ops.Elemwise("ADD")
    assert a == b
    assert hash(a) == hash(b)
    assert interp.operator.memo(a) is interp.operator.memo(b)


def test_parameters_that_compare_equal_but_differ_do_not_share_rules() -> None:
    @attrs.frozen
    class Times(OpDef):
        factor: object

    assert interp.operator.memo(Times(1)) is not interp.operator.memo(Times(1.0))
    assert interp.operator.memo(Times(0.0)) is not interp.operator.memo(Times(-0.0))
    with pytest.raises(DTypeError, match="hashable"):
        interp.operator.memo(Times([1]))


def make(infer=None, kernel=None, vjp=None, jvp=None, batch=None):
    @attrs.frozen
    class Mine(OpDef):
        pass

    for table, rule in zip(
        (rules.infer, rules.kernel, rules.vjp, rules.jvp, rules.batch), (infer, kernel, vjp, jvp, batch), strict=True
    ):
        if rule is not None:
            table.register(Mine)(rule)
    return Mine()


def same(op, x):
    return Spec(x.shape, x.dtype)


def test_a_missing_rule_says_which_to_write() -> None:
    with pytest.raises(RuleError, match=r"no kernel rule.*\n.*rules.kernel.register\(Mine\)"):
        apply(make(infer=same), tensor(1.0))
    with pytest.raises(RuleError, match="no vjp rule"):
        grad(lambda x: apply(make(infer=same, kernel=lambda op, x: x), x)[0])(tensor(1.0))


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (lambda op, x: (x, x), "gave 2 outputs"),
        (lambda op, x: np.ones(7, np.float32), r"gave float32\[7\]"),
        (lambda op, x: x.astype(complex), "gave complex128"),
    ],
)
def test_a_kernel_that_contradicts_inference_is_at_fault(kernel, message) -> None:
    with pytest.raises(RuleError, match=message):
        apply(make(infer=same, kernel=kernel), tensor([1.0, 2.0]))


@pytest.mark.parametrize(
    ("vjp", "message"),
    [
        (lambda op, x, y, g: [], "gave 0 gradients for 1 inputs"),
        (lambda op, x, y, g: [ops.sum(g[0])], r"gave float32\[\] as the gradient of input 0, which is float32\[2\]"),
        (lambda op, x, y, g: [ops.astype(g[0], "float64")], r"gave float64\[2\]"),
    ],
)
def test_a_gradient_rule_of_the_wrong_kind_is_at_fault(vjp, message) -> None:
    op = make(infer=same, kernel=lambda op, x: x * 2, vjp=vjp)
    with pytest.raises(RuleError, match=message):
        grad(lambda x: ops.sum(apply(op, x)[0]))(tensor([1.0, 2.0]))


def test_a_rule_is_registered_once_unless_replaced() -> None:
    op = make(infer=same, kernel=lambda op, x: x)
    apply(op, tensor(1.0))
    with pytest.raises(RuleError, match="replace=True"):
        rules.kernel.register(type(op))(lambda op, x: x)
    rules.kernel.register(type(op), replace=True)(lambda op, x: x + 1)
    assert apply(op, tensor(1.0))[0].item() == 2.0


def double(op, x):
    return x * 2


@pytest.mark.parametrize("table", rules.tables(), ids=repr)
def test_every_tables_error_names_the_class_and_what_to_write(table) -> None:
    op = make()
    with pytest.raises(RuleError) as caught:
        table.require(op)
    text = str(caught.value)
    assert f"Mine has no {table.name} rule, so " in text
    assert f"@rules.{table.name}.register(Mine)" in text
    assert f"def {table.name}_mine{table.signature}: ..." in text
    assert isinstance(caught.value, TypeError)


def test_the_tables_are_the_ones_that_are_documented() -> None:
    names = [table.name for table in rules.tables()]
    assert names == ["kernel", "infer", "vjp", "jvp", "batch", "merge"]
    for table in rules.tables():
        assert getattr(rules, table.name) is table
        assert f"| `{table.name}` | `{table.signature}` |" in (rules.__doc__ or "")


def test_a_subclass_inherits_rules_and_may_have_its_own() -> None:
    base = make(infer=same, kernel=double)

    class Derived(type(base)):
        pass

    derived = Derived()
    assert apply(derived, tensor(3.0))[0].item() == 6
    rules.kernel.register(Derived)(lambda op, x: x * 5)
    assert apply(derived, tensor(3.0))[0].item() == 15
    assert apply(base, tensor(3.0))[0].item() == 6
    assert Derived in rules.kernel.classes()
    rules.kernel.register(type(base), replace=True)(lambda op, x: x * 7)
    assert apply(base, tensor(3.0))[0].item() == 21
    assert apply(derived, tensor(3.0))[0].item() == 15


def test_a_rule_that_is_replaced_is_used_from_then_on_everywhere() -> None:
    op = make(infer=same, kernel=double, vjp=lambda op, x, y, g: [g[0] * 2.0])
    f = grad(lambda x: apply(op, x)[0])
    program = interp.record(lambda x: apply(op, x)[0], Spec((), "float32"))
    for _ in range(4):
        assert f(tensor(1.0)).item() == 2
        assert program(tensor(1.0))[0].item() == 2
    rules.vjp.register(type(op), replace=True)(lambda op, x, y, g: [g[0] * 9.0])
    rules.kernel.register(type(op), replace=True)(lambda op, x: x * 9)
    assert f(tensor(1.0)).item() == 9
    assert program(tensor(1.0))[0].item() == 9


def test_only_operator_classes_have_rules() -> None:
    for wrong in (int, "ADD", ops.Elemwise.ADD, None):
        with pytest.raises(RuleError, match="takes operator classes"):
            rules.kernel.register(wrong)


def test_a_failed_registration_changes_nothing() -> None:
    op, other = make(infer=same, kernel=double), make(infer=same)
    with pytest.raises(RuleError, match="already has a kernel rule"):
        rules.kernel.register(type(other), type(op))(lambda op, x: x)
    with pytest.raises(RuleError, match="no kernel rule"):
        apply(other, tensor(1.0))
    assert apply(op, tensor(1.0))[0].item() == 2


def test_an_operator_without_inference_is_run_to_see() -> None:
    op = make(kernel=lambda op, x: np.concatenate([x, x]), vjp=lambda op, x, y, g: [g[0][:2] + g[0][2:]])
    assert interp.infer(op, [Spec((2,), "float32")]) == (Spec((4,), "float32"),)
    assert apply(op, tensor([1.0, 2.0]))[0].tolist() == [1, 2, 1, 2]
    assert grad(lambda x: ops.sum(apply(op, x)[0]))(tensor([1.0, 2.0])).tolist() == [2, 2]


def test_a_kernel_for_each_operator_is_asked_once() -> None:
    asked = []

    @attrs.frozen
    class Times(OpDef):
        factor: float

    @rules.kernel.register(Times, per_operator=True)
    def kernel(op):
        asked.append(op.factor)
        return lambda x: x * np.float32(op.factor)

    for _ in range(3):
        assert apply(Times(2.0), tensor(3.0))[0].item() == 6
        assert apply(Times(4.0), tensor(3.0))[0].item() == 12
    assert asked == [2.0, 4.0]


@pytest.mark.parametrize(
    ("infer", "error", "message"),
    [
        (lambda op, x: "float32", RuleError, "must return Specs"),
        (lambda op, x: x.shap, RuleError, r"infer rule of Mine failed on \(float32\[2\]\): .*shap"),
        (lambda op, x: 1 / 0, RuleError, "infer rule of Mine failed.*division"),
        (lambda op, x: (_ for _ in ()).throw(ShapeError("too long")), ShapeError, "too long"),
    ],
)
def test_an_inference_rule_at_fault_is_told_from_a_callers_error(infer, error, message) -> None:
    with pytest.raises(error, match=message):
        apply(make(infer=infer, kernel=double), tensor([1.0, 2.0]))


@pytest.mark.parametrize(
    ("raised", "error"),
    [
        (ValueError("no"), ShapeError),
        (TypeError("no"), DTypeError),
        (np.linalg.LinAlgError("no"), np.linalg.LinAlgError),
    ],
)
def test_a_kernel_that_fails_is_named_with_its_inputs(raised, error) -> None:
    def kernel(op, x):
        raise raised

    with pytest.raises(error, match=r"Mine\(\) failed on \(float32\[2\]\): no") as caught:
        apply(make(infer=same, kernel=kernel), tensor([1.0, 2.0]))
    assert caught.value.__cause__ is raised


def test_other_errors_of_a_kernel_pass_as_they_are() -> None:
    def kernel(op, x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        apply(make(infer=same, kernel=kernel), tensor(1.0))


def test_a_kernels_dtype_is_made_what_inference_says() -> None:
    op = make(infer=same, kernel=lambda op, x: np.asarray(x, np.float64) * 2)
    assert apply(op, tensor([1.0]))[0].dtype == np.float32
    number = make(infer=same, kernel=lambda op, x: 3)  # no array at all
    assert apply(number, tensor(1.0))[0].dtype == np.float32


@pytest.mark.parametrize(
    "vjp",
    [
        lambda op, x, y, g: None,
        lambda op, x, y, g: ["text"],
        lambda op, x, y, g: [g[0], g[0]],
        lambda op, x, y, g: [x[0].numpy()],
        lambda op, x, y: [],
        lambda op, x, y, g: [g[7]],
    ],
)
def test_a_gradient_rule_that_breaks_is_named(vjp) -> None:
    op = make(infer=same, kernel=double, vjp=vjp)
    with pytest.raises(Exception) as caught:
        grad(lambda x: ops.sum(apply(op, x)[0]))(tensor([1.0, 2.0]))
    told = str(caught.value) + "".join(getattr(caught.value, "__notes__", []))
    assert "Mine" in told
    assert (tensor(1.0) + 1.0).item() == 2


@pytest.mark.parametrize(
    "rule", [lambda op, x, y, t: [], lambda op, x, y, t: [ops.sum(t[0])], lambda op, x, y, t: ["a"]]
)
def test_a_tangent_rule_that_breaks_is_named(rule) -> None:
    op = make(infer=same, kernel=double, jvp=rule)
    with pytest.raises(Exception) as caught:
        jvp(lambda x: apply(op, x)[0], (tensor([1.0, 2.0]),), (tensor([1.0, 2.0]),))
    assert "Mine" in str(caught.value) + "".join(getattr(caught.value, "__notes__", []))


@pytest.mark.parametrize(
    "rule",
    [lambda op, n, x, a: ([x[0]], []), lambda op, n, x, a: ([ops.sum(x[0])], [0]), lambda op, n, x, a: ([x[0]], [5])],
)
def test_a_batch_rule_that_breaks_is_named(rule) -> None:
    op = make(infer=same, kernel=double, batch=rule)
    with pytest.raises(Exception) as caught:
        vmap(lambda x: apply(op, x)[0])(tensor([1.0, 2.0]))
    assert "Mine" in str(caught.value) + "".join(getattr(caught.value, "__notes__", []))


def test_no_gradient_is_an_answer() -> None:
    op = make(infer=same, kernel=double, vjp=lambda op, x, y, g: [None])
    assert make_backward_graph(op, [Spec((2,), "float32")]) is None
    assert grad(lambda x: ops.sum(apply(op, x)[0]))(tensor([1.0, 2.0])).tolist() == [0, 0]


def test_an_operator_that_nobody_answers_says_so() -> None:
    @attrs.frozen
    class Question(Operator):
        pass

    with pytest.raises(RuleError, match=r"Question\(\) reached the bottom of the stack"):
        apply(Question())

    @attrs.frozen
    class Polite(Operator):
        def fallback(self, inputs):
            return ["nobody knows"]

    assert apply(Polite()) == ("nobody knows",)


def test_parameters_are_hashed_or_refused_in_words() -> None:
    @attrs.frozen
    class Holds(OpDef):
        value: object

    rules.kernel.register(Holds)(lambda op, x: x)
    with pytest.raises(DTypeError, match="parameters of Holds must be hashable"):
        apply(Holds([1]), tensor(1.0))


def test_optional_inputs_count() -> None:
    def shape(op, x, y=None):
        return Spec(x.shape, x.dtype)

    op = make(infer=shape, kernel=lambda op, x, y=None: x if y is None else x + y)
    assert apply(op, tensor(1.0))[0].item() == 1
    assert apply(op, tensor(1.0), tensor(2.0))[0].item() == 3
    with pytest.raises(OperatorError, match="takes 1 to 2 inputs, not 3"):
        apply(op, tensor(1.0), tensor(2.0), tensor(3.0))
