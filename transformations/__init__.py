"""Layers of the stack, a file each, and the functions that put them there.

A transformation answers operators or passes them on to the layer below; nothing here is known to `interp` or `ops`
by name, and everything uses what a transformation in a user's own file can use.
"""

from interp import EvalTransformation

from .backward_graph import BackwardGraph, OptimizedBackwardGraph, make_backward_graph
from .broken_links import why_zero
from .custom_call import CustomCall
from .custom_rule import Function, custom_jvp, custom_vjp
from .forward_mode import DualValue, JvpTransformation, jacfwd, jvp, linearize, register_jvp_rule
from .grad_operators import (
    AttachGrad,
    DetachGrad,
    GetBackwardClosure,
    GetGradKey,
    GetGradSlot,
    GradBackward,
    InsertGradCallback,
    IsAttachedTo,
    SetGrad,
)
from .grad_scope import Grad, GradManager
from .grad_transformation import GradTransformation, register_grad_rule
from .gradient import grad, hessian, hvp, jacrev, stop_gradient, value_and_grad, vjp
from .lazy_eval import LazyEvalTransformation, LazyValue
from .program_rules import JointProgram
from .suppression import no_grad
from .symbolic_eval import SymbolicValue, SymbolTransformation
from .tape import BackwardGraphWithClosure, CustomBackward, GradFn, GradKey, GradSlot, GradValue, OutputAttr
from .trace_result import TraceResult, TraceVar, VarKind
from .tracing import CacheInfo, Traced, trace
from .tracing_layer import IOMarkVar, TraceMarkVar, TracingTransformation, TracingValue
from .vectorize import BatchedValue, VmapTransformation, vmap

__all__ = [
    "AttachGrad",
    "BackwardGraph",
    "BackwardGraphWithClosure",
    "BatchedValue",
    "CacheInfo",
    "CustomBackward",
    "CustomCall",
    "DetachGrad",
    "DualValue",
    "EvalTransformation",
    "Function",
    "GetBackwardClosure",
    "GetGradKey",
    "GetGradSlot",
    "Grad",
    "GradBackward",
    "GradFn",
    "GradKey",
    "GradManager",
    "GradSlot",
    "GradTransformation",
    "GradValue",
    "IOMarkVar",
    "InsertGradCallback",
    "IsAttachedTo",
    "JointProgram",
    "JvpTransformation",
    "LazyEvalTransformation",
    "LazyValue",
    "OptimizedBackwardGraph",
    "OutputAttr",
    "SetGrad",
    "SymbolTransformation",
    "SymbolicValue",
    "TraceMarkVar",
    "TraceResult",
    "TraceVar",
    "Traced",
    "TracingTransformation",
    "TracingValue",
    "VarKind",
    "VmapTransformation",
    "custom_jvp",
    "custom_vjp",
    "grad",
    "hessian",
    "hvp",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "make_backward_graph",
    "no_grad",
    "register_grad_rule",
    "register_jvp_rule",
    "stop_gradient",
    "trace",
    "value_and_grad",
    "vjp",
    "vmap",
    "why_zero",
]
