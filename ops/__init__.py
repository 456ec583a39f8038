"""Every computing operator with its rules beside it, and the public functions that apply them.

The names are those of the Python Array API standard where it has one.
"""

from . import nn
from .arithmetic import *
from .broadcasting import broadcast_to, sum_to
from .casting import astype
from .creation import *
from .cumulative import *
from .elemwise import Elemwise
from .indexing import *
from .joining import *
from .einsum import *
from .manipulation import *
from .matmul import *
from .padding import *
from .products import ProductOfOthers
from .rearranging import *
from .reduction import *
from .searching import *
from .statistics import *
