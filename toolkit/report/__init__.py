"""One run as one HTML file, or as Markdown: what was asked, said, done, refused, changed and used.

The file needs nothing but a browser: no network, no server, no other file. What a
run holds is hostile: it is data in the page, never markup, and the page's policy
lets nothing run but the script that this room wrote.
"""

from typing import TYPE_CHECKING

from toolkit._base.lazy import lazy_names

if TYPE_CHECKING:
    from toolkit.report._data import ending as ending, event_data as event_data, live_data as live_data
    from toolkit.report._live import LiveReport as LiveReport
    from toolkit.report._markdown import as_markdown as as_markdown
    from toolkit.report._page import (
        embedded as embedded,
        in_one_scope as in_one_scope,
        make_page as make_page,
        page_of as page_of,
        policy as policy,
        policy_of as policy_of,
        render_report as render_report,
        shared_part as shared_part,
        write_report as write_report,
    )

_HOMES = {
    "toolkit.report._live": "LiveReport",
    "toolkit.report._markdown": "as_markdown",
    "toolkit.report._data": "ending event_data live_data",
    "toolkit.report._page": (
        "embedded in_one_scope make_page page_of policy policy_of render_report shared_part write_report"
    ),
}
__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
