"""What an agent may touch, and the proof that it holds.

The names below are loaded on first use.
"""

from __future__ import annotations

from toolkit._base.lazy import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from toolkit.sandbox.checks import check as check
    from toolkit.sandbox.commands import CommandEnd as CommandEnd, JailCommand as JailCommand, shell as shell
    from toolkit.sandbox.confined_command import (
        ShellOptions as ShellOptions,
        ShellRun as ShellRun,
        run_confined as run_confined,
    )
    from toolkit.sandbox.confining import (
        LITTER as LITTER,
        Confinement as Confinement,
        checked_env as checked_env,
        confine as confine,
        remove_litter as remove_litter,
    )
    from toolkit.sandbox.domains import parse_domains as parse_domains
    from toolkit.sandbox.gate.gate import Gate as Gate
    from toolkit.sandbox.gate.pacing.keeping import Bookkeeper as Bookkeeper
    from toolkit.sandbox.gate.pacing.pace import Pace as Pace
    from toolkit.sandbox.gate.refusals import GATE_SAYS as GATE_SAYS, Refusal as Refusal
    from toolkit.sandbox.gate.usage import GateUsage as GateUsage, ModelCall as ModelCall, SpendLimit as SpendLimit
    from toolkit.sandbox.host import (
        CREDENTIALS as CREDENTIALS,
        CUSTOM_HEADERS as CUSTOM_HEADERS,
        BaseURL as BaseURL,
        HostTLS as HostTLS,
        ModelAPI as ModelAPI,
        checked_headers as checked_headers,
        find_api as find_api,
        find_cli as find_cli,
        host_tls as host_tls,
        loopback_port as loopback_port,
        python_environment as python_environment,
        usable_readable as usable_readable,
        why_not_tls as why_not_tls,
    )
    from toolkit.sandbox.jail.proof import CheckReport as CheckReport, CheckRow as CheckRow
    from toolkit.sandbox.jail.walls import Jail as Jail
    from toolkit.sandbox.lending import (
        CACHE as CACHE,
        Layout as Layout,
        Lent as Lent,
        Toolchain as Toolchain,
        find_toolchain as find_toolchain,
        is_installed as is_installed,
        reaches_the_starter as reaches_the_starter,
        toolchain_of as toolchain_of,
        unreadable_text as unreadable_text,
    )
    from toolkit.sandbox.limits import HeldLimit as HeldLimit, JailLimits as JailLimits, limit_names as limit_names
    from toolkit.sandbox.lint.explain import (
        Problem as Problem,
        explain_file as explain_file,
        explain_text as explain_text,
    )
    from toolkit.sandbox.profiles import (
        CONTROL_FILES as CONTROL_FILES,
        NATIVE_TOOLS as NATIVE_TOOLS,
        OLD_NAMES as OLD_NAMES,
        PROFILES as PROFILES,
        READ_ONLY_TOOLS as READ_ONLY_TOOLS,
        TOOLS as TOOLS,
        profile as profile,
        profile_text as profile_text,
    )
    from toolkit.sandbox.relay import Heard as Heard, relayed as relayed
    from toolkit.sandbox.settings import KNOWN_CLI as KNOWN_CLI, SandboxSettings as SandboxSettings

_HOMES = {
    "toolkit.sandbox.checks": "check",
    "toolkit.sandbox.commands": "CommandEnd JailCommand shell",
    "toolkit.sandbox.confining": "LITTER Confinement checked_env confine remove_litter",
    "toolkit.sandbox.domains": "parse_domains",
    "toolkit.sandbox.gate.gate": "Gate",
    "toolkit.sandbox.gate.pacing.keeping": "Bookkeeper",
    "toolkit.sandbox.gate.pacing.pace": "Pace",
    "toolkit.sandbox.gate.refusals": "GATE_SAYS Refusal",
    "toolkit.sandbox.gate.usage": "GateUsage ModelCall SpendLimit",
    "toolkit.sandbox.host": (
        "CREDENTIALS CUSTOM_HEADERS BaseURL HostTLS ModelAPI checked_headers find_api find_cli host_tls "
        "loopback_port python_environment usable_readable why_not_tls"
    ),
    "toolkit.sandbox.jail.proof": "CheckReport CheckRow",
    "toolkit.sandbox.jail.walls": "Jail",
    "toolkit.sandbox.lending": (
        "CACHE Layout Lent Toolchain find_toolchain is_installed reaches_the_starter toolchain_of unreadable_text"
    ),
    "toolkit.sandbox.limits": "JailLimits HeldLimit limit_names",
    "toolkit.sandbox.lint.explain": "Problem explain_file explain_text",
    "toolkit.sandbox.profiles": (
        "CONTROL_FILES NATIVE_TOOLS OLD_NAMES PROFILES READ_ONLY_TOOLS TOOLS profile profile_text"
    ),
    "toolkit.sandbox.relay": "Heard relayed",
    "toolkit.sandbox.settings": "KNOWN_CLI SandboxSettings",
    "toolkit.sandbox.confined_command": "ShellOptions ShellRun run_confined",
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
