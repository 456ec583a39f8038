"""Programs as operators: passes over them, what runs them, and the operator that calls one."""

from .backends import CompiledProgram, backend, compile_program, register_backend
from .call import Call
from .shapes import eval_shape

__all__ = ["Call", "CompiledProgram", "backend", "compile_program", "eval_shape", "register_backend"]
