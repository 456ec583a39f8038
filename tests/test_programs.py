"""Programs run as generated code give what eager evaluation gives, and write to nothing that anybody else holds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import interp
import ops
from interp import DTypeError, OperatorError, ShapeError, Spec, tensor
from ops.programs import CompiledProgram, backend, compile_program, register_backend
from tests.layers import in_threads

F4 = Spec((4,), "float32")


def test_a_dead_operand_is_written_over_and_inputs_never_are() -> None:
    program = interp.record(lambda x, y: (ops.exp(x * y) + y) * x, F4, F4)
    compiled = compile_program(program, "numpy")
    x, y = np.arange(4, dtype="float32"), np.ones(4, "float32")
    x.flags.writeable = y.flags.writeable = False
    wanted = (np.exp(x * y) + y) * x
    kept = [compiled([x, y])[0] for _ in range(3)]
    for got in kept:
        np.testing.assert_array_equal(got, wanted)
    assert compiled.source.count("out=") == 3
    assert len({got.ctypes.data for got in kept}) == 3, "results belong to the caller"


def test_what_another_variable_may_be_a_view_of_is_not_written_over() -> None:
    def f(x: Any) -> Any:
        y = ops.exp(x)
        view = ops.reshape(y, (2, 2))
        return y * 2.0, view + 0.0

    compiled = compile_program(interp.record(f, F4), "numpy")
    x = np.arange(4, dtype="float32")
    for _ in range(3):
        doubled, same = compiled([x])
        np.testing.assert_array_equal(same.ravel() * 2, doubled)


def test_calls_of_one_program_may_overlap() -> None:
    compiled = compile_program(interp.record(lambda x: ops.sin(x * 2.0) + x, Spec((10_000,), "float64")))

    def work(seed: int) -> None:
        x = np.full(10_000, float(seed))
        for _ in range(20):
            np.testing.assert_array_equal(compiled([x])[0], np.sin(x * 2.0) + x)

    in_threads(work, range(4))


def test_long_programs_are_compiled_and_run() -> None:
    def f(x: Any) -> Any:
        for _ in range(30_000):
            x = x + 1.0
        return x

    compiled = compile_program(interp.record(f, Spec((2,), "float64")))
    for _ in range(3):
        assert compiled([np.zeros(2)])[0].tolist() == [30_000.0, 30_000.0]


def test_a_program_says_what_does_not_fit_it() -> None:
    call = ops.Call(interp.record(lambda x: x * 2.0, F4), "double")
    with pytest.raises(ShapeError, match=r"input 0 of the program double has shape \(4,\), not \(3,\)"):
        interp.apply(call, tensor(np.zeros(3, "float32")))
    with pytest.raises(DTypeError, match=r"is float32\[4\], not float64\[4\]"):
        interp.apply(call, tensor(np.zeros(4)))
    with pytest.raises(OperatorError, match="takes 1 inputs, not 2"):
        interp.apply(call, tensor(np.zeros(4, "float32")), 1.0)
    assert interp.apply(call, tensor(np.ones(4, "float32")))[0].tolist() == [2.0] * 4


def test_a_backend_of_ones_own() -> None:
    seen: list[str] = []

    def compile_fn(program: interp.Subgraph) -> CompiledProgram:
        plain = compile_program(program, "eager")

        def run(inputs: Any) -> list[Any]:
            seen.append("run")
            return plain(inputs)

        return CompiledProgram(program, run)

    register_backend("watched", compile_fn)
    call = ops.Call(interp.record(lambda x: x * 2.0, F4))
    with backend("watched"):
        interp.apply(call, tensor(np.ones(4, "float32")))
    assert seen == ["run"]
    with pytest.raises(OperatorError, match="there is no backend 'none'; there are: eager, numpy"), backend("none"):
        pass
