"""What the commands share: their form, what they print and how a run is followed at a terminal.

The names below load nothing but click. `display` and `following` are imported by name,
where a run is to be seen.
"""

from toolkit.cli.terminal.changes import apply_options, print_applied, print_changes
from toolkit.cli.terminal.command import (
    MOUNT,
    Bytes,
    CommandWithExample,
    Duration,
    Group,
    command,
    json_option,
    with_options,
)
from toolkit.cli.terminal.results import as_json, echo_json, take_stdout, write_result

__all__ = [
    "MOUNT",
    "Bytes",
    "CommandWithExample",
    "Duration",
    "Group",
    "apply_options",
    "as_json",
    "command",
    "echo_json",
    "json_option",
    "print_applied",
    "print_changes",
    "take_stdout",
    "with_options",
    "write_result",
]
