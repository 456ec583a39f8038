"""The table of operators and their rules, as the documentation shows it: `python -m transformations.rule_table`."""

from __future__ import annotations

import sys

from interp import OpDef, rules
from interp.rules import RuleTable
from ops.elemwise import ROWS, Elemwise, Row

__all__ = ["operator_classes", "operator_table"]

_HEAD = """# Operators

Written by `python -m transformations.rule_table > docs/operators.md`; a test holds it to the code.

- **rule**: written beside the operator. **derived**: follows from its table row, or (a tangent) from its gradient by
  transposition. **none**: there is no gradient, by mathematics or by dtype. **loop**: `vmap` runs it example by
  example. **program**: as the operators of the program that it carries. Every operator has a kernel and an inference
  rule.
- *merge*: contributions of many uses to one gradient are added up in one operator.
"""


def operator_classes(base: type[OpDef] = OpDef) -> list[type[OpDef]]:
    """Every operator class of `ops`, by name."""
    found: dict[str, type[OpDef]] = {}
    todo = [base]
    while todo:
        for cls in todo.pop().__subclasses__():
            todo.append(cls)
            home = sys.modules.get(cls.__module__)
            if cls.__module__.split(".")[0] == "ops" and getattr(home, cls.__name__, None) is cls:
                found[cls.__name__] = cls
    return [found[name] for name in sorted(found)]


def _cell(table: RuleTable, cls: type[OpDef]) -> str:
    if cls in table:
        return "rule"
    if cls.is_program and table.name in ("vjp", "jvp", "batch"):
        return "program"
    if table is rules.jvp and cls in rules.vjp:
        return "derived"
    return {"batch": "loop", "merge": ""}.get(table.name, "none")


def _gradient(row: Row) -> str:
    """For each input: y where there is a partial derivative."""
    if row.vjp is not None or any(partial is not None for partial in row.partials):
        return "derived"
    return "none"


def operator_table() -> str:
    """The page as Markdown."""
    columns = (rules.infer, rules.kernel, rules.vjp, rules.jvp, rules.batch, rules.merge)
    lines = [_HEAD, "## Operators", ""]
    lines.append("| operator | module | " + " | ".join(table.name for table in columns) + " |")
    lines.append("| --- | --- |" + " --- |" * len(columns))
    for cls in operator_classes():
        cells = " | ".join(_cell(table, cls) for table in columns)
        lines.append(f"| `{cls.__name__}` | `{cls.__module__}` | {cells} |")
    lines += ["", f"## Modes of `{Elemwise.__name__}`", ""]
    lines.append("| mode | inputs | dtypes | result | gradient and tangent | zero cotangent is safe |")
    lines.append("| --- | --- | --- | --- | --- | --- |")
    for mode in sorted(ROWS):
        row = ROWS[mode]
        safe = "yes, by the safe product" if row.singular else "finite everywhere" if _gradient(row) != "none" else ""
        lines.append(f"| `{mode}` | {row.arity} | {row.kinds} | {row.result} | {_gradient(row)} | {safe} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(operator_table(), end="")
