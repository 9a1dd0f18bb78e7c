"""What needs pydantic, or jsonschema for given schemas: validators, and the schemas of types that are not plain."""

from toolkit.tools.schema.compiling.compile import CompiledType, compile_type
from toolkit.tools.schema.compiling.entry import Entry, GivenArguments, GivenOutput
from toolkit.tools.schema.compiling.given import check_schema, plain_copy
from toolkit.tools.schema.compiling.output import Output, is_certain_output
from toolkit.tools.schema.compiling.parse import Parser, compile_parameter
from toolkit.tools.schema.compiling.unusable import UnusableTypeError

__all__ = [
    "CompiledType",
    "Entry",
    "GivenArguments",
    "GivenOutput",
    "Output",
    "Parser",
    "UnusableTypeError",
    "check_schema",
    "compile_parameter",
    "compile_type",
    "is_certain_output",
    "plain_copy",
]
