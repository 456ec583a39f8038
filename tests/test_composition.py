"""Layers compose: gradients, tangents, batches and custom rules in each other, in any order."""

from __future__ import annotations

import numpy as np
import pytest

import ops
from interp import LeakedValueError, RuleError, ShapeError, TraceError, tensor
from transformations import Function, custom_jvp, custom_vjp, grad, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap

X = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]], np.float64)


def f(x):
    """A function of one example, with a scalar result."""
    return ops.sum(ops.exp(x) * x) + x[0] * x[1]


@custom_vjp
def doubled(x):
    """Its gradient is twice what it should be, so that one can see whose rule was used."""
    return x * x


doubled.defvjp(lambda x: (x * x, x), lambda x, g: (g * x * 4.0,))


@custom_jvp
def tripled(x):
    return x * x


tripled.defjvp(lambda primals, tangents: (primals[0] * primals[0], tangents[0] * primals[0] * 6.0))


class Scaled(Function):
    def forward(self, x):
        return x * x

    def backward(self, dy):
        return dy * 7.0


class Cubed(Function):
    """Keeps its input on itself, as MegEngine's users do; its gradient is twice what it should be."""

    def forward(self, x):
        self.x = x
        return x * x * x

    def backward(self, dy):
        return dy * self.x * self.x * 6.0


def close(a, b):
    np.testing.assert_allclose(np.asarray(a.numpy()), np.asarray(b.numpy() if hasattr(b, "numpy") else b), rtol=1e-6)


def rows(g, xs):
    return np.stack([g(tensor(x)).numpy() for x in xs])


def test_vmap_of_grad_is_the_gradient_of_each_example() -> None:
    close(vmap(grad(f))(tensor(X)), rows(grad(f), X))


def test_grad_of_vmap_is_the_gradient_of_the_sum() -> None:
    close(grad(lambda x: ops.sum(vmap(f)(x)))(tensor(X)), rows(grad(f), X))


def test_jvp_of_vmap_and_vmap_of_jvp_agree() -> None:
    v = np.ones_like(X)
    one = jvp(vmap(f), (tensor(X),), (tensor(v),))[1]
    other = vmap(lambda x, t: jvp(f, (x,), (t,))[1])(tensor(X), tensor(v))
    close(one, other)


def test_forward_over_reverse_and_reverse_over_forward_are_the_hessian() -> None:
    x = tensor(X[0])
    close(jacfwd(grad(f))(x), hessian(f)(x))
    close(jacrev(jacfwd(f))(x), hessian(f)(x))


def test_nested_tangents_do_not_mix() -> None:
    def outer(x):
        return x * jvp(lambda y: x + y, (tensor(1.0),), (tensor(1.0),))[1]

    assert jvp(outer, (tensor(3.0),), (tensor(1.0),))[1].item() == 1.0


def test_linearize_pushes_as_jvp_does() -> None:
    _, push = linearize(f, tensor(X[0]))
    close(push(tensor(X[1])), jvp(f, (tensor(X[0]),), (tensor(X[1]),))[1])


def test_nested_vmaps() -> None:
    close(vmap(lambda a: vmap(lambda b: a * b)(tensor(X[0])))(tensor(X[1])), np.multiply.outer(X[1], X[0]))


@pytest.mark.parametrize(("rule", "factor"), [(doubled, 4.0), (tripled, 6.0), (lambda x: Scaled()(x), None)])
def test_a_custom_rule_is_kept_under_every_layer(rule, factor) -> None:
    x = tensor(X)

    def wanted(values):
        return values * factor if factor else np.full_like(values, 7.0)

    close(grad(lambda x: ops.sum(rule(x)))(x), wanted(X))
    close(grad(lambda x: ops.sum(vmap(rule)(x)))(x), wanted(X))
    close(vmap(grad(rule))(x[0]), wanted(X[0]))
    close(grad(lambda x: ops.sum(vmap(vmap(rule))(x)))(x), wanted(X))
    close(jvp(rule, (x,), (x,))[1], wanted(X) * X)
    close(jvp(vmap(rule), (x,), (x,))[1], wanted(X) * X)
    close(vmap(lambda t: jvp(rule, (t,), (t,))[1])(x), wanted(X) * X)


def test_what_a_function_keeps_on_itself_goes_through_every_layer() -> None:
    x = tensor(X)
    close(grad(lambda x: ops.sum(Cubed()(x)))(x), 6 * X**2)
    close(grad(lambda x: ops.sum(vmap(lambda r: Cubed()(r))(x)))(x), 6 * X**2)
    close(grad(lambda x: ops.sum(vmap(vmap(lambda r: Cubed()(r)))(x)))(x), 6 * X**2)
    close(vmap(vmap(grad(lambda t: Cubed()(t))))(x), 6 * X**2)
    close(jvp(lambda t: Cubed()(t), (x,), (x,))[1], 6 * X**3)
    close(grad(lambda x: ops.sum(grad(lambda y: ops.sum(Cubed()(y)))(x)))(x), 12 * X)


def test_a_custom_gradient_of_what_is_the_same_for_all_examples_is_summed() -> None:
    @custom_vjp
    def product(w, x):
        return w * x

    product.defvjp(lambda w, x: (w * x, (w, x)), lambda r, g: (g * r[1] * 10.0, g * r[0]))
    w = tensor(2.0, dtype="float64")
    got = grad(lambda w: ops.sum(vmap(product, in_axes=(None, 0))(w, tensor(X[0]))))(w)
    assert got.item() == pytest.approx(10 * X[0].sum())


def test_forward_mode_through_a_backward_that_is_not_linear_asks_for_a_rule() -> None:
    @custom_vjp
    def clipped(x):
        return x * 1.0

    clipped.defvjp(lambda x: (x * 1.0, None), lambda _, g: (ops.clip(g, -1.0, 1.0),))
    assert grad(lambda x: clipped(x) * 9.0)(tensor(1.0)).item() == 1.0
    with pytest.raises(RuleError, match="custom_jvp"):
        jvp(clipped, (tensor(1.0),), (tensor(1.0),))


def test_vmap_places_axes_and_refuses_what_does_not_fit() -> None:
    x = tensor(X)
    close(vmap(lambda r: r * 2.0, in_axes=1, out_axes=1)(x), X * 2)
    close(vmap(lambda r: tensor(1.0), axis_size=2)(x), np.ones(2))
    with pytest.raises(ShapeError, match="different numbers"):
        vmap(lambda a, b: a + b)(x, tensor(X[0]))
    with pytest.raises(ShapeError, match="no axis 5"):
        vmap(lambda a: a, in_axes=5)(x)
    with pytest.raises(ShapeError, match="out_axes is None"):
        vmap(lambda a: a, out_axes=None)(x)
    with pytest.raises(TraceError, match="branch"):
        vmap(lambda a: a if a[0] > 0 else -a)(x)


def test_values_that_outlive_vmap_or_jvp_say_so() -> None:
    kept = []
    vmap(lambda r: kept.append(r) or r)(tensor(X))
    jvp(lambda r: kept.append(r) or r, (tensor(1.0),), (tensor(1.0),))
    for leaked in kept:
        with pytest.raises(LeakedValueError, match="outlived"):
            leaked + 1.0
        repr(leaked)


def test_a_vjp_made_under_vmap_stays_there() -> None:
    got = vmap(lambda x: vjp(f, x)[1](tensor(1.0, dtype="float64"))[0])(tensor(X))
    close(got, rows(grad(f), X))
