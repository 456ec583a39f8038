"""The conformance kit: laws that every operator and every layer must keep, for the project's and for a user's own."""

from .operator_laws import ConformanceError, check_operator
from .transformation_laws import LAWS, check_transformation

__all__ = ["LAWS", "ConformanceError", "check_operator", "check_transformation"]
