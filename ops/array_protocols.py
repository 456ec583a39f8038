"""numpy's functions on Tensors, and the protocols by which libraries exchange arrays.

`np.sin(t)`, `array + t` and `np.concatenate([t, array])` compute through the operators here, so every layer sees them.
What has no counterpart is a TypeError: nothing becomes a numpy array silently.

A row of the tables says which parameters numpy's function has, in numpy's order. `!` marks those handed on by
position, `-` those that must be left alone, `name:other` those that have another name here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, Union

import numpy as np

from interp import DTypeError, Tensor
from interp.tensor import syntax

from .axes import as_handle

__all__: list[str] = []

Target = Union[str, Callable[..., Any]]

# Ufuncs of which the name differs here; all others are looked up by their own name.
_UFUNCS = {
    "absolute": "abs",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "conjugate": "conj",
    "fabs": "abs",
    "float_power": "pow",
    "invert": "bitwise_invert",
    "left_shift": "bitwise_left_shift",
    "power": "pow",
    "right_shift": "bitwise_right_shift",
    "rint": "round",
}

_REDUCTIONS = {
    "add": "sum",
    "multiply": "prod",
    "maximum": "max",
    "minimum": "min",
    "logical_and": "all",
    "logical_or": "any",
}


def _ops() -> Any:
    return sys.modules[__package__]


def _counterpart(path: str) -> Any:
    """The function of that name, perhaps in a sub-package ("linalg.inv"); None where there is none."""
    found = _ops()
    for name in path.split("."):
        found = getattr(found, name, None)
    return found if callable(found) else None


def _refuse(what: str, why: str) -> DTypeError:
    return DTypeError(f"{what} of a Tensor: {why}. Use a function of ops, or take the data with .numpy()")


def _check_options(what: str, options: dict[str, Any]) -> None:
    for name, value in options.items():
        if not _left_alone(name, value):
            raise _refuse(what, f"{name}= is not supported (a Tensor's value cannot be written to, nor left undefined)")


_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "where": (True,),
    "subok": (True, False),
    "order": ("K", "C"),
    "casting": ("same_kind",),
    "kind": ("quicksort", "stable"),
    "mode": ("raise",),
    "return_index": (False,),
    "return_inverse": (False,),
    "return_counts": (False,),
    "hermitian": (False,),
}


def _left_alone(name: str, value: Any) -> bool:
    """Whether an option that is not supported says no more than if it had not been given."""
    if value is None or value is np._NoValue:
        return True
    return isinstance(value, (bool, str)) and value in _NEUTRAL.get(name, ())


def array_ufunc(ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
    """What numpy's element-wise functions, operators included, mean where an operand is a Tensor."""
    name = ufunc.__name__
    what = f"numpy.{name}" + ("" if method == "__call__" else f".{method}")
    if method == "__call__":
        _check_options(what, options)
        if name == "divmod":
            return _ops().floor_divide(*inputs), _ops().remainder(*inputs)
        function = _counterpart(_UFUNCS.get(name, name))
        if function is None:
            raise _refuse(what, "there is no counterpart here")
        return function(*inputs)
    if method == "reduce" and name in _REDUCTIONS:
        axis, keepdims = options.pop("axis", 0), options.pop("keepdims", False)
        _check_options(what, options)
        return _counterpart(_REDUCTIONS[name])(*inputs, axis=axis, keepdims=keepdims)
    if method == "outer" and name == "multiply":
        _check_options(what, options)
        left, right = map(as_handle, inputs)
        return left[(..., *[None] * right.ndim)] * right
    raise _refuse(what, "there is no counterpart here")


def array_function(function: Any, types: Any, args: Sequence[Any], options: dict[str, Any]) -> Any:
    """What numpy's other functions mean where an argument is a Tensor."""
    module = getattr(function, "__module__", "").removeprefix("numpy").strip(".")
    path = f"{module}.{function.__name__}" if module else function.__name__
    row = _FUNCTIONS.get(path)
    what = f"numpy.{path}"
    if row is None:
        raise _refuse(what, "there is no counterpart here")
    target, parameters = row
    call = _counterpart(target) if isinstance(target, str) else target
    assert call is not None, target
    if parameters is None:
        return call(*args, **options)
    return _bound(what, call, parameters.split(), args, options)


def _bound(
    what: str, call: Callable[..., Any], parameters: list[str], args: Sequence[Any], options: dict[str, Any]
) -> Any:
    """Call with numpy's arguments, each under the name that the parameter has here."""
    names = [parameter.strip("!-").partition(":")[0] for parameter in parameters]
    if len(args) > len(names):
        raise _refuse(what, f"it takes at most {len(names)} arguments here, not {len(args)}")
    given = dict(zip(names, args))
    for name, value in options.items():
        if name in given:
            raise _refuse(what, f"{name} is given twice")
        if name not in names and not _left_alone(name, value):
            raise _refuse(what, f"{name}= is not supported")
        given[name] = value
    places: list[Any] = []
    named: dict[str, Any] = {}
    for parameter, name in zip(parameters, names, strict=True):
        if name not in given or given[name] is np._NoValue:
            continue
        if parameter.startswith("-"):
            _check_options(what, {name: given[name]})
        elif parameter.endswith("!"):
            places.append(given[name])
        else:
            named[parameter.partition(":")[2] or name] = given[name]
    return call(*places, **named)


# Functions whose meaning takes more than a name.


def _where(*args: Any) -> Any:
    return _ops().nonzero(*args) if len(args) == 1 else _ops().where(*args)


def _diagonal(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    return _ops().linalg.diagonal(_ops().moveaxis(x, (axis1, axis2), (-2, -1)), offset=offset)  # type: ignore[no-any-return]


def _trace(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Tensor:
    return _ops().sum(_diagonal(x, offset, axis1, axis2), axis=-1, dtype=dtype)  # type: ignore[no-any-return]


def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Tensor:
    handle = as_handle(x)
    matrices = (axis is None and handle.ndim == 2) if not isinstance(axis, tuple) else len(axis) == 2
    if ord is None or not matrices:
        return _ops().norm(handle, 2 if ord is None else ord, axis, keepdims=keepdims)  # type: ignore[no-any-return]
    if axis is not None:
        handle = _ops().moveaxis(handle, axis, (-2, -1))
        if keepdims:
            raise _refuse("numpy.linalg.norm", "keepdims= is not supported for matrices")
    return _ops().linalg.matrix_norm(handle, ord=ord, keepdims=keepdims)  # type: ignore[no-any-return]


def _array_equal(x: Any, y: Any) -> bool:
    a, b = as_handle(x), as_handle(y)
    return a.shape == b.shape and bool(_ops().all(_ops().equal(a, b)))


def _round(x: Any, decimals: int = 0) -> Tensor:
    if decimals:
        raise _refuse("numpy.round", "decimals= is not supported")
    return _ops().round(x)  # type: ignore[no-any-return]


def _unique(x: Any) -> Tensor:
    return _ops().unique_values(x)  # type: ignore[no-any-return]


def _size(x: Any, axis: int | None = None) -> int:
    return as_handle(x).size if axis is None else as_handle(x).shape[axis]


def _ravel(x: Any) -> Tensor:
    return _ops().reshape(x, (-1,))  # type: ignore[no-any-return]


def _vstack(arrays: Any) -> Tensor:
    return _ops().concat([x if x.ndim > 1 else x[None] for x in map(_at_least_1d, arrays)], axis=0)  # type: ignore[no-any-return]


def _hstack(arrays: Any) -> Tensor:
    xs = list(map(_at_least_1d, arrays))
    return _ops().concat(xs, axis=0 if xs[0].ndim == 1 else 1)  # type: ignore[no-any-return]


def _at_least_1d(x: Any) -> Tensor:
    handle = as_handle(x)
    return handle if handle.ndim else handle[None]


def _result_type(*args: Any) -> Any:
    return np.result_type(*[x.dtype if isinstance(x, Tensor) else x for x in args])


Row = tuple[Target, Union[str, None]]

_FUNCTIONS: dict[str, Row] = {
    # Reductions.
    "sum": ("sum", "a! axis dtype -out keepdims -initial -where"),
    "prod": ("prod", "a! axis dtype -out keepdims -initial -where"),
    "mean": ("mean", "a! axis -dtype -out keepdims -where"),
    "max": ("max", "a! axis -out keepdims -initial -where"),
    "amax": ("max", "a! axis -out keepdims -initial -where"),
    "min": ("min", "a! axis -out keepdims -initial -where"),
    "amin": ("min", "a! axis -out keepdims -initial -where"),
    "any": ("any", "a! axis -out keepdims -where"),
    "all": ("all", "a! axis -out keepdims -where"),
    "std": ("std", "a! axis -dtype -out ddof:correction keepdims -where -mean correction"),
    "var": ("var", "a! axis -dtype -out ddof:correction keepdims -where -mean correction"),
    "count_nonzero": ("count_nonzero", "a! axis keepdims"),
    "argmax": ("argmax", "a! axis -out keepdims"),
    "argmin": ("argmin", "a! axis -out keepdims"),
    "cumsum": ("cumsum", "a! axis -dtype -out"),
    "cumprod": ("cumprod", "a! axis -dtype -out"),
    "cumulative_sum": ("cumulative_sum", "x! axis dtype -out include_initial"),
    "cumulative_prod": ("cumulative_prod", "x! axis dtype -out include_initial"),
    # Shapes.
    "shape": (lambda x: as_handle(x).shape, "a!"),
    "ndim": (lambda x: as_handle(x).ndim, "a!"),
    "size": (_size, "a! axis"),
    "result_type": (_result_type, None),
    "reshape": ("reshape", "a! shape! -order copy"),
    "ravel": (_ravel, "a! -order"),
    "transpose": ("transpose", "a! axes!"),
    "permute_dims": ("transpose", "a! axes!"),
    "matrix_transpose": ("matrix_transpose", "x!"),
    "moveaxis": ("moveaxis", "a! source! destination!"),
    "swapaxes": ("swapaxes", "a! axis1! axis2!"),
    "expand_dims": ("expand_dims", "a! axis"),
    "squeeze": ("squeeze", "a! axis"),
    "broadcast_to": ("broadcast_to", "array! shape! -subok"),
    "broadcast_arrays": ("broadcast_arrays", None),
    "flip": ("flip", "m! axis"),
    "roll": ("roll", "a! shift! axis"),
    "tile": ("tile", "A! reps!"),
    "repeat": ("repeat", "a! repeats! axis"),
    "pad": ("pad", "array! pad_width! mode constant_values"),
    "concatenate": ("concat", "arrays! axis -out -dtype -casting"),
    "concat": ("concat", "arrays! axis -out -dtype -casting"),
    "stack": ("stack", "arrays! axis -out -dtype -casting"),
    "vstack": (_vstack, "tup! -dtype -casting"),
    "hstack": (_hstack, "tup! -dtype -casting"),
    "split": ("split", "ary! indices_or_sections! axis"),
    "unstack": ("unstack", "x! axis"),
    "meshgrid": ("meshgrid", None),
    "diag": ("diag", "v! k!"),
    "tril": ("tril", "m! k"),
    "triu": ("triu", "m! k"),
    # Making arrays like others.
    "zeros_like": ("zeros_like", "a! dtype -order -subok -shape device"),
    "ones_like": ("ones_like", "a! dtype -order -subok -shape device"),
    "empty_like": ("empty_like", "a! dtype -order -subok -shape device"),
    "full_like": ("full_like", "a! fill_value! dtype -order -subok -shape device"),
    "astype": ("astype", "x! dtype! copy device"),
    "copy": (as_handle, "a! -order -subok"),
    # Searching, sorting and choosing.
    "where": (_where, "condition! x! y!"),
    "nonzero": ("nonzero", "a!"),
    "sort": ("sort", "a! axis -kind -order stable"),
    "argsort": ("argsort", "a! axis -kind -order stable"),
    "searchsorted": ("searchsorted", "a! v! side sorter"),
    "unique": (_unique, "ar! -return_index -return_inverse -return_counts"),
    "unique_values": ("unique_values", "x!"),
    "unique_counts": ("unique_counts", "x!"),
    "unique_inverse": ("unique_inverse", "x!"),
    "unique_all": ("unique_all", "x!"),
    "take": ("take", "a! indices! axis -out -mode"),
    "take_along_axis": ("take_along_axis", "arr! indices! axis"),
    "clip": ("clip", "a! a_min! a_max! -out min max"),
    "round": (_round, "a! decimals -out"),
    "around": (_round, "a! decimals -out"),
    "real": ("real", "val!"),
    "imag": ("imag", "val!"),
    "array_equal": (_array_equal, "a1! a2!"),
    # Fourier transforms.
    **{f"fft.{name}": (f"fft.{name}", "a! n axis norm -out") for name in ("fft", "ifft", "rfft", "irfft")},
    **{f"fft.{name}": (f"fft.{name}", "a! s axes norm -out") for name in ("fftn", "ifftn", "rfftn", "irfftn")},
    "fft.hfft": ("fft.hfft", "a! n axis norm -out"),
    "fft.ihfft": ("fft.ihfft", "a! n axis norm -out"),
    "fft.fftshift": ("fft.fftshift", "x! axes"),
    "fft.ifftshift": ("fft.ifftshift", "x! axes"),
    # Products and linear algebra.
    "dot": ("dot", "a! b! -out"),
    "outer": ("outer", "a! b! -out"),
    "tensordot": ("tensordot", "a! b! axes"),
    "einsum": ("einsum", None),
    "cross": ("linalg.cross", "a! b! -axisa -axisb -axisc axis"),
    "trace": (_trace, "a! offset axis1 axis2 dtype -out"),
    "diagonal": (_diagonal, "a! offset axis1 axis2"),
    "linalg.norm": (_norm, "x! ord axis keepdims"),
    "linalg.matrix_norm": ("linalg.matrix_norm", "x! keepdims ord"),
    "linalg.vector_norm": ("linalg.vector_norm", "x! axis keepdims ord"),
    "linalg.matrix_power": ("linalg.matrix_power", "a! n!"),
    "linalg.matrix_rank": ("linalg.matrix_rank", "A! -tol -hermitian rtol"),
    "linalg.pinv": ("linalg.pinv", "a! -rcond -hermitian rtol"),
    "linalg.inv": ("linalg.inv", "a!"),
    "linalg.solve": ("linalg.solve", "a! b!"),
    "linalg.det": ("linalg.det", "a!"),
    "linalg.slogdet": ("linalg.slogdet", "a!"),
    "linalg.cholesky": ("linalg.cholesky", "a! upper"),
    "linalg.qr": ("linalg.qr", "a! mode"),
    "linalg.eigh": ("linalg.eigh", "a! -UPLO"),
    "linalg.eigvalsh": ("linalg.eigvalsh", "a! -UPLO"),
    "linalg.svd": ("linalg.svd", "a! full_matrices"),
    "linalg.svdvals": ("linalg.svdvals", "x!"),
    "linalg.cross": ("linalg.cross", "x1! x2! axis"),
    "linalg.outer": ("linalg.outer", "x1! x2!"),
    "linalg.matmul": ("linalg.matmul", "x1! x2!"),
    "linalg.vecdot": ("linalg.vecdot", "x1! x2! axis"),
    "linalg.tensordot": ("linalg.tensordot", "x1! x2! axes"),
    "linalg.trace": ("linalg.trace", "x! offset dtype"),
    "linalg.diagonal": ("linalg.diagonal", "x! offset"),
    "linalg.matrix_transpose": ("linalg.matrix_transpose", "x!"),
}


# Namespaces and exchange.

_VERSIONS = (None, "2022.12", "2023.12", "2024.12")


def array_namespace(api_version: str | None = None) -> Any:
    """The module with the standard's functions. Raises ValueError for a version that it does not follow."""
    if api_version not in _VERSIONS:
        raise ValueError(f"the Array API standard is followed in versions {_VERSIONS[1:]}, not {api_version!r}")
    return _ops()


def dlpack(t: Tensor, **options: Any) -> Any:
    """The data as a DLPack capsule. A consumer that cannot be told that it may not write gets a copy."""
    array = t.numpy()
    version = options.get("max_version")
    if (version is None or tuple(version) < (1, 0)) and options.get("copy") is not False:
        array = array.copy()
    return array.__dlpack__(**options)


syntax.call["array_ufunc"] = array_ufunc
syntax.call["array_function"] = array_function
syntax.call["array_namespace"] = array_namespace
syntax.call["dlpack"] = dlpack
