"""Promises that are known to be broken today, so that nothing else breaks unseen and nothing is mended unnoticed.

Operation, fault and promise (see PROMISES in judges.py), with a call at which it shows; `*` stands for any text.
Whoever mends one removes its line: a line that no longer holds fails the tests.
"""

from __future__ import annotations

KNOWN: dict[tuple[str, str, str], str] = {
    ("log", "EIO", "truth"): "open64 /home/runs/run-1/.result.json.*.new",
    ("log", "EIO", "words"): "open64 /home/runs/run-1/events.jsonl",
    ("log", "EMFILE", "truth"): "open64 /home/runs/run-1/.result.json.*.new",
    ("log", "EMFILE", "words"): "open64 /home/runs/run-1/events.jsonl",
    ("log", "ENOSPC", "truth"): "open64 /home/runs/run-1/.result.json.*.new",
    ("log", "ENOSPC", "words"): "open64 /home/runs/run-1/events.jsonl",
    ("log", "kill", "tidy"): "open64 /home/runs/.run-1.*.new/lock",
}
