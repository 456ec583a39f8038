from .grad_scope import Grad, GradManager
from .grad_transformation import GradTransformation
