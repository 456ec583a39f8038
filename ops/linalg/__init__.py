"""Linear algebra: the extension of that name of the Python Array API standard.

Every function takes stacks of matrices in the last two axes. `matmul`, `outer`, `tensordot` and others that the
standard has in both places are the same functions as in `ops`.
"""

from ..manipulation import matrix_transpose
from ..matmul import matmul, outer, tensordot, vecdot
from .decompositions import *
from .functions import *
from .solving import *
