"""All that a store does, tried on one: python -m tests.fleets.exercise ADDRESS, where what it needs is installed."""

from __future__ import annotations

import pickle
import sys
from concurrent.futures import ThreadPoolExecutor

from toolkit.fleets.store import Store, check_store, open_store


def exercise(store: Store) -> None:
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda who: store.create("claims/task/1", b"%d" % who * 5000), range(16)))
    assert won.count(True) == 1
    assert store.read("claims/task/1") == b"%d" % won.index(True) * 5000
    assert store.read("claims/task/2") is None
    assert store.names("claims") == ["claims/task/1"]
    assert store.names("nothing") == []
    store.create("claims/other", b"")
    assert store.names("claims") == ["claims/other", "claims/task/1"]
    assert store.read("claims/other") == b""
    store.remove("claims/task/1")
    store.remove("claims/task/1")
    assert store.create("claims/task/1", b"again")
    check_store(store)
    assert store.names("probes") == []


def main() -> None:
    store = open_store(sys.argv[1])
    exercise(store)
    assert pickle.loads(pickle.dumps(store)).read("claims/task/1") == b"again"
    print("all of it")


if __name__ == "__main__":
    main()
