"""One run as one HTML file: what was asked, said, done, refused, changed and used.

The file needs nothing but a browser: no network, no server, no other file. What a
run holds is hostile: it is data in the page, never markup, and the page's policy
lets nothing run but the script that this room wrote.
"""

from toolkit.report.live import LiveReport
from toolkit.report.static import render_report, write_report

__all__ = ["LiveReport", "render_report", "write_report"]
