"""Every computing operator with its rules beside it, and the public functions that apply them.

The names are those of the Python Array API standard where it has one.
"""

from . import fft, linalg, nn, programs
from .activation import relu, sigmoid
from .arithmetic import *
from .array_protocols import *
from .bitwise import *
from .broadcasting import broadcast_to, sum_to
from .casting import astype
from .comparison import *
from .complex import *
from .creation import *
from .cumulative import *
from .data_types import *
from .einsum import *
from .elemwise import Elemwise
from .exponential import *
from .gathering import *
from .indexing import *
from .joining import *
from .manipulation import *
from .matmul import *
from .padding import *
from .products import ProductOfOthers
from .programs import Call, eval_shape
from .rearranging import *
from .reduction import *
from .rounding import *
from .searching import *
from .statistics import *
from .trigonometric import *
