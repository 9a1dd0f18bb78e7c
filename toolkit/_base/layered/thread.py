"""A mount namespace belongs to a thread: one that takes it on and ends leaves the process where it is.

Not by `concurrent.futures`, which brings more modules than a jail needs for all the rest.
"""

from __future__ import annotations

import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    _T = TypeVar("_T")


def in_a_thread(work: Callable[[], _T]) -> _T:
    """What `work` gives, done in a thread of its own that has ended then; raises what it raises."""
    given: list[_T] = []
    raised: list[BaseException] = []

    def do() -> None:
        try:
            given.append(work())
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=do, name="toolkit-aside")
    thread.start()
    thread.join()
    if raised:
        raise raised[0]
    return given[0]
