"""What a caller names on the host, judged before anything starts: folders, the CLI, the model API, credentials.

The names below are loaded on first use.
"""

from __future__ import annotations

from toolkit._base.lazy import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from toolkit.sandbox.host.cli import find_cli as find_cli
    from toolkit.sandbox.host.folders import (
        python_environment as python_environment,
        usable_home as usable_home,
        usable_readable as usable_readable,
        usable_workspace as usable_workspace,
    )
    from toolkit.sandbox.host.loopback import (
        HostTLS as HostTLS,
        host_tls as host_tls,
        loopback_port as loopback_port,
        trusting as trusting,
        why_not_tls as why_not_tls,
    )
    from toolkit.sandbox.host.model_api import (
        BETAS as BETAS,
        CREDENTIALS as CREDENTIALS,
        CUSTOM_HEADERS as CUSTOM_HEADERS,
        BaseURL as BaseURL,
        ModelAPI as ModelAPI,
        checked_headers as checked_headers,
        find_api as find_api,
        merged_headers as merged_headers,
    )

_HOMES = {
    "toolkit.sandbox.host.cli": "find_cli",
    "toolkit.sandbox.host.folders": "python_environment usable_home usable_readable usable_workspace",
    "toolkit.sandbox.host.loopback": "HostTLS host_tls loopback_port trusting why_not_tls",
    "toolkit.sandbox.host.model_api": (
        "BETAS CREDENTIALS CUSTOM_HEADERS BaseURL ModelAPI checked_headers find_api merged_headers"
    ),
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
