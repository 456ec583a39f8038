"""`Tensor`: the handle that user code holds, and Python's syntax on it.

A handle refers to a value; values never change. In-place syntax (`x += y`, `x[i] = v`) computes a new value
and rebinds the handle to it. What an operator sign means is not decided here: `ops` fills the `syntax` table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .basic import CreateTensor, GetAttr
from .dispatch import Handle, Level, apply, current_level, install_handle, method_of, read, read_at
from .dtypes import DType, default_dtype, dtype_of_scalar
from .errors import DTypeError, ShapeError
from .handle_reader import gradient_at, read_array_at, rebind_at, write_gradient_at
from .host_data import host_array, numeric
from .operator import Operator
from .value import Wrapper, dtype_of, settle, shape_of, short

__all__ = ["Syntax", "Tensor", "as_operand", "call", "call_one", "from_value", "install_sign", "syntax", "tensor"]

ndarray = np.ndarray
_new = object.__new__
_READ = GetAttr(GetAttr.Attr.VALUE)
_COPY = CreateTensor(CreateTensor.Kind.COMMON)
_TRUTH = GetAttr(GetAttr.Attr.TRUTH)
_SCALARS = (float, int, bool, complex)


class Syntax:
    """What Python's syntax on a Tensor means: operators for the signs, functions for the rest."""

    def __init__(self) -> None:
        self.binary: dict[str, Operator] = {}
        self.call: dict[str, Callable[..., Any]] = {}

    def meaning(self, name: str) -> Callable[..., Any]:
        try:
            return self.call[name]
        except KeyError:
            raise DTypeError(f"no meaning is installed for Tensor.{name}; `import ops` installs one") from None


syntax = Syntax()


def as_operand(value: Any) -> Any:
    """What an operator takes for an argument of a public function: Tensors and Python scalars as they are,
    arrays (and nested sequences) as a snapshot, since a value never changes.

    Raises DTypeError for anything else.
    """
    if isinstance(value, Handle) or type(value) in _SCALARS or isinstance(value, Wrapper):
        return value
    if isinstance(value, (np.ndarray, np.generic)):
        if value.dtype.kind not in "biufc":
            raise DTypeError(f"an array of dtype {value.dtype} is not a value; numbers and booleans are")
        return read_array_at(current_level(), value) if isinstance(value, np.ndarray) else np.array(value)
    if isinstance(value, (list, tuple)):
        return tensor(value)
    if hasattr(value, "__array__") or hasattr(value, "__dlpack__"):
        return as_operand(np.asarray(value))
    raise DTypeError(f"{type(value).__name__} is not a Tensor, an array or a number: {short(value)}")


def call(op: Operator, *operands: Any) -> tuple[Tensor, ...]:
    """Apply `op` for a public function: any operands in (a tuple is a shape), Tensors out."""
    level = current_level()
    return tuple([from_value(value) for value in level.deliver(op, _values(operands, op, level))])


def call_one(op: Operator, *operands: Any) -> Tensor:
    """`call` for an operator with one output."""
    level = current_level()
    return from_value(level.deliver(op, _values(operands, op, level))[0])


def _values(operands: Sequence[Any], op: Operator, level: Level) -> list[Any]:
    values: list[Any] = []
    for x in operands:
        kind = type(x)
        if kind is Tensor:
            x = x._value if level.reader is None else read_at(level, x)
        elif kind is not tuple:
            try:
                x = as_operand(x)
            except (DTypeError, ShapeError) as error:
                raise type(error)(f"{op!r}, input {len(values)}: {error}") from None
            if isinstance(x, Handle):
                x = read_at(level, x)
        values.append(x)
    return values


def from_value(value: Any) -> Tensor:
    """A new handle on a value."""
    made = _new(Tensor)
    made._value = value
    return made


class Tensor(Handle):
    """A handle on an array-like value: it computes, and it can be rebound; the value itself never changes.

    `Tensor(data, dtype=None)` is `tensor(data, dtype)`.
    """

    __slots__ = ("_grad",)

    _grad: Tensor | None

    def __init__(self, data: Any, dtype: Any = None) -> None:
        self._value = _create(data, dtype)

    @property
    def grad(self) -> Tensor | None:
        """The gradient that a GradManager added up for this handle; None before the first."""
        gradient: Tensor | None = gradient_at(current_level(), self)
        return gradient

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        write_gradient_at(current_level(), self, value)

    @grad.deleter
    def grad(self) -> None:
        self.grad = None

    # What is known without data.

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the axes."""
        value = self._value
        return value.shape if type(value) is ndarray else shape_of(settle(value))

    @property
    def dtype(self) -> DType:
        """The numpy dtype."""
        value = self._value
        return value.dtype if type(value) is ndarray else dtype_of(settle(value))

    @property
    def ndim(self) -> int:
        """How many axes there are."""
        value = settle(self._value)
        return value.ndim if isinstance(value, Wrapper) else len(shape_of(value))

    @property
    def size(self) -> int:
        """How many elements there are."""
        size = 1
        for length in self.shape:
            size *= length
        return size

    @property
    def device(self) -> str:
        """Where the data lives: "cpu"."""
        return "cpu"

    def __len__(self) -> int:
        if not self.ndim:
            raise DTypeError("len() of a Tensor without axes")
        return self.shape[0]

    # Reading data.

    def numpy(self) -> Any:
        """The data as a numpy array that may not be written to; no copy.

        Raises what a layer raises whose values have no data, or must not be cut from their gradient.
        """
        return apply(_READ, read(self))[0]

    def item(self) -> Any:
        """The one element as a Python number. Raises ShapeError when there is not exactly one."""
        if self.size != 1:
            raise ShapeError(f"item() needs exactly one element; this Tensor has shape {self.shape}")
        return self.numpy().item()

    def tolist(self) -> Any:
        """The data as nested Python lists."""
        return self.numpy().tolist()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        array = self.numpy()
        if dtype is not None and array.dtype != np.dtype(dtype):
            if copy is False:
                raise ValueError(f"a {array.dtype} Tensor cannot become {np.dtype(dtype)} without a copy")
            return array.astype(dtype)
        return array.copy() if copy else array

    def __bool__(self) -> bool:
        truth = apply(_TRUTH, read(self))[0]
        if truth.size != 1:
            raise ShapeError(
                f"a Tensor of shape {self.shape} is neither true nor false; use ops.any or ops.all, or ops.where"
            )
        return bool(truth)

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __index__(self) -> int:
        if self.dtype.kind not in "iu" or self.ndim:
            raise DTypeError(f"only an integer Tensor without axes can be an index, not {self.dtype}{list(self.shape)}")
        return int(self.item())

    def __repr__(self) -> str:
        value = read(self)
        while isinstance(value, Wrapper):
            try:
                below = value.unwrap() if value.scope.live else value.settled()
            except Exception:  # it has no data without its layer, or does not say what it is made of
                gone = "" if value.scope.live else f", of a finished {value.scope.layer_name}"
                return f"tensor(<{short(value)}{gone}>)"
            if below is value:
                return f"tensor(<{short(value)}>)"
            value = below
        array = np.asarray(value, None if isinstance(value, (ndarray, np.generic)) else dtype_of_scalar(value))
        text = np.array2string(array, separator=", ", prefix="tensor(")
        usual = array.dtype == default_dtype() or array.dtype.kind == "b"
        return f"tensor({text})" if usual else f"tensor({text}, dtype={array.dtype})"

    def __iter__(self) -> Iterator[Tensor]:
        if not self.ndim:
            raise DTypeError("a Tensor without axes cannot be iterated over")
        return (self[i] for i in range(self.shape[0]))

    def __hash__(self) -> int:
        return id(self)

    # Copies share the value: it cannot change.

    def __copy__(self) -> Tensor:
        return from_value(read(self))

    def __deepcopy__(self, memo: Any) -> Tensor:
        return from_value(read(self))

    def __reduce__(self) -> Any:
        return (_restore, (np.asarray(self.numpy()), type(self._value) in _SCALARS))

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec else str(self)

    # Rebinding.

    def _rebind(self, value: Any) -> Tensor:
        """Make the handle refer to another value of the same shape and dtype."""
        rebind_at(current_level(), self, value)
        return self

    def _update(self, sign: str, other: Any) -> Tensor:
        return self._store(sign, binary(sign, self, other))

    def _store(self, sign: str, updated: Any) -> Tensor:
        if updated is NotImplemented:
            return NotImplemented  # type: ignore[no-any-return]
        if updated.shape != self.shape:
            raise ShapeError(f"in-place {sign}: a result of shape {updated.shape} does not fit {self.shape}")
        if updated.dtype != self.dtype:
            if not np.can_cast(updated.dtype, self.dtype, "same_kind"):
                raise DTypeError(f"in-place {sign}: a {updated.dtype} result cannot be stored in {self.dtype}")
            updated = syntax.meaning("astype")(updated, self.dtype)
        return self._rebind(read(updated))

    def __setitem__(self, index: Any, value: Any) -> None:
        self._rebind(syntax.meaning("setitem")(self, index, value)._value)

    def __getitem__(self, index: Any) -> Tensor:
        return syntax.meaning("getitem")(self, index)  # type: ignore[no-any-return]

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return syntax.meaning("array_ufunc")(ufunc, method, *inputs, **options)

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        return syntax.meaning("array_function")(function, types, args, options)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        return syntax.meaning("array_namespace")(api_version)

    def __dlpack__(self, **options: Any) -> Any:
        return syntax.meaning("dlpack")(self, **options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def to_device(self, device: str, /, *, stream: object = None) -> Tensor:
        """The same Tensor: "cpu" is the only device. Raises DTypeError for another."""
        if device != "cpu":
            raise DTypeError(f'the only device is "cpu", not {device!r}')
        return self

    @property
    def T(self) -> Tensor:
        """The transpose of a matrix."""
        return syntax.meaning("T")(self)  # type: ignore[no-any-return]

    @property
    def mT(self) -> Tensor:
        """A stack of matrices, each transposed: the last two axes change places."""
        return syntax.meaning("mT")(self)  # type: ignore[no-any-return]

    if TYPE_CHECKING:  # installed below by `install_sign`; told to type checkers here

        def __add__(self, other: Any) -> Tensor: ...
        def __radd__(self, other: Any) -> Tensor: ...
        def __iadd__(self, other: Any) -> Tensor: ...

        def __sub__(self, other: Any) -> Tensor: ...
        def __rsub__(self, other: Any) -> Tensor: ...
        def __isub__(self, other: Any) -> Tensor: ...

        def __mul__(self, other: Any) -> Tensor: ...
        def __rmul__(self, other: Any) -> Tensor: ...
        def __imul__(self, other: Any) -> Tensor: ...

        def __truediv__(self, other: Any) -> Tensor: ...
        def __rtruediv__(self, other: Any) -> Tensor: ...
        def __itruediv__(self, other: Any) -> Tensor: ...

        def __floordiv__(self, other: Any) -> Tensor: ...
        def __rfloordiv__(self, other: Any) -> Tensor: ...
        def __ifloordiv__(self, other: Any) -> Tensor: ...

        def __mod__(self, other: Any) -> Tensor: ...
        def __rmod__(self, other: Any) -> Tensor: ...
        def __imod__(self, other: Any) -> Tensor: ...

        def __and__(self, other: Any) -> Tensor: ...
        def __rand__(self, other: Any) -> Tensor: ...
        def __iand__(self, other: Any) -> Tensor: ...

        def __or__(self, other: Any) -> Tensor: ...
        def __ror__(self, other: Any) -> Tensor: ...
        def __ior__(self, other: Any) -> Tensor: ...

        def __xor__(self, other: Any) -> Tensor: ...
        def __rxor__(self, other: Any) -> Tensor: ...
        def __ixor__(self, other: Any) -> Tensor: ...

        def __lshift__(self, other: Any) -> Tensor: ...
        def __rlshift__(self, other: Any) -> Tensor: ...
        def __ilshift__(self, other: Any) -> Tensor: ...

        def __rshift__(self, other: Any) -> Tensor: ...
        def __rrshift__(self, other: Any) -> Tensor: ...
        def __irshift__(self, other: Any) -> Tensor: ...

        def __lt__(self, other: Any) -> Tensor: ...

        def __le__(self, other: Any) -> Tensor: ...

        def __gt__(self, other: Any) -> Tensor: ...

        def __ge__(self, other: Any) -> Tensor: ...

        def __eq__(self, other: Any) -> Tensor: ...  # type: ignore[override]

        def __ne__(self, other: Any) -> Tensor: ...  # type: ignore[override]

        def __neg__(self) -> Tensor: ...

        def __pos__(self) -> Tensor: ...

        def __abs__(self) -> Tensor: ...

        def __invert__(self) -> Tensor: ...

    def __matmul__(self, other: Any) -> Any:
        return syntax.meaning("matmul")(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return syntax.meaning("matmul")(other, self)

    def __imatmul__(self, other: Any) -> Tensor:
        return self._store("@", syntax.meaning("matmul")(self, other))

    def __pow__(self, other: Any) -> Any:
        return syntax.meaning("pow")(self, other)

    def __rpow__(self, other: Any) -> Any:
        return syntax.meaning("pow")(other, self)

    def __ipow__(self, other: Any) -> Tensor:
        return self._store("**", syntax.meaning("pow")(self, other))


def _restore(array: Any, weak: bool) -> Tensor:
    return from_value(array.item() if weak else array)


def binary(sign: str, left: Any, right: Any) -> Any:
    """The operator of a sign, applied; NotImplemented where an operand is nothing that it could take."""
    op = syntax.binary[sign]
    try:
        level = current_level()
        values = _values((as_operand(left), as_operand(right)), op, level)  # here a tuple is data, not a shape
    except DTypeError:
        return NotImplemented
    return from_value(level.deliver(op, values)[0])


def install_sign(sign: str, op: Operator) -> None:
    """Say which operator a sign ("+", "<", ...) on Tensors means."""
    method = _METHODS[sign]
    syntax.binary[sign] = op

    def mixed(self: Tensor, other: Any) -> Any:
        if type(other) in _SCALARS:
            level = current_level()
            value = self._value if level.reader is None else read_at(level, self)
            return from_value(level.deliver(op, (value, other))[0])
        return binary(sign, self, other)

    def reflected(self: Tensor, other: Any) -> Any:
        return binary(sign, other, self)

    def in_place(self: Tensor, other: Any) -> Any:
        return self._update(sign, other)

    _set_method(f"__{method}__", method_of(op, mixed))
    if sign not in _COMPARISONS:
        _set_method(f"__r{method}__", reflected)
        _set_method(f"__i{method}__", in_place)


def _set_method(name: str, function: Callable[..., Any]) -> None:
    function.__name__ = name
    function.__qualname__ = f"Tensor.{name}"
    setattr(Tensor, name, function)


_COMPARISONS = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
_METHODS = {
    "+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod",
    "&": "and", "|": "or", "^": "xor", "<<": "lshift", ">>": "rshift", **_COMPARISONS,
}  # fmt: skip


def _install_unary(name: str) -> None:
    def call(self: Tensor) -> Any:
        return syntax.meaning(name)(self)

    call.__name__ = name
    setattr(Tensor, name, call)


for _name in ("__neg__", "__pos__", "__abs__", "__invert__"):
    _install_unary(_name)


def tensor(data: Any, dtype: Any = None) -> Tensor:
    """A Tensor of `data`: a number, an array, a nested sequence, or another Tensor.

    Python floats become the default dtype (float32), ints int32, unless `dtype` says otherwise; arrays keep
    theirs. The data is copied, so that changing the caller's array later changes nothing here.
    Raises DTypeError for what is not numeric, ShapeError for ragged sequences.

    >>> tensor([1.0, 2.0]).dtype, tensor([1, 2]).dtype, tensor(np.ones(2)).dtype
    (dtype('float32'), dtype('int32'), dtype('float64'))
    """
    return from_value(_create(data, dtype))


def _create(data: Any, dtype: Any) -> Any:
    if isinstance(data, Handle):
        value = settle(read(data))
        if dtype is None or dtype_of(value) == np.dtype(dtype):
            return value
        return syntax.meaning("astype")(data, dtype)._value
    if isinstance(data, Wrapper):
        return data
    if isinstance(data, (list, tuple)) and _has_tensor(data):
        stacked = syntax.meaning("from_sequence")(data)
        return (stacked if dtype is None else syntax.meaning("astype")(stacked, numeric(dtype)))._value
    if type(data) is ndarray and current_level().reader is not None:  # whoever keeps track must see it as it is
        host_array(data, dtype)
        value = apply(_COPY, data)[0]
        same = dtype is None or dtype_of(value) == numeric(dtype)
        return value if same else syntax.meaning("astype")(from_value(value), numeric(dtype))._value
    return apply(_COPY, host_array(data, dtype))[0]


def _has_tensor(data: Any) -> bool:
    return any(isinstance(x, Handle) or (isinstance(x, (list, tuple)) and _has_tensor(x)) for x in data)


install_handle(Tensor, from_value)
