"""The schema language: what an operator is called, what it takes and what it returns.

``parse_schema`` reads a text into an immutable ``FunctionSchema``; ``Binder`` fits the arguments
of a Python call to one. The package needs nothing but the standard library and ``errors``.
"""

from pullback.schema.arguments import (
    Annotation,
    Argument,
    Arguments,
    Return,
    TensorOptionsArguments,
)
from pullback.schema.bind import Binder, is_tensor
from pullback.schema.model import FunctionSchema, SchemaKind
from pullback.schema.names import BaseOperatorName, OperatorName
from pullback.schema.parse import parse_operator_name, parse_schema
from pullback.schema.types import BaseTy, BaseType, CustomClassType, ListType, OptionalType, Type

__all__ = [
    "Annotation",
    "Argument",
    "Arguments",
    "BaseOperatorName",
    "BaseTy",
    "BaseType",
    "Binder",
    "CustomClassType",
    "FunctionSchema",
    "ListType",
    "OperatorName",
    "OptionalType",
    "Return",
    "SchemaKind",
    "TensorOptionsArguments",
    "Type",
    "is_tensor",
    "parse_operator_name",
    "parse_schema",
]
