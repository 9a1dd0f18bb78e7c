"""A running tool asks back: a person a question, the client's model for a text, the client for its folders.

Loaded when a tool asks; who answers is decided by whoever serves the tool.
"""

from toolkit.tools.asking.answers import Cancelled, CannotAsk, Declined, Root, Sampled
from toolkit.tools.asking.forms import Form, read_form
from toolkit.tools.asking.questions import Asking, Nobody, Question, SampleRequest, put_question

__all__ = [
    "Asking",
    "Cancelled",
    "CannotAsk",
    "Declined",
    "Form",
    "Nobody",
    "Question",
    "Root",
    "SampleRequest",
    "Sampled",
    "put_question",
    "read_form",
]
