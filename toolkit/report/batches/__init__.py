"""A batch as one HTML page: outcomes, cost, time, failures by cause, the rate, and every run linked.

It has the design, the policy and the escaping of a run's page: what tasks and runs say is data, never markup.
"""

from typing import TYPE_CHECKING

from toolkit._base.lazy import lazy_names

if TYPE_CHECKING:
    from toolkit.report.batches.data import batch_data as batch_data
    from toolkit.report.batches.page import batch_policy as batch_policy, make_batch_page as make_batch_page
    from toolkit.report.batches.writing import render_batch as render_batch, write_batch as write_batch

_HOMES = {
    "toolkit.report.batches.data": "batch_data",
    "toolkit.report.batches.page": "batch_policy make_batch_page",
    "toolkit.report.batches.writing": "render_batch write_batch",
}
__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
