"""What a workspace was made of: a row for every file, the bytes it had, and where it came from."""

from toolkit_workspace.record.keeping import ByteStore, keep_base, keep_bases
from toolkit_workspace.record.record import Kind, MountRecord, Record, Row, Stamp, join

__all__ = ["ByteStore", "Kind", "MountRecord", "Record", "Row", "Stamp", "join", "keep_base", "keep_bases"]
