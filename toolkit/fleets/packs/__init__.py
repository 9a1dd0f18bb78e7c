"""What a batch works on, packed once by its content, sent once to each machine and kept there by its hash.

pack(section, folder)      on the caller's machine: a `Pack`, and its parts in the folder
send_pack(pack, folder, store)
unpack(pack, store)        on a worker: the files beneath its temp folder; `.section()` is for `RunSpec.workspace`
"""

from toolkit.fleets.packs.code import load_code, pack_code, require_code
from toolkit.fleets.packs.kept import Unpacked, unpack
from toolkit.fleets.packs.pack import Pack, PackedHome, pack, packed_home, send_pack

__all__ = [
    "Pack",
    "PackedHome",
    "Unpacked",
    "load_code",
    "pack",
    "pack_code",
    "packed_home",
    "require_code",
    "send_pack",
    "unpack",
]
