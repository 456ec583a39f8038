"""The functional front of gradients: `grad`, `value_and_grad`, `vjp`, `jacrev`, `hessian`, `hvp`.

Each opens a `GradTransformation` with a key of its own around one call of the function; so they nest in each other,
in `Grad` scopes and in a `GradManager`, without knowing of one another. Arguments and results are pytrees.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from interp import DTypeError, GradError, OperatorError, ShapeError, apply, pytree, read
from interp.dispatch import Handle
from interp.dtypes import is_floating
from interp.tensor import as_operand, from_value
from interp.value import dtype_of, settle, shape_of, short
from ops.broadcasting import BroadcastTo, shape_value

from .grad_operators import AttachGrad, DetachGrad
from .grad_transformation import GradTransformation
from .tape import GradFn, GradKey, check_seed, walk

__all__ = ["grad", "hessian", "hvp", "jacrev", "stop_gradient", "value_and_grad", "vjp"]


def name_of(f: Callable[..., Any]) -> str:
    return getattr(f, "__name__", type(f).__name__)


def value_of(x: Any) -> Any:
    """The value of a leaf of a pytree. Raises DTypeError where it is none."""
    operand = as_operand(x)
    return settle(read(operand) if isinstance(operand, Handle) else operand)


class _Argument:
    """One differentiated argument: its leaves, its structure, and the tape entries of the leaves."""

    def __init__(self, f: Callable[..., Any], position: int, arg: Any) -> None:
        paths, leaves, self.tree = pytree.flatten_with_paths(arg)
        self.values: list[Any] = []
        self.labels: list[str] = []
        self.fns: list[GradFn] = []
        for path, leaf in zip(paths, leaves, strict=True):
            where = f"argument {position}{path} of {name_of(f)}"
            try:
                value = value_of(leaf)
            except DTypeError as error:
                raise GradError(f"{where} cannot be differentiated: {error}") from None
            if not is_floating(dtype_of(value)):
                raise GradError(
                    f"{where} is {short(value)}; gradients are of floating values. Cast it with "
                    "ops.astype(x, 'float32'), or leave it out of argnums"
                )
            self.values.append(value)
            self.labels.append(where)

    def attach(self, key: GradKey) -> Any:
        """The argument with every leaf attached to `key`."""
        attached = [
            apply(AttachGrad(key, label), value, None)[0] for value, label in zip(self.values, self.labels, strict=True)
        ]
        self.fns = [value.fn for value in attached]
        return pytree.unflatten(self.tree, list(map(from_value, attached)))

    def gradient(self, found: dict[GradFn, Any]) -> Any:
        """The gradients of the leaves in the structure of the argument; zeros where nothing came."""
        leaves = [
            from_value(found[fn] if found.get(fn) is not None else zeros_like(value))
            for fn, value in zip(self.fns, self.values, strict=True)
        ]
        return pytree.unflatten(self.tree, leaves)


def zeros_like(value: Any) -> Any:
    """Zeros of the shape and dtype of a value, made by operators."""
    return apply(BroadcastTo(), np.zeros((), dtype_of(value)), shape_value(value))[0]


class _Pullback:
    """A function differentiated at a point: its outputs, and the way back from them."""

    def __init__(
        self, f: Callable[..., Any], args: Sequence[Any], positions: Sequence[int], options: dict[str, Any]
    ) -> None:
        self.label = name_of(f)
        self.arguments = [_Argument(f, i, args[i]) for i in positions]
        given = list(args)
        layer = GradTransformation(GradKey(self.label), functional=True)
        with layer:
            key = layer.key
            assert key is not None
            for i, argument in zip(positions, self.arguments, strict=True):
                given[i] = argument.attach(key)
            result = f(*given, **options)
            leaves, self.tree = pytree.flatten(result)
            values = [settle(value_of(leaf)) for leaf in leaves]
            self.slots = [value.slot if layer.mine(value) else None for value in values]
            self.outputs = [value.value if layer.mine(value) else value for value in values]
            key.freeze()

    def result(self) -> Any:
        """The outputs, as the function returned them."""
        return pytree.unflatten(self.tree, list(map(from_value, self.outputs)))

    def pull(self, cotangents: Sequence[Any], release: bool, outputs: int | None = None) -> tuple[Any, ...]:
        """The gradients of the arguments, for gradients of the (first) outputs."""
        count = len(self.outputs) if outputs is None else outputs
        seeds = [check_seed(c, y) for c, y in zip(cotangents, self.outputs[:count], strict=True)]
        found = walk(self.slots[:count], seeds, release)
        return tuple(argument.gradient(found) for argument in self.arguments)


def positions_of(f: Callable[..., Any], argnums: int | Sequence[int], count: int) -> list[int]:
    """`argnums` as positions. Raises OperatorError for one that does not exist or is named twice."""
    numbers = [argnums] if isinstance(argnums, int) else list(argnums)
    positions = [n + count if n < 0 else n for n in numbers]
    if len(set(positions)) != len(positions) or not all(0 <= n < count for n in positions):
        raise OperatorError(f"argnums={argnums} does not fit {name_of(f)}, which was called with {count} arguments")
    return positions


def _seed_of_scalar(f: Callable[..., Any], pullback: _Pullback, outputs: int) -> list[Any]:
    if outputs != 1:
        raise GradError(
            f"grad needs a function with one scalar output; {name_of(f)} returned {outputs}. "
            "Use vjp or jacrev, or has_aux=True for (output, extra)"
        )
    value = pullback.outputs[0]
    if shape_of(value) != ():
        raise ShapeError(
            f"grad needs a scalar output; {name_of(f)} returned {short(value)}. Use ops.sum, or vjp or jacrev"
        )
    dtype = dtype_of(value)
    if dtype.kind != "f":
        raise GradError(f"grad needs a real floating output; {name_of(f)} returned {short(value)}")
    return [np.ones((), dtype)]


def value_and_grad(
    f: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., tuple[Any, Any]]:
    """A function of the same arguments that returns `(f(...), gradient)`.

    `f` returns one scalar; with `has_aux` it returns `(scalar, extra)`, and the new function
    `((scalar, extra), gradient)`. The gradient has the structure of argument `argnums` (a tuple for several), the
    shapes and dtypes of its leaves, and zeros where the output does not depend on a leaf.
    Raises GradError for arguments that are not floating and outputs that are not one real scalar.

    >>> import interp
    >>> value_and_grad(lambda x: x * x)(interp.tensor(3.0))
    (tensor(9.), tensor(6.))
    """
    if not callable(f):
        raise OperatorError(f"value_and_grad takes a function, not {type(f).__name__}")

    @functools.wraps(f)
    def differentiated(*args: Any, **options: Any) -> tuple[Any, Any]:
        positions = positions_of(f, argnums, len(args))
        pullback = _Pullback(f, args, positions, options)
        result = pullback.result()
        outputs = len(pullback.outputs)
        if has_aux:
            if not (isinstance(result, tuple) and len(result) == 2):
                raise GradError(f"with has_aux=True, {name_of(f)} must return (output, extra)")
            outputs = len(pytree.leaves_of(result[0]))
        gradients = pullback.pull(_seed_of_scalar(f, pullback, outputs), release=True, outputs=outputs)
        return result, gradients[0] if isinstance(argnums, int) else gradients

    return differentiated


def grad(f: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function of the same arguments that returns the gradient of `f`, as `value_and_grad` does.

    With `has_aux`, `(gradient, extra)`.

    >>> import interp
    >>> grad(grad(lambda x: x * x * x))(interp.tensor(2.0))
    tensor(12.)
    """
    both = value_and_grad(f, argnums, has_aux)

    @functools.wraps(f)
    def differentiated(*args: Any, **options: Any) -> Any:
        result, gradient = both(*args, **options)
        return (gradient, result[1]) if has_aux else gradient

    return differentiated


def vjp(f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """`(f(*primals), vjp_fn)`: `vjp_fn(cotangent)` gives a tuple, the gradient of each primal.

    The cotangent has the structure of the output. `vjp_fn` may be called again, later, and under other
    transformations. With `has_aux`, `f` returns `(output, extra)`, and vjp `(output, vjp_fn, extra)`.

    >>> import interp
    >>> y, pull = vjp(lambda x, y: x * y, interp.tensor(2.0), interp.tensor(5.0))
    >>> pull(interp.tensor(1.0))
    (tensor(5.), tensor(2.))
    """
    pullback = _Pullback(f, primals, range(len(primals)), {})
    result = pullback.result()
    extra = None
    if has_aux:
        if not (isinstance(result, tuple) and len(result) == 2):
            raise GradError(f"with has_aux=True, {name_of(f)} must return (output, extra)")
        result, extra = result
    tree = pytree.structure_of(result)

    def vjp_fn(cotangent: Any) -> tuple[Any, ...]:
        leaves, structure = pytree.flatten(cotangent)
        if structure != tree:
            raise GradError(f"the cotangent has the structure {structure}, the output of {pullback.label} {tree}")
        return pullback.pull([value_of(leaf) for leaf in leaves], release=False, outputs=len(leaves))

    return (result, vjp_fn, extra) if has_aux else (result, vjp_fn)


def jacrev(f: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """A function that returns the Jacobian of `f` by argument `argnums`, an output element at a time.

    For an output of shape S and a leaf of shape T, an array of shape S + T; the structure of the output outside,
    that of the argument inside.

    >>> import interp
    >>> jacrev(lambda x: x * x)(interp.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """

    @functools.wraps(f)
    def jacobian(*args: Any, **options: Any) -> Any:
        positions = positions_of(f, argnums, len(args))
        pullback = _Pullback(f, args, positions, options)
        rows = [_jacobian_rows(pullback, i) for i in range(len(pullback.outputs))]
        picked = [row[0] if isinstance(argnums, int) else row for row in rows]
        return pytree.unflatten(pullback.tree, picked)

    return jacobian


def _jacobian_rows(pullback: _Pullback, output: int) -> tuple[Any, ...]:
    """The Jacobian of one output leaf: for each argument, its structure with leaves of shape S + T."""
    from ops.joining import stack
    from ops.manipulation import reshape

    shape, dtype = shape_of(pullback.outputs[output]), dtype_of(pullback.outputs[output])
    size = int(np.prod(shape, dtype=int))
    pulled: list[list[Any]] = []
    trees = pytree.structure_of(tuple(a.gradient({}) for a in pullback.arguments))
    for element in range(size):
        seed = np.zeros(size, dtype)
        seed[element] = 1
        found = walk([pullback.slots[output]], [seed.reshape(shape)], False)
        gradients = tuple(argument.gradient(found) for argument in pullback.arguments)
        pulled.append(pytree.leaves_of(gradients))
    values = [value for argument in pullback.arguments for value in argument.values]
    leaves = [
        reshape(stack([row[i] for row in pulled]), (*shape, *shape_of(value)))
        if size
        else from_value(np.zeros((*shape, *shape_of(value)), dtype_of(value)))
        for i, value in enumerate(values)
    ]
    return pytree.unflatten(trees, leaves)  # type: ignore[no-any-return]


def hessian(f: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """A function that returns the matrix of second derivatives of `f` by argument `argnums`.

    For a leaf of shape T and a scalar output, an array of shape T + T.

    >>> import interp
    >>> hessian(lambda x: x[0] * x[1])(interp.tensor([2.0, 3.0]))
    tensor([[0., 1.],
            [1., 0.]])
    """
    return jacrev(jacrev(f, argnums), argnums)


def hvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """The Hessian of a scalar function times a vector, without making the Hessian.

    `primals` and `tangents` are tuples of the arguments and of as many pytrees of their structure. Returns what
    `grad` by all arguments would (for one argument not a tuple), multiplied.

    >>> import interp
    >>> hvp(lambda x: x * x * x, (interp.tensor(2.0),), (interp.tensor(1.0),))
    tensor(12.)
    """
    if len(primals) != len(tangents):
        raise OperatorError(f"hvp: {len(primals)} primals need {len(primals)} tangents, not {len(tangents)}")
    numbers = tuple(range(len(primals)))
    _, pull = vjp(lambda *args: grad(f, argnums=numbers)(*args), *primals)
    result = pull(tuple(tangents))
    return result[0] if len(primals) == 1 else result


def stop_gradient(x: Any) -> Any:
    """`x`, a pytree, as a constant: no gradient layer of the stack follows it further.

    >>> import interp
    >>> grad(lambda x: x * stop_gradient(x))(interp.tensor(3.0))
    tensor(3.)
    """
    detach = DetachGrad(everywhere=True)

    def cut(leaf: Any) -> Any:
        if isinstance(leaf, Handle):
            return apply(detach, leaf)[0]
        return leaf

    return pytree.map_leaves(cut, x)
