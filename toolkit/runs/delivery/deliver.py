"""What a run's commits say, and whether its work is delivered without being asked again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from toolkit._base.words import cost_text, safe_line
from toolkit.runs.delivery.packing import packer

if TYPE_CHECKING:
    from toolkit.runs.outcome.result import RunResult
    from toolkit_workspace import WorkspaceSection
    from toolkit_workspace.delivering import Delivered

UNKNOWN = "unknown"


def default_name(run: str) -> str:
    """The name of a run's branch if none is given."""
    return f"agent/{run}"


def why_not(result: RunResult[Any]) -> str | None:
    """Why the work of a run is not delivered by itself; None where it is."""
    if result.verified is False:
        return "it was not verified"
    return None if result.ok else f"the run ended with '{result.code}'"


class DeliveryOptions(TypedDict, total=False):
    """What can be chosen about a delivery."""

    onto: str | None
    """The commit it begins at; the one that was checked out when the run began if not given."""
    message: str | None
    """For what the agent did not commit itself."""
    force: bool
    """Replace a branch of that name."""
    paths: Iterable[str] | None
    """Only these, as for `apply`; they come as one commit."""
    mounts: Iterable[str] | None
    with_uncommitted: bool
    """Put the owner's uncommitted versions of files that the agent changed into a commit of their own, first."""
    squash: bool
    """One commit for everything, instead of the agent's own."""


def deliver_run(
    section: WorkspaceSection,
    facts: Mapping[str, Any],
    result: RunResult[Any],
    *,
    name: str | None = None,
    as_mailbox: bool = False,
    **options: Unpack[DeliveryOptions],
) -> Delivered:
    """Make a run's work a branch, or mails; `facts` are those of the stored run.

    Raises:
        WorkspaceError: as `WorkspaceSection.deliver`.
        ToolkitError: the agent's commits cannot be packed.
    """
    from toolkit_workspace.delivering import Delivery, Signature

    run = str(facts["run"])
    paths, mounts = options.get("paths"), options.get("mounts")
    delivery = Delivery(
        name=default_name(run) if name is None else name,
        message=options.get("message") or _message(facts, result),
        agent=Signature(_agent(result), f"{run}@agent.invalid"),
        trailers=trailers(run, result),
        onto=options.get("onto"),
        force=options.get("force", False),
        paths=None if paths is None else list(paths),
        mounts=None if mounts is None else list(mounts),
        with_uncommitted=options.get("with_uncommitted", False),
        squash=options.get("squash", False),
        protected=[str(path) for path in facts.get("protect") or ()],
        why=f"toolkit: the work of {run}",
    )
    return section.deliver(delivery, packer(section), as_mailbox=as_mailbox)


def trailers(run: str, result: RunResult[Any]) -> list[tuple[str, str]]:
    """What every commit of a run says of it, in its last lines."""
    return [
        ("Toolkit-Run", run),
        ("Toolkit-Model", safe_line(result.model or UNKNOWN, 100)),
        ("Toolkit-Cost", cost_text(result.cost, result.known_cost)),
        ("Toolkit-Verified", verified_text(result.verified)),
    ]


def verified_text(verified: bool | None) -> str:
    """Whether somebody other than the model looked: yes, no, or that nobody was asked to."""
    return "not asked for" if verified is None else "yes" if verified else "no"


def _agent(result: RunResult[Any]) -> str:
    return f"agent ({safe_line(result.model, 60)})" if result.model else "agent"


def _message(facts: Mapping[str, Any], result: RunResult[Any]) -> str:
    """What was asked for as the subject; all of it and the agent's last words below."""
    from toolkit_workspace.delivering import subject_of

    asked, said = str(facts.get("prompt") or ""), result.text.strip()
    subject = subject_of(asked) or "Changes of an agent"
    parts = [subject]
    if subject != " ".join(asked.split()):
        parts.append(asked.strip()[:4000])
    return "\n\n".join([*parts, *([said[:4000]] if said else [])])
