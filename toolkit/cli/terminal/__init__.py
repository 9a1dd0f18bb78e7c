"""What the commands share: their form, what they print and how a run is followed at a terminal.

The names below load nothing but click. `display` and `following` are imported by name,
where a run is to be seen.
"""

from toolkit.cli.terminal.command import MOUNT as MOUNT
from toolkit.cli.terminal.command import RUN as RUN
from toolkit.cli.terminal.command import Bytes as Bytes
from toolkit.cli.terminal.command import CommandWithExample as CommandWithExample
from toolkit.cli.terminal.command import Duration as Duration
from toolkit.cli.terminal.command import Group as Group
from toolkit.cli.terminal.command import apply_options as apply_options
from toolkit.cli.terminal.command import command as command
from toolkit.cli.terminal.command import json_option as json_option
from toolkit.cli.terminal.command import with_options as with_options
from toolkit.cli.terminal.results import as_json as as_json
from toolkit.cli.terminal.results import echo_json as echo_json
from toolkit.cli.terminal.results import print_applied as print_applied
from toolkit.cli.terminal.results import print_changes as print_changes
from toolkit.cli.terminal.results import take_stdout as take_stdout
from toolkit.cli.terminal.results import write_result as write_result
