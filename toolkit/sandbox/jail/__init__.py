"""What a confined process can see, how it is started, proven, watched and taken away."""

from __future__ import annotations

from toolkit._base.lazy import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from toolkit.sandbox.jail.as_root import is_tenant as is_tenant
    from toolkit.sandbox.jail.canary import Flight as Flight, fly as fly
    from toolkit.sandbox.jail.folder import JailFolder as JailFolder, rivals as rivals, sweep as sweep
    from toolkit.sandbox.jail.launcher import OpenJail as OpenJail, open_jail as open_jail
    from toolkit.sandbox.jail.proof import preflight as preflight, prove as prove
    from toolkit.sandbox.jail.walls import (
        CLI_HOME as CLI_HOME,
        ENVIRONMENT as ENVIRONMENT,
        HOME as HOME,
        Jail as Jail,
        seccomp_filter as seccomp_filter,
    )
    from toolkit.sandbox.jail.watchdog import Watchdog as Watchdog

_HOMES = {
    "toolkit.sandbox.jail.as_root": "is_tenant",
    "toolkit.sandbox.jail.canary": "Flight fly",
    "toolkit.sandbox.jail.folder": "JailFolder rivals sweep",
    "toolkit.sandbox.jail.launcher": "OpenJail open_jail",
    "toolkit.sandbox.jail.proof": "preflight prove",
    "toolkit.sandbox.jail.walls": "CLI_HOME ENVIRONMENT HOME Jail seccomp_filter",
    "toolkit.sandbox.jail.watchdog": "Watchdog",
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
