"""Discrete Fourier transforms: the extension of that name of the Python Array API standard.

Each transform is an operator that is linear and whose transpose is again one of these.
"""

from .frequencies import *
from .transforms import *
