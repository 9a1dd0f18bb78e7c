"""The modes of a run: what happens to a tool call that no policy speaks of."""

from __future__ import annotations

from typing import Literal, get_args

OwnMode = Literal["yolo", "normal", "read-only"]
"""Ours, held by our guard.

`yolo`: everything offered may run. `normal`: what may change things is asked about.
`read-only`: only what changes nothing runs, whatever anyone says.
"""
CLIMode = Literal["default", "acceptEdits", "plan", "dontAsk", "auto", "bypassPermissions"]
"""The CLI's own permission modes. What the CLI would ask a person, `approve` is asked.

`default`: it asks before it edits and runs commands. `acceptEdits`: edits are not asked
about. `plan`: it is told to plan first; that is not read-only, for what is approved runs.
`dontAsk`: what it would ask is refused. `auto`: the model decides what to ask.
`bypassPermissions`: it asks nothing.
"""
Mode = Literal[OwnMode, CLIMode]
"""A mode of `run(mode=…)`."""

OWN_MODES: tuple[str, ...] = get_args(OwnMode)
CLI_MODES: tuple[str, ...] = get_args(CLIMode)
MODES: tuple[str, ...] = (*OWN_MODES, *CLI_MODES)
