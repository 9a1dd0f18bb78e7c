"""A parcel: a tree of files as bytes, packed here and unpacked where nothing of it is believed.

A manifest names every entry and every block, and a parcel is known by the hash of its manifest: whoever has that from
somebody they trust need not trust the store that the bytes came through.
"""

from toolkit.fleets.parcels.entries import Entry, Manifest, Parcel, ParcelError
from toolkit.fleets.parcels.packing import Packing
from toolkit.fleets.parcels.sending import Parts, at_home, fetch, forget_sent, send
from toolkit.fleets.parcels.unpacking import read_contents, unpack_into

__all__ = [
    "Entry",
    "Manifest",
    "Packing",
    "Parcel",
    "ParcelError",
    "Parts",
    "at_home",
    "fetch",
    "forget_sent",
    "read_contents",
    "send",
    "unpack_into",
]
