"""The whole product on a small example: a workspace, a confined run, its changes and its report.

The model is scripted, so it needs no key and no network; everything else is real:
the CLI, the jail, the tools, the files.
"""

from typing import TYPE_CHECKING

from toolkit._base.lazy import lazy_names

if TYPE_CHECKING:
    from toolkit.demo._show import demo as demo

__getattr__, __dir__, __all__ = lazy_names(__name__, {"toolkit.demo._show": "demo"})
