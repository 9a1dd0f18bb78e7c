"""What a workspace was made of: a row for every file, the bytes it had, and where it came from."""

from toolkit_workspace.record.bases import LARGEST_FRESH, LARGEST_KEPT, Bases, BaseStore, keep_base, keep_bases
from toolkit_workspace.record.content import Content, ContentGone, Node, NodeKind, open_file
from toolkit_workspace.record.hosts import Hosts, host_path_of, leads_elsewhere, mount_of
from toolkit_workspace.record.record import Copied, Kind, MountRecord, Record, Row, Rows, Stamp, join

__all__ = [
    "LARGEST_FRESH",
    "LARGEST_KEPT",
    "BaseStore",
    "Bases",
    "Content",
    "ContentGone",
    "Copied",
    "Hosts",
    "Kind",
    "MountRecord",
    "Node",
    "NodeKind",
    "Record",
    "Row",
    "Rows",
    "Stamp",
    "host_path_of",
    "join",
    "keep_base",
    "keep_bases",
    "leads_elsewhere",
    "mount_of",
    "open_file",
]
