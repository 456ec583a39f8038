"""Values: what travels through the stack, and what can be known of one without its data."""

from __future__ import annotations

from typing import Any, ClassVar, TypeAlias, Union

import numpy as np

from .dtypes import DType, dtype_of_scalar
from .errors import DTypeError, LeakedValueError, Line, user_line

__all__ = ["LeafWrapper", "Scope", "Spec", "Value", "Wrapper", "computed_from", "layers_of", "settle", "spec_of"]

Shape: TypeAlias = tuple[int, ...]


class Scope:
    """The lifetime of the wrappers that a layer makes: alive until `close`.

    Wrappers are recognised by their scope object (by identity), never by type alone, so two layers of one
    class do not mix up their values. Closing is one assignment, however many wrappers exist.
    """

    __slots__ = ("__weakref__", "layer_name", "live", "name", "opened_at")

    def __init__(self, layer_name: str, name: str = "", opened_at: Line | None = None) -> None:
        self.live = True
        self.layer_name = layer_name
        self.name = name
        self.opened_at = user_line() if opened_at is None else opened_at

    def close(self) -> None:
        self.live = False

    def __repr__(self) -> str:
        state = "" if self.live else ", closed"
        label = f" {self.name!r}" if self.name else ""
        return f"<{self.layer_name}{label} opened at {self.opened_at}{state}>"


class Wrapper:
    """A value as one layer sees it: something below, plus what the layer must recognise later.

    A subclass declares what it carries, answers `shape`, `dtype` and `weak` (by default from its first
    leaf), takes itself apart with `flatten` and is put together again by `unflatten`. `unwrap` is what a
    reader sees; `settled` is what the value becomes when its scope is over.
    """

    __slots__ = ("made_at", "scope")

    made_at: Line  # the user's line that made the value; set in debug mode only

    __array_ufunc__ = None  # numpy must refuse a wrapper, never take it for an object

    passes_as_constant: ClassVar[bool] = False
    """Whether the evaluator may read through a live wrapper of this kind (only a gradient's may)."""

    scope: Scope

    def flatten(self) -> tuple[Any, ...]:
        """The values below that this one is made of."""
        raise TypeError(f"{type(self).__name__} must say what it is made of: define flatten and unflatten")

    def unflatten(self, leaves: tuple[Any, ...]) -> Wrapper:
        """The same kind of wrapper around other leaves."""
        raise TypeError(f"{type(self).__name__} must say how it is put together: define flatten and unflatten")

    def unwrap(self) -> Any:
        """What somebody who only reads sees: the first leaf."""
        return self.flatten()[0]

    def settled(self) -> Any:
        """What the value reads as when its transformation has left the stack.

        By default there is no such value. Raises LeakedValueError.
        """
        scope = self.scope
        raise LeakedValueError(
            f"a {type(self).__name__} ({self.dtype}{list(self.shape)}) outlived the transformation that made it: "
            f"{scope.layer_name}{' ' + repr(scope.name) if scope.name else ''}, opened at {scope.opened_at}. "
            f"{self.made_where()}"
            "Return it from the function instead of storing it outside."
        )

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise TypeError(f"{self!r} is not an array; take its data through the stack")

    def source(self) -> str:
        """For errors: the argument of the user's function that it was computed from; "" where that is not known."""
        return ""

    def made_where(self) -> str:
        """For errors: which line made the value, where debug mode has noted it."""
        try:
            return f"It was made at {self.made_at}. "
        except AttributeError:
            return ""

    @property
    def shape(self) -> Shape:
        return shape_of(self.flatten()[0])

    @property
    def dtype(self) -> DType:
        return dtype_of(self.flatten()[0])

    @property
    def weak(self) -> bool:
        return is_weak(self.flatten()[0])

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def symbolic_shape(self) -> Any:
        """The shape as a value that may be given to an operator: a tuple, or a recorded stand-in for one.

        By default `shape`; see `LeafWrapper`.
        """
        return self.shape

    def symbolic_spec(self) -> Any:
        """Shape and dtype for inference. By default from `shape`, which makes a record good for that shape only."""
        return Spec(self.shape, self.dtype, self.weak)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(short, self.flatten()))})"


class LeafWrapper(Wrapper):
    """A wrapper with the shape and dtype of its first leaf, of which it tells as much as that does, recorded or not."""

    __slots__ = ()

    def symbolic_shape(self) -> Any:
        leaf = self.flatten()[0]
        return leaf.symbolic_shape() if isinstance(leaf, Wrapper) else shape_of(leaf)

    def symbolic_spec(self) -> Any:
        return spec_of(self.flatten()[0])


Scalar: TypeAlias = Union[bool, int, float, complex]
Value: TypeAlias = Union["np.ndarray[Any, Any]", "np.generic", Scalar, Shape, Wrapper]


class Spec:
    """Shape and dtype of a value that need not exist. `weak`: it is a Python scalar.

    >>> Spec((2, 3), "float32")
    float32[2,3]
    """

    __slots__ = ("dtype", "shape", "weak")

    def __init__(self, shape: Shape, dtype: Any, weak: bool = False) -> None:
        self.shape = shape
        self.dtype: DType = dtype if isinstance(dtype, np.dtype) else np.dtype(dtype)
        self.weak = weak

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        size = 1
        for length in self.shape:
            size *= length
        return size

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Spec):
            return NotImplemented
        return self.shape == other.shape and self.dtype == other.dtype and self.weak == other.weak

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype, self.weak))

    def __repr__(self) -> str:
        return f"{'~' if self.weak else ''}{self.dtype}[{','.join(map(str, self.shape))}]"


def shape_of(value: Any) -> Shape:
    """The shape of any value; a Python scalar has ()."""
    try:
        return value.shape  # type: ignore[no-any-return]
    except AttributeError:
        return ()


def dtype_of(value: Any) -> DType:
    """The dtype of any value. Raises DTypeError for what is not a value."""
    try:
        return value.dtype  # type: ignore[no-any-return]
    except AttributeError:
        return dtype_of_scalar(value)


def is_weak(value: Any) -> bool:
    """Whether a value is a Python scalar, or wraps one, so that it gives way to arrays' dtypes."""
    if isinstance(value, Wrapper):
        return value.weak
    return type(value) in (float, int, complex, bool)


def spec_of(value: Any) -> Any:
    """What inference knows of a value: its Spec, or the value itself where it is a shape or a host object."""
    kind = type(value)
    if kind is np.ndarray or isinstance(value, np.generic):
        return Spec(value.shape, value.dtype)
    if isinstance(value, Wrapper):
        return value.symbolic_spec()
    if kind in (float, int, complex, bool):
        return Spec((), dtype_of_scalar(value), True)
    if isinstance(value, (tuple, Spec)):
        return value
    if isinstance(value, np.ndarray):
        return Spec(value.shape, value.dtype)
    raise DTypeError(f"{kind.__name__} is not a value that an operator can take: {short(value)}")


def settle(value: Any) -> Any:
    """A value with every finished wrapper around it taken off.

    Raises LeakedValueError where a finished wrapper stands for nothing without its transformation.
    """
    while isinstance(value, Wrapper) and not value.scope.live:
        value = value.settled()
    return value


def layers_of(value: Any) -> str:
    """For errors: the layers that a value is wrapped by, outermost first."""
    names: list[str] = []
    while isinstance(value, Wrapper):
        scope = value.scope
        names.append(f"{scope.layer_name}{' ' + repr(scope.name) if scope.name else ''}")
        leaves = value.flatten()
        value = leaves[0] if leaves else None
    return " over ".join(names)


def computed_from(value: Wrapper) -> str:
    """For errors: `, computed from argument 0 of f,` where the layer of the value knows that."""
    source = value.source()
    return f", computed from {source}," if source else ""


def short(value: Any) -> str:
    """One line on a value, for logs and errors: dtype and shape, with the data where it is tiny."""
    if isinstance(value, (np.ndarray, np.generic)):
        head = f"{value.dtype}[{','.join(map(str, value.shape))}]"
        return f"{head}={np.array2string(np.asarray(value), precision=4)}" if value.size <= 1 else head
    try:
        text = repr(value)
    except Exception as error:  # somebody's own wrapper, say; an error or a log about it must not fail for that
        return f"<{type(value).__name__} whose repr raises {type(error).__name__}>"
    return text if len(text) <= 60 or isinstance(value, Wrapper) else text[:57] + "..."
