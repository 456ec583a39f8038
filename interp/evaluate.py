"""The bottom of every stack: operators are evaluated on numpy arrays by the kernel table."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from . import rules
from .basic import (
    CreateTensor,
    DupTensor,
    GetAttr,
    GetId,
    GetName,
    IsScalar,
    PopScope,
    PushScope,
    RenameValue,
)
from .dispatch import Segment, Transformation, at_bottom
from .dtypes import default_dtype, dtype_of_scalar
from .errors import DTypeError, InterpError, LeakedValueError, LinearAlgebraError, OperatorError, RuleError, ShapeError
from .host_data import host_array
from .operator import Operator, memo
from .value import LeafWrapper, Scope, Spec, Wrapper, short, spec_of

__all__ = ["EvalTransformation", "NamedValue", "as_array", "infer"]

ndarray = np.ndarray
_TUPLE: type[tuple[Any, ...]] = tuple
_SCALARS = (float, int, complex, bool)
_KNOWN_UP_TO = 256


class NamedValue(LeafWrapper):
    """An array that was given a name by RenameValue; the evaluator's own wrapper."""

    __slots__ = ("name", "value")

    def __init__(self, scope: Scope, value: Any, name: str) -> None:
        self.scope = scope
        self.value = value
        self.name = name

    def flatten(self) -> tuple[Any, ...]:
        return (self.value,)

    def unflatten(self, leaves: tuple[Any, ...]) -> Wrapper:
        return NamedValue(self.scope, leaves[0], self.name)

    def settled(self) -> Any:
        return self.value

    def __repr__(self) -> str:
        return f"NamedValue({self.name!r}, {short(self.value)})"


def as_array(value: Any) -> Any:
    """The array of a bottom value; a Python scalar becomes a 0-d array of the dtype that it takes alone."""
    if type(value) in _SCALARS:
        return np.asarray(value, dtype_of_scalar(value))
    return value


class EvalTransformation(Transformation):
    """Evaluates every operator on numpy. Knows no operator by name: it asks the kernel table.

    Host arrays go in and come out. An array that has become a value is never written to again.
    """

    segment: ClassVar[Segment] = Segment.EVAL

    def apply_transformation(self, op: Operator, inputs: Sequence[Any]) -> Sequence[Any]:
        try:
            kernel = op._memo.kernel
        except AttributeError:
            kernel = None
        if kernel is None:
            if not op.computes:
                return self.answer(op, inputs)
            kernel = _resolve(op)
        try:
            result = kernel(*inputs)
        except Exception as error:
            if any(isinstance(value, Wrapper) for value in inputs):  # numpy refuses wrappers; so do the checks
                return self.apply_transformation(op, self.taken(inputs, op))
            if isinstance(error, InterpError):
                raise
            explain_failure(op, inputs, error)
            raise
        return result if type(result) is _TUPLE else (result,)

    def taken(self, inputs: Sequence[Any], op: Operator) -> list[Any]:
        """The bare values behind all inputs."""
        return [self.take(value, op) for value in inputs]

    def take(self, value: Any, op: Operator) -> Any:
        """The bare value behind one that may still be wrapped."""
        while isinstance(value, Wrapper):
            if value.scope is self.scope or not value.scope.live:
                value = value.unwrap() if value.scope.live else value.settled()
            elif value.passes_as_constant:
                value = value.unwrap()
            else:
                raise LeakedValueError(
                    f"{type(op).__name__} was given {value!r}, which belongs to {value.scope!r}; that transformation "
                    "is not on this thread's or task's stack, or is not above the place where the value was used."
                    f" {value.made_where()}".rstrip()
                )
        return value

    def answer(self, op: Operator, inputs: Sequence[Any]) -> Sequence[Any]:
        """The operators that ask and make rather than compute."""
        rule = _basic.get(type(op))
        if rule is None:
            return op.fallback(inputs)
        try:
            result = rule(self, op, *inputs)
        except TypeError:
            wanted = rule.__code__.co_argcount - 2
            if len(inputs) == wanted:
                raise
            raise OperatorError(f"{op!r} takes {wanted} inputs, not {len(inputs)}") from None
        return () if rule in _silent else (result,)

    def unwrap(self, value: Any) -> Any:
        return self.take(value, GetName())


def _read_only(value: Any) -> Any:
    array = np.asarray(as_array(value))
    if array.flags.writeable:
        array = array.view()
        array.flags.writeable = False
    return array


def _get_attr(self: EvalTransformation, op: Any, value: Any) -> Any:
    attr = op.attr
    if attr is GetAttr.Attr.SHAPE:
        return spec_of(value).shape
    if attr is GetAttr.Attr.DTYPE:
        return spec_of(value).dtype
    if attr is GetAttr.Attr.DEVICE:
        return "cpu"
    if attr is GetAttr.Attr.NONE:
        return None
    return _read_only(self.take(value, op))


def _create(self: EvalTransformation, op: Any, data: Any) -> Any:
    if isinstance(data, Wrapper):
        return data
    array = host_array(data, op.dtype)
    shared = array is data or hasattr(data, "__array__") or hasattr(data, "__dlpack__")
    if shared and op.create is not CreateTensor.Kind.UNIQUE:
        return np.array(array)  # the caller may change his array; a value never changes
    return array


def _rename(self: EvalTransformation, op: Any, value: Any) -> Any:
    if isinstance(value, NamedValue) and value.scope is self.scope:
        value = value.value
    assert self.scope is not None
    return NamedValue(self.scope, value, op.name)


def _get_name(self: EvalTransformation, op: Any, value: Any) -> str:
    return value.name if isinstance(value, NamedValue) else ""


def _get_id(self: EvalTransformation, op: Any, value: Any) -> int:
    return id(value)


def _is_scalar(self: EvalTransformation, op: Any, value: Any) -> bool:
    return bool(spec_of(value).shape == ())


def _dup(self: EvalTransformation, op: Any, value: Any) -> Any:
    return np.array(as_array(self.take(value, op)))


def _scope(self: EvalTransformation, op: Any) -> None:
    return None


_basic: dict[type[Operator], Callable[..., Any]] = {
    GetAttr: _get_attr,
    CreateTensor: _create,
    RenameValue: _rename,
    GetName: _get_name,
    GetId: _get_id,
    IsScalar: _is_scalar,
    DupTensor: _dup,
    PushScope: _scope,
    PopScope: _scope,
}
_silent = (_scope,)


def infer(op: Operator, specs: Sequence[Any]) -> tuple[Spec, ...]:
    """The specs of the outputs of `op` on inputs with these specs.

    Asks the inference rule; an operator without one is run on ones. Raises what the rule raises (ShapeError,
    DTypeError, OperatorError), or RuleError where the rule itself is at fault.
    """
    rule = rules.infer.lookup(type(op))
    if rule is None:
        return _infer_by_running(op, specs)
    try:
        result = rule(op, *specs)
    except InterpError:
        raise
    except TypeError as error:
        wrong = _wrong_count(op, rule, len(specs))
        if wrong is not None:
            raise OperatorError(wrong) from None
        raise RuleError(f"the infer rule of {type(op).__name__} failed on {_listed(specs)}: {error}") from error
    except Exception as error:
        raise RuleError(f"the infer rule of {type(op).__name__} failed on {_listed(specs)}: {error}") from error
    outputs = result if type(result) is _TUPLE else (result,)
    for output in outputs:
        if not isinstance(output, Spec):
            raise RuleError(f"the infer rule of {type(op).__name__} must return Specs, not {short(output)}")
    return outputs


def _infer_by_running(op: Operator, specs: Sequence[Any]) -> tuple[Spec, ...]:
    kernel = bound_kernel(op)
    arrays = [np.ones(spec.shape, spec.dtype) if isinstance(spec, Spec) else spec for spec in specs]
    outputs = kernel(*arrays)
    return tuple(spec_of(output) for output in (outputs if isinstance(outputs, tuple) else (outputs,)))


def _listed(specs: Sequence[Any]) -> str:
    return "(" + ", ".join(map(short, specs)) + ")"


def _wrong_count(op: Operator, rule: Callable[..., Any], given: int) -> str | None:
    code = getattr(rule, "__code__", None)
    if code is None or code.co_flags & 0x04 or code.co_varnames[:1] != ("op",):
        return None
    most = code.co_argcount - 1
    least = most - len(rule.__defaults__ or ())
    if least <= given <= most:
        return None
    wanted = str(most) if least == most else f"{least} to {most}"
    return f"{op!r} takes {wanted} inputs, not {given}"


def _resolve(op: Operator) -> Callable[..., Any]:
    """The function that evaluates `op`: its kernel with the checks that the operator asks for."""
    entry = memo(op)
    if entry.kernel is None:
        if op.is_program and type(op) not in rules.kernel:
            entry.kernel = _inlined(op)
            return entry.kernel
        kernel = bound_kernel(op)
        if getattr(op, "checks_first", True):
            kernel = _checked(op, kernel)
        elif not getattr(op, "keeps_weak", False):
            kernel = _of_arrays(kernel)
        entry.kernel = kernel
    return entry.kernel


def _inlined(op: Operator) -> Callable[..., Any]:
    """For an operator that carries programs: run them here, at the bottom. Holds no reference to the operator."""
    reference = weakref.ref(op)

    def run(*inputs: Any) -> Sequence[Any]:
        program = reference()
        assert program is not None
        with at_bottom():
            return tuple(program.inline(inputs))

    return run


def bound_kernel(op: Operator) -> Callable[..., Any]:
    """The kernel rule of `op` as a function of the arrays alone. Raises RuleError when there is none."""
    rule = rules.kernel.require(op)
    return rule(op) if rule in rules.kernel.per_operator else partial(rule, op)


def _of_arrays(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel that is given arrays where it would be given Python scalars, and refuses wrappers."""

    def run(*inputs: Any) -> Any:
        for value in inputs:
            if type(value) is not ndarray:
                if type(value) in _SCALARS:
                    return kernel(*map(as_array, inputs))
                if isinstance(value, Wrapper):
                    raise TypeError("not an array")  # the evaluator takes it apart and tries again
        return kernel(*inputs)

    return run


def _checked(op: Operator, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Infer, evaluate, compare: wrong inputs are the caller's error, a wrong result is the kernel's.

    What inference said of inputs with the same shapes and dtypes (and of the same shape operands) is remembered.
    """
    has_infer = type(op) in rules.infer
    keeps_weak = getattr(op, "keeps_weak", False)
    known: dict[Any, tuple[Spec, ...]] = {}

    def inferred(inputs: Sequence[Any], key: Any) -> tuple[Spec, ...]:
        specs = infer(op, [spec_of(value) for value in inputs])
        if key is not None:
            if len(known) >= _KNOWN_UP_TO:
                known.clear()
            known[key] = specs
        return specs

    def run(*inputs: Any) -> Sequence[Any]:
        key: Any = [default_dtype()]
        for value in inputs:
            kind = type(value)
            if kind is ndarray:
                key += (value.shape, value.dtype)
            elif kind is _TUPLE and all(type(length) is int for length in value):
                key += (value, None)
            elif isinstance(value, Wrapper):
                raise TypeError("not an array")  # the evaluator takes it apart and tries again
            else:
                key = None
                break
        specs = None
        if has_infer:
            key = None if key is None else tuple(key)
            specs = known.get(key) or inferred(inputs, key)
        result = kernel(*(inputs if keeps_weak else map(as_array, inputs)))
        outputs = result if type(result) is _TUPLE else (result,)
        return outputs if specs is None else _conform(op, outputs, specs)

    return run


def _conform(op: Operator, outputs: Sequence[Any], specs: Sequence[Spec]) -> Sequence[Any]:
    if len(outputs) != len(specs):
        raise RuleError(f"the kernel of {op!r} gave {len(outputs)} outputs where its infer rule says {len(specs)}")
    if len(specs) == 1:
        output, spec = outputs[0], specs[0]
        if type(output) is ndarray and output.shape == spec.shape and output.dtype is spec.dtype and not spec.weak:
            return outputs
    conforming = list(outputs)
    for i, (output, spec) in enumerate(zip(outputs, specs, strict=True)):
        if not isinstance(output, (ndarray, np.generic)):
            if spec.weak and type(output) in _SCALARS:
                continue
            output = conforming[i] = np.asarray(output)
        if output.shape != spec.shape:
            raise RuleError(
                f"the kernel of {op!r} gave {short(output)} for output {i} where its infer rule says {spec!r}: "
                "one of the two rules is wrong"
            )
        if spec.weak:
            conforming[i] = output.item()
        elif output.dtype != spec.dtype:
            if output.dtype.kind != spec.dtype.kind and not np.can_cast(output.dtype, spec.dtype, "same_kind"):
                raise RuleError(
                    f"the kernel of {op!r} gave {output.dtype} for output {i} where its infer rule says {spec.dtype}"
                )
            conforming[i] = output.astype(spec.dtype)
    return tuple(conforming)


def explain_failure(op: Operator, inputs: Sequence[Any], error: Exception) -> None:
    """Raise the typed error that inference gives for these inputs, or say which kernel failed on what."""
    specs = [spec_of(value) for value in inputs]
    if type(op) in rules.infer:
        infer(op, specs)
    if isinstance(error, TypeError):
        wrong = _wrong_count(op, rules.kernel.require(op), len(specs))
        if wrong is not None:
            raise OperatorError(wrong) from None
    if isinstance(error, np.linalg.LinAlgError):
        raise LinearAlgebraError(f"{op!r} failed on {_listed(specs)}: {error}") from error
    kind = {ValueError: ShapeError, TypeError: DTypeError, OverflowError: DTypeError}.get(type(error))
    if kind is not None:
        raise kind(f"{op!r} failed on {_listed(specs)}: {error}") from error
