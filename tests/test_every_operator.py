"""Every operator keeps the laws of the conformance kit. Operators are found, not listed."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import ops  # noqa: F401 - its operators are enumerated
import transformations  # noqa: F401
from interp import OpDef, rules
from ops.elemwise import ROWS, Elemwise
from tests.samples import all_samples
from transformations import CustomCall
from transformations.testing import check_operator

SAMPLES = list(all_samples())


def operator_classes(base: type[OpDef] = OpDef) -> set[type[OpDef]]:
    found = set()
    for cls in base.__subclasses__():
        home = sys.modules[cls.__module__]
        if home.__name__.split(".")[0] in ("interp", "ops", "transformations") and vars(home).get(cls.__name__) is cls:
            found.add(cls)
        found |= operator_classes(cls)
    return found


CLASSES = sorted(operator_classes() - {CustomCall}, key=lambda cls: cls.__name__)


@pytest.mark.parametrize(("op", "inputs"), SAMPLES, ids=[repr(op)[:60] for op, _ in SAMPLES])
def test_an_operator_keeps_its_laws(op: OpDef, inputs: tuple[object, ...]) -> None:
    with np.errstate(all="ignore"):
        check_operator(op, [inputs])


def test_every_operator_class_has_samples() -> None:
    sampled = {type(op) for op, _ in SAMPLES}
    missing = [cls.__name__ for cls in CLASSES if cls not in sampled]
    assert not missing, f"add samples in tests/samples for {missing}"


def test_every_element_wise_mode_has_samples() -> None:
    sampled = {op.mode for op, _ in SAMPLES if isinstance(op, Elemwise)}
    assert not set(ROWS) - sampled, f"add samples in tests/samples/elemwise.py for {sorted(set(ROWS) - sampled)}"


@pytest.mark.parametrize("cls", [cls for cls in CLASSES if not cls.is_program], ids=lambda cls: cls.__name__)
def test_every_operator_has_its_rules(cls: type[OpDef]) -> None:
    for table in (rules.kernel, rules.infer, rules.vjp, rules.jvp):
        assert cls in table, f"{cls.__name__} has no {table.name} rule"
