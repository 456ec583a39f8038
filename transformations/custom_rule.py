"""Functions with derivatives of their own: `Function`, `custom_vjp`, `custom_jvp`.

All lower to one operator, `CustomCall`, that carries the function and its halves as callables. They are ordinary code:
their operators are seen, recorded and differentiated again by every layer below.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from interp import GradError, RuleError, Tensor, apply, pytree, read
from interp.dispatch import Handle
from interp.tensor import as_operand, from_value

from .custom_call import CustomCall, described, zeros_of
from .gradient import vjp

__all__ = ["Function", "custom_jvp", "custom_vjp"]

R = TypeVar("R")
Flat = Sequence[Any]


def _value(x: Any) -> Any:
    x = as_operand(x)
    return read(x) if isinstance(x, Handle) else x


def _is_operand(leaf: Any) -> bool:
    return isinstance(leaf, (Tensor, np.ndarray, np.generic, float, complex)) and not isinstance(leaf, bool)


class Function:
    """A differentiable function given by hand: subclass it, define `forward` and `backward`, call an instance.

    `forward(*inputs)` gets Tensors that no gradient is recorded for here, and may keep what it likes on `self`;
    `backward(*output_grads)` gets one gradient for each output (None where none came) and returns one for each
    Tensor input (None where there is none). Arguments that are not Tensors are handed to `forward` as they are.

    >>> import interp
    >>> from transformations import grad
    >>> class Cube(Function):
    ...     def forward(self, x):
    ...         self.x = x
    ...         return x * x * x
    ...     def backward(self, dy):
    ...         return dy * 3.0 * self.x * self.x
    >>> grad(lambda x: Cube()(x))(interp.tensor(2.0))
    tensor(12.)
    """

    def forward(self, *inputs: Any) -> Any:
        """Compute the output, or a tuple or list of outputs."""
        raise NotImplementedError(f"{type(self).__name__} must define forward")

    def backward(self, *output_grads: Any) -> Any:
        """Give the gradient of each Tensor input."""
        raise NotImplementedError(f"{type(self).__name__} must define backward")

    def __call__(self, *args: Any) -> Any:
        positions = [i for i, arg in enumerate(args) if isinstance(arg, Tensor)]
        operands = [args[i] for i in positions]
        template = [None if isinstance(arg, Tensor) else arg for arg in args]  # keeps no operand alive
        several: list[bool] = []

        def function(values: Flat) -> list[Any]:
            given = list(template)
            for i, value in zip(positions, values, strict=True):
                given[i] = from_value(value)
            result = self.forward(*given)
            several[:] = [isinstance(result, (tuple, list))]
            return [_value(x) for x in (result if several[0] else (result,))]

        def forward(values: Flat) -> tuple[list[Any], Any]:
            outputs = function(values)
            return outputs, dict(vars(self))  # what it kept on itself, so that layers may carry it

        def backward(residuals: Any, cotangents: Flat) -> list[Any]:
            vars(self).update(residuals)
            result = self.backward(*[None if c is None else from_value(c) for c in cotangents])
            gradients = list(result) if isinstance(result, (tuple, list)) else [result]
            return [None if g is None else _value(g) for g in gradients]

        op = CustomCall(type(self).__name__, function, forward, backward)
        outputs = apply(op, *operands)
        results = tuple(x if isinstance(x, Tensor) else from_value(x) for x in outputs)
        return results if several[0] else results[0]


class custom_vjp(Generic[R]):
    """Give a function a gradient of its own: decorate it, then name both halves with `defvjp(forward, backward)`.

    `forward(*args)` returns the output and residuals (a pytree); `backward(residuals, cotangent)` returns a tuple
    with one gradient (a pytree, or None for zeros) for each argument. Missing cotangents are zeros.
    `nondiff_argnums` are handed to `forward` in place and to `backward` first.
    Raises GradError when it is differentiated before `defvjp`.

    >>> import interp, ops
    >>> from transformations import grad
    >>> @custom_vjp
    ... def clip_gradient(x):
    ...     return x
    >>> clip_gradient.defvjp(lambda x: (x, None), lambda _, g: (ops.multiply(g, 0.5),))
    >>> grad(lambda x: clip_gradient(x) * 3.0)(interp.tensor(1.0))
    tensor(1.5)
    """

    def __init__(self, function: Callable[..., R], nondiff_argnums: Sequence[int] = ()) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._nondiff = tuple(nondiff_argnums)
        self._forward: Callable[..., Any] | None = None
        self._backward: Callable[..., Any] | None = None

    def defvjp(self, forward: Callable[..., Any], backward: Callable[..., Any]) -> None:
        """Name the two halves of the gradient."""
        self._forward = forward
        self._backward = backward

    def __call__(self, *args: Any) -> R:
        static = {i: args[i] for i in self._nondiff}
        moving = [arg for i, arg in enumerate(args) if i not in static]
        leaves, tree = pytree.flatten(moving, none_is_leaf=True)
        positions = [i for i, leaf in enumerate(leaves) if _is_operand(leaf)]
        operands = [as_operand(leaves[i]) for i in positions]
        template = [None if _is_operand(leaf) else leaf for leaf in leaves]  # keeps no operand alive
        structures = [pytree.structure_of(arg, none_is_leaf=True) for arg in moving]
        del moving, leaves
        count = len(args)
        out_tree: list[Any] = []
        label = getattr(self._function, "__name__", "custom_vjp")

        def arguments(values: Flat) -> list[Any]:
            given = list(template)
            for i, value in zip(positions, values, strict=True):
                given[i] = from_value(value)
            rest = iter(pytree.unflatten(tree, given))
            return [static[i] if i in static else next(rest) for i in range(count)]

        def flat_output(result: Any) -> list[Any]:
            outputs, structure = pytree.flatten(result)
            out_tree[:] = [structure]
            return [_value(x) for x in outputs]

        def forward(values: Flat) -> tuple[list[Any], Any]:
            if self._forward is None:
                raise GradError(f"{label} has no gradient yet: call {label}.defvjp(forward, backward) first")
            answer = self._forward(*arguments(values))
            if not (isinstance(answer, tuple) and len(answer) == 2):
                raise RuleError(f"the forward half of {label} must return (output, residuals)")
            outputs = flat_output(answer[0])
            return outputs, (answer[1], list(map(described, outputs)))

        def backward(kept: Any, cotangents: Flat) -> list[Any]:
            assert self._backward is not None
            residuals, shapes = kept
            filled = [
                from_value(zeros_of(shape) if c is None else c) for c, shape in zip(cotangents, shapes, strict=True)
            ]
            answer = self._backward(*static.values(), residuals, pytree.unflatten(out_tree[0], filled))
            return _gradients(label, answer, structures, positions)

        def function(values: Flat) -> list[Any]:
            return flat_output(self._function(*arguments(values)))

        op = CustomCall(label, function, forward, backward)
        outputs = apply(op, *operands)
        handles = [x if isinstance(x, Tensor) else from_value(x) for x in outputs]
        return pytree.unflatten(out_tree[0], handles)  # type: ignore[no-any-return]


def _gradients(label: str, answer: Any, structures: list[Any], positions: list[int]) -> list[Any]:
    """The gradients of the operands, in order, from what the backward half returned."""
    if not isinstance(answer, (tuple, list)) or len(answer) != len(structures):
        raise RuleError(
            f"the backward half of {label} must return a tuple of {len(structures)} gradients, one for each argument"
        )
    flat: list[Any] = []
    for gradient, structure in zip(answer, structures, strict=True):
        if gradient is None:
            flat += [None] * structure.num_leaves
            continue
        given, other = pytree.flatten(gradient, none_is_leaf=True)
        if other != structure:
            raise RuleError(f"the backward half of {label} gave {other} as the gradient of {structure}")
        flat += given
    return [None if flat[i] is None else _value(flat[i]) for i in positions]


class custom_jvp(Generic[R]):
    """Give a function a tangent of its own: decorate it, then name the rule with `defjvp(rule)`.

    `rule(primals, tangents)` gets two tuples, a tangent for each argument (zeros where none moves), and returns the
    output and its tangent. Reverse mode transposes it, so the tangent must be linear in the tangents.
    Arguments are Tensors or numbers, the output one Tensor. Raises GradError when it is differentiated before `defjvp`.

    >>> import interp, ops
    >>> from transformations import grad, jvp
    >>> @custom_jvp
    ... def softly(x):
    ...     return ops.abs(x)
    >>> softly.defjvp(lambda primals, tangents: (softly(*primals), tangents[0] * 0.5))
    >>> jvp(softly, (interp.tensor(-2.0),), (interp.tensor(1.0),))
    (tensor(2.), tensor(0.5))
    >>> grad(softly)(interp.tensor(-2.0))
    tensor(0.5)
    """

    def __init__(self, function: Callable[..., R]) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._rule: Callable[..., Any] | None = None

    def defjvp(self, rule: Callable[..., Any]) -> None:
        """Name the tangent rule."""
        self._rule = rule

    def _tangents(self, primals: Flat, tangents: Flat) -> tuple[list[Any], list[Any]]:
        label = getattr(self._function, "__name__", "custom_jvp")
        if self._rule is None:
            raise GradError(f"{label} has no tangent yet: call {label}.defjvp(rule) first")
        filled = [zeros_of(described(p)) if t is None else t for p, t in zip(primals, tangents, strict=True)]
        answer = self._rule(tuple(map(from_value, primals)), tuple(map(from_value, filled)))
        if not (isinstance(answer, tuple) and len(answer) == 2):
            raise RuleError(f"the rule of {label} must return (output, tangent)")
        return [_value(answer[0])], [_value(answer[1])]

    def __call__(self, *args: Any) -> R:
        label = getattr(self._function, "__name__", "custom_jvp")

        def function(values: Flat) -> list[Any]:
            return [_value(self._function(*map(from_value, values)))]

        def forward(values: Flat) -> tuple[list[Any], Any]:
            return function(values), tuple(map(from_value, values))

        def backward(residuals: Any, cotangents: Flat) -> list[Any]:
            primals = [read(x) for x in residuals]
            moving = [i for i, p in enumerate(residuals) if p.dtype.kind in "fc"]

            def pushed(*tangents: Any) -> Any:
                given: list[Any] = [None] * len(primals)
                for i, tangent in zip(moving, tangents, strict=True):
                    given[i] = tangent._value
                return from_value(self._tangents(primals, given)[1][0])

            _, pull = vjp(pushed, *[from_value(zeros_of(described(primals[i]))) for i in moving])
            gradients: list[Any] = [None] * len(primals)
            for i, gradient in zip(moving, pull(from_value(cotangents[0])), strict=True):
                gradients[i] = gradient._value
            return gradients

        op = CustomCall(label, function, forward, backward, self._tangents)
        output = apply(op, *map(as_operand, args))[0]
        return output if isinstance(output, Tensor) else from_value(output)  # type: ignore[return-value]
