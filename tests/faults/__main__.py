"""Play by hand: `python -m tests.faults [OPERATION [FAULT [POINT]]]`, all points of what is not named.

With `--calls` only the calls of an operation are listed, by number.
"""

from __future__ import annotations

import sys
from collections import Counter

from tests.faults.player import faults_of, playable, player


def main(words: list[str]) -> None:
    operations = words[:1] or playable()
    seen: Counter[tuple[str, str, str]] = Counter()
    rounds: Counter[tuple[str, str]] = Counter()
    with player() as play:
        for operation in operations:
            if "--calls" in words:
                for number, call in enumerate(play.calls(operation), 1):
                    print(f"{number:5} {call.sorts:4} {call.name:16} {call.path}")
                continue
            for fault in words[1:2] or faults_of(operation):
                for point in map(int, words[2:3]) if words[2:] else play.points(operation, fault):
                    played = play.play(operation, fault, point)
                    rounds[operation, fault] += 1
                    if played.broken or words[2:]:
                        print(played, flush=True)
                    seen.update(played.breaks)
    for (operation, fault, promise), count in sorted(seen.items()):
        print(f"{count:5} of {rounds[operation, fault]:5}  {operation}, {fault}: {promise}")


if __name__ == "__main__":
    main(sys.argv[1:])
