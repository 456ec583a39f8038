"""Every computing operator with its rules beside it, and the public functions that apply them."""

from interp.tensor import install_sign, syntax

from .arithmetic import ADD, MUL, SUB, TRUE_DIV, add, divide, multiply, negative, safe_multiply, subtract
from .broadcasting import broadcast_to, sum_to
from .casting import astype, real
from .elemwise import Elemwise

for _sign, _op in {"+": ADD, "-": SUB, "*": MUL, "/": TRUE_DIV}.items():
    install_sign(_sign, _op)
syntax.call.update({"astype": astype, "__neg__": negative})
