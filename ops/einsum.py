"""`einsum`: sums of products written with letters; the gradient by a factor is the same with letters exchanged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from interp import OpDef, OperatorError, ShapeError, Spec, Tensor, rules
from interp.dtypes import is_floating, promote
from interp.tensor import call_one

from .axes import Values, as_handle
from .broadcasting import batch_to_front, broadcast_to, shape_value
from .manipulation import RemoveAxis, moveaxis
from .matmul import bilinear_tangent, cast_like, product_dtype
from .rearranging import Diagonal

__all__ = ["Einsum", "einsum"]

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


@attrs.frozen
class Einsum(OpDef):
    """The sum of products that numpy's `einsum` gives for these letters.

    `inputs` has the letters of each input, none twice in one input; `output` those of the result.
    """

    inputs: tuple[str, ...]
    output: str

    @property
    def subscripts(self) -> str:
        """The same in one string, as it is usually written."""
        return f"{','.join(self.inputs)}->{self.output}"


@rules.infer.register(Einsum)
def _infer(op: Einsum, *xs: Spec) -> Spec:
    if len(xs) != len(op.inputs):
        raise OperatorError(f"einsum({op.subscripts!r}) takes {len(op.inputs)} arrays, not {len(xs)}")
    lengths: dict[str, int] = {}
    for letters, x in zip(op.inputs, xs, strict=True):
        if len(letters) != x.ndim:
            raise ShapeError(f"einsum({op.subscripts!r}): {letters!r} names {len(letters)} axes of {x!r}")
        for letter, length in zip(letters, x.shape, strict=True):
            before = lengths.setdefault(letter, length)
            if length != before:
                listed = ", ".join(map(repr, xs))
                raise ShapeError(f"einsum({op.subscripts!r}) of {listed}: {letter!r} is both {before} and {length}")
    return Spec(tuple(lengths[letter] for letter in op.output), product_dtype("einsum", *xs))


@rules.kernel.register(Einsum)
def _kernel(op: Einsum, *xs: Any) -> Any:
    dtype, _ = promote([(x.dtype, False) for x in xs])
    factors = [x.astype(dtype, copy=False) for x in xs]
    result = np.einsum(op.subscripts, *factors, optimize=len(factors) > 1)
    return result.copy() if len(factors) == 1 else result


@rules.vjp.register(Einsum)
def _vjp(op: Einsum, inputs: Values, outputs: Values, cotangents: Values) -> Any:
    gradients: list[Any] = []
    for i, (letters, x) in enumerate(zip(op.inputs, inputs, strict=True)):
        if not is_floating(x.dtype):
            gradients.append(None)
            continue
        names = [*op.inputs[:i], *op.inputs[i + 1 :], op.output]
        factors = [*inputs[:i], *inputs[i + 1 :], cotangents[0]]
        if not set(letters) <= set("".join(names)):  # an axis that was summed alone: all along it get the same
            names.append(letters)
            factors.append(broadcast_to(np.ones((), x.dtype), shape_value(x)))
        gradients.append(cast_like(call_one(Einsum(tuple(names), letters), *factors), x))
    return gradients


@rules.jvp.register(Einsum)
def _jvp(op: Einsum, inputs: Values, outputs: Values, tangents: Values) -> Any:
    return [bilinear_tangent(op, inputs, tangents)]


@rules.batch.register(Einsum)
def _batch(op: Einsum, size: int, inputs: Values, axes: Values) -> Any:
    lane = next(letter for letter in _LETTERS if letter not in op.subscripts)
    names = tuple(name if axis is None else lane + name for name, axis in zip(op.inputs, axes, strict=True))
    xs = [batch_to_front(x, axis, 0) for x, axis in zip(inputs, axes, strict=True)]
    return [call_one(Einsum(names, lane + op.output), *xs)], [0]


def _parse(subscripts: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """The letters of each input and of the output, with letters in the place of every ellipsis."""
    text = subscripts.replace(" ", "").replace("...", ".")
    left, arrow, output = text.partition("->")
    names = left.split(",")
    if len(names) != len(ranks):
        raise OperatorError(f"einsum({subscripts!r}) names {len(names)} arrays, and was given {len(ranks)}")
    for name in (*names, output):
        wrong = set(name) - set(_LETTERS) - {"."}
        if wrong or name.count(".") > 1:
            raise OperatorError(f"einsum({subscripts!r}): only letters, commas, one '->' and '...' may stand there")
    spare = [letter for letter in _LETTERS if letter not in text]
    hidden = 0
    for name, rank in zip(names, ranks, strict=True):
        rest = rank - len(name.replace(".", ""))
        if rest < 0 or (rest and "." not in name):
            raise ShapeError(f"einsum({subscripts!r}): {name.replace('.', '...')!r} does not name {rank} axes")
        hidden = max(hidden, rest)
    if hidden > len(spare):
        raise OperatorError(f"einsum({subscripts!r}): there are not enough letters for all axes")
    dots = "".join(spare[:hidden])
    if not arrow:
        alone = sorted(letter for letter in set(left) - {",", "."} if left.count(letter) == 1)
        output = ("." if "." in left else "") + "".join(alone)
    elif hidden and "." not in output:
        raise OperatorError(f"einsum({subscripts!r}): the axes of '...' are missing from the output")
    filled = []
    for name, rank in zip(names, ranks, strict=True):
        rest = rank - len(name.replace(".", ""))
        filled.append(name.replace(".", dots[hidden - rest :]))
    output = output.replace(".", dots)
    if len(set(output)) != len(output) or not set(output) <= set("".join(filled)):
        raise OperatorError(f"einsum({subscripts!r}): the output must name axes of the inputs, each once")
    return filled, output


def _diagonals(x: Tensor, letters: str) -> tuple[Tensor, str]:
    """`x` with every pair of axes of one letter replaced by its diagonal."""
    while len(set(letters)) != len(letters):
        double = next(letter for letter in letters if letters.count(letter) > 1)
        first, second = [i for i, letter in enumerate(letters) if letter == double][:2]
        if x.shape[first] != x.shape[second]:
            raise ShapeError(f"einsum: {double!r} is both {x.shape[first]} and {x.shape[second]}")
        x = call_one(Diagonal(), moveaxis(x, (first, second), (-2, -1)))
        letters = letters[:first] + letters[first + 1 : second] + letters[second + 1 :] + double
    return x, letters


def _without_stretched(pairs: list[tuple[Tensor, str]]) -> list[tuple[Tensor, str]]:
    """Operands without the axes of length 1 that are stretched to the length of another operand's."""
    longest: dict[str, int] = {}
    for x, letters in pairs:
        for letter, length in zip(letters, x.shape, strict=True):
            if length != 1:
                longest[letter] = length
    result = []
    for x, letters in pairs:
        axes = tuple(i for i, letter in enumerate(letters) if x.shape[i] == 1 and letter in longest)
        kept = "".join(letter for i, letter in enumerate(letters) if i not in axes)
        result.append((call_one(RemoveAxis(axes), x) if axes else x, kept))
    return result


def einsum(subscripts: str, /, *operands: Any) -> Tensor:
    """The sum of products that `subscripts` describes, as numpy's `einsum` does.

    Letters name axes: a letter of several inputs multiplies along them, one missing from the output is summed
    over, one twice in an input takes the diagonal; `...` stands for axes that broadcast. Dtypes are promoted.
    Raises OperatorError for letters that make no sense, ShapeError where lengths differ.

    >>> import interp
    >>> x = interp.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> einsum("ij,jk->ik", x, x)
    tensor([[ 7., 10.],
            [15., 22.]])
    >>> einsum("ii", x)
    tensor(5.)
    """
    handles = list(map(as_handle, operands))
    names, output = _parse(subscripts, [x.ndim for x in handles])
    pairs = [_diagonals(x, name) for x, name in zip(handles, names, strict=True)]
    pairs = _without_stretched(pairs)
    return call_one(Einsum(tuple(name for _, name in pairs), output), *[x for x, _ in pairs])
