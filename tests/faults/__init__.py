"""Let one file-system call of an operation go wrong, at every call in turn, and see whether every promise holds.

preload.c       counts the calls below a folder and lets one of them go wrong
preload.py      builds it; the faults there are
operations.py   what is done to a plain copy or a run, through public doors only
judges.py       what has to be true afterwards, whatever went wrong
overlays/       both for workspaces over a kept copy
play.py         the process that plays rounds: arrange, act with the fault, judge
player.py       its other side, for the tests, the bench and `python -m tests.faults`
"""

from tests.faults import judges, operations, overlays

OPERATIONS = {**operations.OPERATIONS, **overlays.OPERATIONS}
JUDGES = {**judges.JUDGES, **overlays.JUDGES}
