"""The bytes every workspace file had when it was recorded: kept, or found on the host, or lost.

A three-way merge needs them, and so does a diff. A host file that is still as it
was copied is its own base. For the day it changes, `keep_bases` appends the bytes
to one store beside the workspace, which costs a fraction of a second copy: no
files are made. What was neither kept nor is still on the host is lost, and said so.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

from toolkit_workspace._content import Content, ContentGone, open_file
from toolkit_workspace._handles_host import MountHandles
from toolkit_workspace._manifest import Entry, Manifest

LARGEST_KEPT = 1 << 20
"""A file above this is not kept: it is hardly a text that merges."""
MOST_KEPT = 1 << 30
_TICK_NS = 20_000_000
_BUFFER = 1 << 20
