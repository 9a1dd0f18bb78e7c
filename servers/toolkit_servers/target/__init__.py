"""A TARGET as people type it becomes a Toolbox, and words on a command line a call of one of its tools.

The names below are loaded on first use: serving a target needs nothing of what a call needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit._base.lazy import lazy_names

if TYPE_CHECKING:
    from toolkit_servers.target._call import call_once as call_once
    from toolkit_servers.target._imports import is_user_file as is_user_file
    from toolkit_servers.target._key_values import (
        describe_arguments as describe_arguments,
        parse_arguments as parse_arguments,
        usage as usage,
    )
    from toolkit_servers.target._load import (
        Target as Target,
        check_target as check_target,
        import_module_or_file as import_module_or_file,
        load_target as load_target,
    )
    from toolkit_servers.target._many import load_again as load_again, load_targets as load_targets
    from toolkit_servers.target._sent import import_sent as import_sent, sent_file as sent_file

_HOMES = {
    "toolkit_servers.target._call": "call_once",
    "toolkit_servers.target._imports": "is_user_file",
    "toolkit_servers.target._key_values": "describe_arguments parse_arguments usage",
    "toolkit_servers.target._load": "Target check_target import_module_or_file load_target",
    "toolkit_servers.target._many": "load_again load_targets",
    "toolkit_servers.target._sent": "import_sent sent_file",
}
__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
