"""Rule tables: what is known of each operator, open to user code.

A table maps operator classes to rules; a subclass inherits its base's rule unless it has its own. Register with
a decorator, beside the operator:

>>> import attrs, numpy as np, interp
>>> from interp import rules
>>> @attrs.frozen
... class Twice(interp.OpDef):
...     pass
>>> @rules.infer.register(Twice)
... def _(op, x):
...     return interp.Spec(x.shape, x.dtype)
>>> @rules.kernel.register(Twice)
... def _(op, x):
...     return np.multiply(x, 2, dtype=x.dtype)
>>> interp.apply(Twice(), interp.tensor([1.0, 2.0]))[0]
tensor([2., 4.])

| table | signature of a rule | answers |
| --- | --- | --- |
| `kernel` | `(op, *arrays)` | the output array, or a tuple of them |
| `infer` | `(op, *specs)` | the output `Spec`, or a tuple; raises ShapeError / DTypeError / OperatorError |
| `vjp` | `(op, inputs, outputs, cotangents)` | the gradient of each input, None where there is none |
| `jvp` | `(op, inputs, outputs, tangents)` | the tangent of each output; a tangent that is None is zero |
| `batch` | `(op, size, inputs, axes)` | the outputs and their batch axes; an axis that is None is not batched |
| `merge` | `(op, inputs, other, other_inputs)` | one operator and its inputs worth both added up, or None |

`vjp` and `jvp` rules are programs: they are written with the public functions, on Tensors, and recorded once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from .errors import InterpError, RuleError, user_line
from .operator import Operator, forget

__all__ = ["RuleTable", "batch", "infer", "jvp", "kernel", "merge", "tables", "vjp"]

F = TypeVar("F", bound=Callable[..., Any])


class RuleTable:
    """Rules of one kind, by operator class.

    `effect` says, for an error about a hole, what cannot be done without such a rule; `signature` what to write.
    """

    def __init__(self, name: str, signature: str, effect: str) -> None:
        self.name = name
        self.signature = signature
        self.effect = effect
        self._rules: dict[type[Operator], Callable[..., Any]] = {}
        self._found: dict[type[Operator], Callable[..., Any] | None] = {}
        self.per_operator: set[Callable[..., Any]] = set()

    def register(
        self, *classes: type[Operator], replace: bool = False, per_operator: bool = False
    ) -> Callable[[F], F]:
        """Decorator: the function is the rule of these operator classes and of their subclasses.

        With `per_operator` (kernels only) the function takes the operator alone and returns the function of the
        arrays; it is asked once for each operator. Raises RuleError when a class has one already, unless `replace`.
        """
        for owner in classes:
            if not (isinstance(owner, type) and issubclass(owner, Operator)):
                raise RuleError(f"rules.{self.name}.register takes operator classes, not {owner!r}")

        def add(rule: F) -> F:
            for owner in classes:
                if owner in self._rules and not replace:
                    raise RuleError(
                        f"{owner.__name__} already has a {self.name} rule; pass replace=True to give it another"
                    )
            for owner in classes:
                self._rules[owner] = rule
                if per_operator:
                    self.per_operator.add(rule)
                self._found = {}
                forget(owner)
            return rule

        return add

    def lookup(self, owner: type[Operator]) -> Callable[..., Any] | None:
        """The rule of an operator class, its own or the nearest base's; None when there is none."""
        try:
            return self._found[owner]
        except KeyError:
            pass
        rule = None
        for base in owner.__mro__:
            if base in self._rules:
                rule = self._rules[base]
                break
        self._found[owner] = rule
        return rule

    def require(self, op: Operator) -> Callable[..., Any]:
        """The rule for `op`. Raises RuleError, saying which rule to write, when there is none."""
        rule = self.lookup(type(op))
        if rule is None:
            raise RuleError(self.missing(op))
        return rule

    def run(self, rule: Callable[..., Any], op: Operator, *args: Any) -> Any:
        """What a rule that is a program answers while it is recorded. An error in it is told as the rule's.

        Raises RuleError where the rule fails by itself; what Lamina raises within it passes, with a note.
        """
        try:
            return rule(op, *args)
        except InterpError as error:
            error.add_note(f"in {self.blame(op)}")
            raise
        except Exception as error:
            raise RuleError(f"{self.blame(op)} failed: {type(error).__name__}: {error}") from error

    def blame(self, op: Operator) -> str:
        return f"the {self.name} rule of {op!r}"

    def missing(self, op: Operator) -> str:
        """For errors: which rule `op` lacks, what to write, and where the operator was applied."""
        owner = type(op).__name__
        return (
            f"{owner} has no {self.name} rule, so {self.effect}. Write one beside the operator:\n"
            f"    @rules.{self.name}.register({owner})\n    def {self.name}_{owner.lower()}{self.signature}: ...\n"
            f"It was applied at {user_line()}"
        )

    def classes(self) -> list[type[Operator]]:
        """The classes that a rule was registered for."""
        return list(self._rules)

    def __contains__(self, owner: type[Operator]) -> bool:
        return self.lookup(owner) is not None

    def __repr__(self) -> str:
        return f"<rules.{self.name}: {len(self._rules)} operator classes>"


kernel = RuleTable("kernel", "(op, *arrays)", "it cannot be evaluated")
infer = RuleTable("infer", "(op, *specs)", "the shape and dtype of its result are not known before it is evaluated")
vjp = RuleTable("vjp", "(op, inputs, outputs, cotangents)", "it cannot be differentiated")
jvp = RuleTable("jvp", "(op, inputs, outputs, tangents)", "it has no forward-mode derivative")
batch = RuleTable("batch", "(op, size, inputs, axes)", "it can only be vectorised by a loop")
merge = RuleTable("merge", "(op, inputs, other, other_inputs)", "its gradient contributions are added one by one")

_builtin = (kernel, infer, vjp, jvp, batch, merge)


def tables() -> tuple[RuleTable, ...]:
    """Every built-in table, in the order of the table above."""
    return _builtin
