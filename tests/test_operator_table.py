"""The page of operators in the documentation is what the code says, and has no hole without a reason."""

from pathlib import Path

from interp import rules
from transformations.rule_table import operator_classes, operator_table

PAGE = Path(__file__).resolve().parent.parent / "docs" / "operators.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == operator_table(), "run: python -m transformations.rule_table > docs/operators.md"


def test_every_operator_has_kernel_inference_gradient_and_tangent() -> None:
    for cls in operator_classes():
        if cls.is_program:  # differentiated as the program that it carries
            continue
        for table in (rules.kernel, rules.infer, rules.vjp, rules.jvp):
            assert cls in table, f"{cls.__name__} has no {table.name} rule"
