"""Arrows point one way, rooms keep to themselves, and what is public exists."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import interp
import ops
import transformations

ROOT = Path(__file__).resolve().parent.parent
ALLOWED = {"interp": {"interp"}, "ops": {"interp", "ops"}, "transformations": {"interp", "ops", "transformations"}}
OUTSIDE = {
    "interp": {"numpy", "attrs", "optree", "typing_extensions"},
    "ops": {"numpy", "scipy", "attrs"},
    "transformations": {"numpy", "attrs"},
}
FILES = [path for room in ALLOWED for path in sorted((ROOT / room).rglob("*.py"))]


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.split(".")[0])
    return names


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_one_way(path: Path) -> None:
    room = path.relative_to(ROOT).parts[0]
    names = imported(path)
    assert not (names & set(ALLOWED)) - ALLOWED[room]
    third_party = {n for n in names if n not in sys.stdlib_module_names and n not in ALLOWED}
    if path.name != "testing.py":
        assert third_party <= OUTSIDE[room], f"{path} imports {third_party - OUTSIDE[room]}"


def test_the_core_names_no_operator_and_no_transformation() -> None:
    names = {name for name in vars(transformations) if name[:1].isupper() and name != "EvalTransformation"}
    names |= {name for name in vars(ops) if name[:1].isupper()}
    for path in (ROOT / "interp").glob("*.py"):
        tree = ast.parse(path.read_text())
        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        used |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        assert not used & names, f"{path.name} names {used & names}"


def test_no_module_of_transformations_is_named_as_one_of_its_functions() -> None:
    modules = {path.stem for path in (ROOT / "transformations").glob("*.py")} - {"__init__", "testing"}
    functions = {name for name in transformations.__all__ if name[:1].islower()}
    assert modules & functions <= {"no_grad", "why_zero"}
    for name in modules & functions:
        assert callable(getattr(transformations, name))


def test_ops_alone_computes() -> None:
    code = (
        "import sys, ops; x = ops.asarray([1.0, 2.0]); assert (x * x).tolist() == [1.0, 4.0]; "
        "assert not any(m.startswith('transformations') for m in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


@pytest.mark.parametrize("package", [interp, transformations])
def test_what_is_public_exists_and_is_documented(package: object) -> None:
    for name in package.__all__:  # type: ignore[attr-defined]
        thing = getattr(package, name)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            assert thing.__doc__, f"{name} has no docstring"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_module_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text())), f"{path} has no docstring"
