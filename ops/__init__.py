"""Every computing operator with its rules beside it, and the public functions that apply them."""

from interp.tensor import syntax

from .arithmetic import ADD, MUL, SUB, TRUE_DIV, add, divide, multiply, negative, safe_multiply, subtract
from .broadcasting import broadcast_to, sum_to
from .casting import astype, real
from .elemwise import Elemwise

syntax.binary.update({"+": ADD, "-": SUB, "*": MUL, "/": TRUE_DIV})
syntax.call.update({"astype": astype, "__neg__": negative})
