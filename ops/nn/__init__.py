"""Operators of neural networks: convolution, pooling, normalisation, losses, and what else layers are made of.

`ops.nn` holds functions alone; parameters are arguments, so any container of Tensors is a model.
"""

from ..activation import *
from .convolution import *
from .layers import *
from .losses import *
from .normalization import *
from .picking import *
from .pixels import *
from .pooling import *
from .resampling import *
from .softmax import *
