"""What a tool takes and gives: a signature becomes JSON Schemas, and JSON becomes the values a function wants."""

from toolkit.tools.schema._arguments import Arguments, is_certain, is_context
from toolkit.tools.schema._compile import CompiledType, compile_type
from toolkit.tools.schema._docstring import description
from toolkit.tools.schema._entry import Entry, GivenArguments, GivenOutput
from toolkit.tools.schema._given import check_schema
from toolkit.tools.schema._output import Output, is_certain_output
from toolkit.tools.schema._portable import PROPERTY_NAME, doubts
from toolkit.tools.schema._subject import Subject, read_call, read_subject

__all__ = [
    "PROPERTY_NAME",
    "Arguments",
    "CompiledType",
    "Entry",
    "GivenArguments",
    "GivenOutput",
    "Output",
    "Subject",
    "check_schema",
    "compile_type",
    "description",
    "doubts",
    "is_certain",
    "is_certain_output",
    "is_context",
    "read_call",
    "read_subject",
]
