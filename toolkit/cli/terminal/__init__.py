"""What the commands share: their form, what they print and how a run is followed at a terminal.

The names below load nothing but click. `display` and `following` are imported by name,
where a run is to be seen.
"""

from toolkit.cli.terminal.command import (
    MOUNT as MOUNT,
    RUN as RUN,
    Bytes as Bytes,
    CommandWithExample as CommandWithExample,
    Duration as Duration,
    Group as Group,
    apply_options as apply_options,
    command as command,
    json_option as json_option,
    with_options as with_options,
)
from toolkit.cli.terminal.results import (
    as_json as as_json,
    echo_json as echo_json,
    print_applied as print_applied,
    print_changes as print_changes,
    take_stdout as take_stdout,
    write_result as write_result,
)
