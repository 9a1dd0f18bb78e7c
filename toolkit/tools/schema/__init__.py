"""What a tool takes and gives: a signature becomes JSON Schemas, and JSON becomes the values a function wants.

What needs pydantic is in `compiling/` and loaded by who needs it.
"""

from toolkit.tools.schema.arguments import Arguments, is_certain
from toolkit.tools.schema.docstring import description
from toolkit.tools.schema.portable import PROPERTY_NAME, combined, doubts
from toolkit.tools.schema.subject import Subject, is_context, read_call, read_subject

__all__ = [
    "PROPERTY_NAME",
    "Arguments",
    "Subject",
    "combined",
    "description",
    "doubts",
    "is_certain",
    "is_context",
    "read_call",
    "read_subject",
]
