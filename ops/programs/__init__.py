"""Programs as operators: passes over them, what runs them, and the operator that calls one."""

from .backends import CompiledProgram, backend, compile_program, register_backend
from .call import Call
from .shapes import eval_shape
from .straight_line import compile_straight_line

__all__ = [
    "Call",
    "CompiledProgram",
    "backend",
    "compile_program",
    "compile_straight_line",
    "eval_shape",
    "register_backend",
]
