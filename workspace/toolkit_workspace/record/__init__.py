"""What a workspace was made of: a row for every file, the bytes it had, and where it came from."""

from toolkit_workspace.record.content import Content, ContentGone, Hosts, Node
from toolkit_workspace.record.keeping import LARGEST_FRESH, LARGEST_KEPT, ByteStore, keep_base, keep_bases
from toolkit_workspace.record.record import Copied, Kind, MountRecord, Record, Row, Rows, Stamp, join

__all__ = [
    "LARGEST_FRESH",
    "LARGEST_KEPT",
    "ByteStore",
    "Content",
    "ContentGone",
    "Copied",
    "Hosts",
    "Kind",
    "MountRecord",
    "Node",
    "Record",
    "Row",
    "Rows",
    "Stamp",
    "join",
    "keep_base",
    "keep_bases",
]
