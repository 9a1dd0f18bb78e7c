"""A running tool asks back: a person a question, the client's model for a text, the client for its folders.

Loaded when a tool asks; who answers is decided by whoever serves the tool. The names below are loaded on first use:
whoever fills in a form needs no schemas.
"""

from typing import TYPE_CHECKING

from toolkit._base.lazy import lazy_names

if TYPE_CHECKING:
    from toolkit.tools.asking.answers import (
        Cancelled as Cancelled,
        CannotAsk as CannotAsk,
        Declined as Declined,
        Root as Root,
        Sampled as Sampled,
    )
    from toolkit.tools.asking.filling import filled as filled, hint_of as hint_of
    from toolkit.tools.asking.forms import Form as Form, read_form as read_form
    from toolkit.tools.asking.questions import (
        Asking as Asking,
        Nobody as Nobody,
        Question as Question,
        SampleRequest as SampleRequest,
        put_question as put_question,
    )

_HOMES = {
    "toolkit.tools.asking.answers": "Cancelled CannotAsk Declined Root Sampled",
    "toolkit.tools.asking.filling": "filled hint_of",
    "toolkit.tools.asking.forms": "Form read_form",
    "toolkit.tools.asking.questions": "Asking Nobody Question SampleRequest put_question",
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
