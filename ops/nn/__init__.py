"""Operators of neural networks: convolution, pooling, normalisation, losses, and what else layers are made of.

`ops.nn` holds functions alone; parameters are arguments, so any container of Tensors is a model.
"""

from .convolution import *
from .pixels import *
from .pooling import *
