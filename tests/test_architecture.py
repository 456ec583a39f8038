"""Arrows point one way, rooms keep to themselves, and what is public exists."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

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
    assert not modules & set(transformations.__all__)


@pytest.mark.parametrize("package", [interp, ops, ops.nn, ops.linalg, ops.fft, transformations], ids=lambda p: p.__name__)
def test_a_public_name_is_the_function_where_a_module_is_called_the_same(package: ModuleType) -> None:
    """Which of the two `package.name` is must not depend on what was imported first."""
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
        if module.name in getattr(package, "__all__", ()) and module.name != "rules":
            assert callable(getattr(package, module.name))
    code = (
        f"import {package.__name__} as p; print(sorted(n for n in vars(p) if callable(getattr(p, n)) and n[0] != '_'))"
    )
    alone = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    assert alone.stdout.strip() == str(
        sorted(n for n in vars(package) if callable(getattr(package, n)) and n[0] != "_")
    )


@pytest.mark.parametrize(
    "first", ["interp", "ops", "transformations", "transformations.testing", "ops.nn", "interp.tensor"]
)
def test_every_package_can_be_the_first_that_is_imported(first: str) -> None:
    code = f"import {first}, interp, ops; print((interp.tensor([1.0, 2.0]) * 2).tolist(), ops.exp(0.0).item())"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    assert result.stdout.strip() == "[2.0, 4.0] 1.0"


def test_interp_alone_says_what_is_missing() -> None:
    code = "import interp; interp.tensor([1.0]) @ interp.tensor([1.0])"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert "`import ops` installs one" in result.stderr
    code = "import interp; interp.tensor([1.0]) + interp.tensor([1.0])"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert "TypeError" in result.stderr or "`import ops`" in result.stderr


def test_the_names_of_the_design_are_public() -> None:
    promised = {
        interp: "tensor Tensor apply stack Operator OperatorKind OpDef Value Transformation Subgraph GetAttr CreateTensor "
        "Wrapper rules record explain explain_stack log_dispatch is_compiled InterpError ShapeError DTypeError RuleError "
        "GradError TraceError LeakedValueError debug_mode scope rename name_of",
        transformations: "EvalTransformation GradTransformation VmapTransformation JvpTransformation GradKey AttachGrad "
        "GradBackward IsAttachedTo SetGrad GetBackwardClosure DetachGrad GetGradKey InsertGradCallback CustomBackward "
        "register_grad_rule make_backward_graph Grad GradManager Function no_grad stop_gradient custom_vjp custom_jvp "
        "grad value_and_grad vjp jvp linearize jacrev jacfwd hessian hvp vmap",
    }
    for package, names in promised.items():
        assert set(names.split()) <= set(package.__all__)
        assert len(set(package.__all__)) == len(package.__all__)


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
