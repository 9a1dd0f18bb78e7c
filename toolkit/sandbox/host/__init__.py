"""What a caller names on the host, judged before anything starts: folders, the CLI, the model API, credentials."""

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
    CREDENTIALS as CREDENTIALS,
    CUSTOM_HEADERS as CUSTOM_HEADERS,
    ModelAPI as ModelAPI,
    checked_headers as checked_headers,
    find_api as find_api,
)
