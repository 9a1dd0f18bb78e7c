"""The options of `toolkit run` about people and conversations: who is asked, and what the run goes on with."""

from __future__ import annotations

from typing import Any

import click

from toolkit.cli.terminal.command import Duration, with_options
from toolkit.runs.asking import MODES

asking_options = with_options(
    click.option(
        "--mode",
        type=click.Choice(MODES),
        metavar="MODE",
        help="normal asks you before anything is changed; also read-only, or a mode of the CLI.  [default: yolo]",
    ),
    click.option(
        "--policy",
        "policies",
        multiple=True,
        metavar="TOOL=WORD",
        help="allow, ask, deny, defer or disable a tool; repeatable, the first match decides.",
    ),
    click.option("--safe", multiple=True, metavar="TOOL", help="A tool that never needs asking."),
    click.option("--ask-elsewhere", is_flag=True, help="Wait for 'toolkit approvals answer' instead of asking here."),
    click.option(
        "--approval-timeout",
        type=Duration(),
        metavar="TIME",
        help="A question that nobody answers for that long counts as refused.",
    ),
    title="Approvals",
)
conversation_options = with_options(
    click.option("--resume", metavar="SESSION|RUN", help="Go on with a conversation: its id, or a run's, or 'last'."),
    click.option("--fork", is_flag=True, help="With --resume: go on in a new conversation, and keep the old one."),
    click.option("--fork-at", metavar="MESSAGE", help="The same from this message on; what came later is forgotten."),
    title="Conversation",
)
"""Each is a part of `RunSpec`."""


def asking_of(given: dict[str, Any]) -> dict[str, Any]:
    """Who is asked, as a run takes it."""
    return {
        "mode": given["mode"],
        "policy": _policy(given["policies"]),
        "safe": given["safe"],
        "approve": "wait" if given["ask_elsewhere"] else None,
        "approval_timeout": given["approval_timeout"],
    }


def conversation_of(given: dict[str, Any]) -> dict[str, Any]:
    """What the run goes on with.

    Raises:
        RunError: there is no such conversation.
    """
    forks = given["fork"] or given["fork_at"] is not None
    if forks and given["resume"] is None:
        option = "--fork" if given["fork"] else "--fork-at"
        raise click.UsageError(f"{option} is about a conversation: write --resume SESSION, or --resume last, as well")
    return {"resume": _session(given["resume"]), "fork": forks or None, "at": given["fork_at"]}


def _policy(words: tuple[str, ...]) -> dict[str, str]:
    """The policy that was written as TOOL=WORD."""
    policy: dict[str, str] = {}
    for word in words:
        tool, equals, choice = word.rpartition("=")
        if not equals or not tool:
            raise click.UsageError(f"--policy {word}: write TOOL=WORD, for example Bash=ask")
        if policy.setdefault(tool, choice) != choice:
            what = f"--policy {word}: {tool}={policy[tool]} was written before it"
            raise click.UsageError(f"{what}\n  Leave one of them out")
    return policy


def _session(name: str | None) -> str | None:
    """The session that was named: by its id, or as that of a stored run."""
    from toolkit.errors import RunError
    from toolkit.runs import SessionId, load_run

    if name is None:
        return None
    try:
        return SessionId(name)
    except RunError:
        stored = load_run(name)
    is_running = stored.state == "running"
    if is_running:
        click.echo(f"run {stored.id} is still running: this one waits for its end", err=True)
    # One that was refused, for its workspace was gone, say, is still about the conversation it was to go on with.
    session = (stored.so_far() if is_running else stored.result()).session or stored.facts.get("resume")
    if session is None:
        raise RunError(
            f"run {stored.id} ended before its conversation began", fix="Start a new one: toolkit run PROMPT"
        )
    return session
