"""Where machines leave what others must find: records that are created once and never changed."""

from toolkit.fleets.store.memory import MemoryStore
from toolkit.fleets.store.opening import address_of, check_store, open_shared, open_store
from toolkit.fleets.store.row import Row, read_said
from toolkit.fleets.store.store import FolderStore, Store, StoreError

__all__ = [
    "FolderStore",
    "MemoryStore",
    "Row",
    "Store",
    "StoreError",
    "address_of",
    "check_store",
    "open_shared",
    "open_store",
    "read_said",
]
