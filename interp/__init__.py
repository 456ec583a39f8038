"""The dispatch core: values, operators, the stack of transformations and `apply`.

Nothing here knows an operator or a transformation by name. `apply(op, *inputs)` hands an operator to the top of
the stack; each layer answers, or passes on to the one below; the evaluator at the bottom asks the kernel table.
"""

from . import dispatch, rules
from .basic import (
    CreateTensor,
    DupTensor,
    GetAttr,
    GetId,
    GetName,
    IsScalar,
    PopScope,
    PushScope,
    RenameValue,
)
from .dispatch import (
    Level,
    Segment,
    Transformation,
    apply,
    at_level,
    current_level,
    deliver,
    exchanged,
    install_bottom,
    read,
    stack,
)
from .dtypes import default_dtype, default_dtype_scope, set_default_dtype
from .errors import (
    DTypeError,
    GradError,
    IndexOutOfRangeError,
    InterpError,
    LeakedValueError,
    LinearAlgebraError,
    OperatorError,
    RuleError,
    ShapeError,
    StackError,
    TraceError,
)
from .evaluate import EvalTransformation, infer
from .handle_reader import HandleReader
from .observe import debug_mode, explain, explain_stack, log_dispatch, name_of, observe_from_environment, rename, scope
from .operator import OpDef, Operator, OperatorKind
from .recorder import record
from .subgraph import Expr, Subgraph
from .tensor import Tensor, tensor
from .value import LeafWrapper, Scope, Spec, Value, Wrapper

__all__ = [
    "CreateTensor",
    "DTypeError",
    "DupTensor",
    "EvalTransformation",
    "Expr",
    "GetAttr",
    "GetId",
    "GetName",
    "GradError",
    "HandleReader",
    "IndexOutOfRangeError",
    "InterpError",
    "IsScalar",
    "LeafWrapper",
    "LeakedValueError",
    "Level",
    "LinearAlgebraError",
    "OpDef",
    "Operator",
    "OperatorError",
    "OperatorKind",
    "PopScope",
    "PushScope",
    "RenameValue",
    "RuleError",
    "Scope",
    "Segment",
    "ShapeError",
    "Spec",
    "StackError",
    "Subgraph",
    "Tensor",
    "TraceError",
    "Transformation",
    "Value",
    "Wrapper",
    "apply",
    "at_level",
    "current_level",
    "debug_mode",
    "default_dtype",
    "default_dtype_scope",
    "deliver",
    "exchanged",
    "explain",
    "explain_stack",
    "infer",
    "is_compiled",
    "log_dispatch",
    "name_of",
    "read",
    "record",
    "rename",
    "rules",
    "scope",
    "set_default_dtype",
    "stack",
    "tensor",
]


def is_compiled() -> bool:
    """Whether the dispatch core runs as native code (False: as plain Python)."""
    return not dispatch.__file__.endswith(".py")


install_bottom(EvalTransformation())
observe_from_environment()
