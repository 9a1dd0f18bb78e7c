"""Every error this toolkit raises on purpose for its user, as one tree.

    ToolkitError
    ├── ToolError                   raised inside a tool: the model reads it as written
    │   └── CannotAsk *             a tool asked back, and there is nobody who could answer
    │       └── MissingCapability * the same, for a client that has no way to be asked
    ├── ArgumentsError              a call whose arguments do not fit the tool
    ├── MistypedArguments           words on a command line that are no arguments of any tool
    ├── RenderError                 a tool's value that cannot be shown to the model
    ├── ToolDefinitionError         a function that cannot become a tool
    ├── TargetError                 a TARGET that does not load, or holds no tools
    ├── ClientConfigError           an MCP client's configuration file that cannot take a server
    ├── WorkspaceError              a workspace that cannot be prepared or read
    │   ├── WorkspaceSecurityError  a path outside the allowed roots, or a link leading out
    │   ├── WorkspaceBudgetError    a selection larger than its byte budget
    │   ├── WorkspaceConflictError  the host changed since the copy was made
    │   ├── BranchNameError *       a name that no branch can have
    │   ├── GitFailed *             a step of git that went wrong while a branch was made
    │   ├── ContentGone *           bytes that were remembered are no longer there
    │   └── Unreadable *            something could not be looked at, so nothing is decided from it
    ├── SandboxError                confinement that cannot be set up as asked
    │   ├── SettingsError           settings the CLI would misread
    │   └── UnconfinedError         a safety check failed, or could not be made
    ├── TestingError                a script, cassette or CLI double used wrongly
    └── RunError                    a run that cannot start, or did not end well
        ├── OptionError *           an option of a run that cannot be as it was written
        ├── ProjectFileError *      a project file that cannot be obeyed
        │   └── NotAcceptedError *  one that its user has not accepted as it is now
        ├── NoSessionError *        a conversation to resume that does not exist
        ├── ServerFailedError *     a server that the run needs did not start
        ├── SetupFailedError *      a setup gave no layer, so nothing was sent to the model
        ├── TrialError *            the agent's files cannot be copied, so they cannot be verified
        ├── StoreError *            a store cannot be reached, read or written, for now: no task has ended by that
        ├── AttendanceLostError *   another caller works on the batch now, or nothing of it can be written down
        ├── ParcelError *           what came from another machine is damaged, another one, or asks too much
        └── RunFailedError *        a result that is not ok, as an exception
            └── PromptEvaluationError *, ThrottleError *    the same in another product's words

Those with a star are defined beside what they speak of, in toolkit.tools, toolkit.runs, toolkit.fleets,
toolkit_servers and toolkit_workspace.
An error says what is wrong, where, and what to do, in that order. Subclasses
carry the facts as attributes, so that nobody has to parse the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self


class ToolkitError(Exception):
    """Something the user can act on: what is wrong, where, and what to do."""

    exit_code = 1
    """How a command ends that fails with this error."""

    def __init__(self, what: str, *, where: Sequence[str] = (), fix: str = "") -> None:
        # Whoever writes ToolError(error), or one line for `where`, still reads what went wrong.
        self.what = str(what)
        self.where = _lines(where)
        self.fix = str(fix or "")
        super().__init__(self.what)

    def __str__(self) -> str:
        return "\n  ".join([self.what, *self.where, *([self.fix] if self.fix else [])])

    def as_mistyped(self) -> Self:
        """The same error of a command that was asked for something that is not there: it ends with 2."""
        self.exit_code = 2
        return self


def _lines(where: object) -> tuple[str, ...]:
    """One line for each place, also where just one was given, or none."""
    if isinstance(where, Iterable) and not isinstance(where, str):
        return tuple(map(str, where))
    return () if where is None else (str(where),)


class ToolError(ToolkitError):
    """Raise it inside a tool to tell the model, in your own words, what to do differently."""


class ArgumentsError(ToolkitError):
    """Arguments that do not fit the tool: the function was not called. The model reads it as written."""


class MistypedArguments(ToolkitError):
    """Words on a command line that are no arguments, whatever the tool."""


class RenderError(ToolkitError):
    """A tool's value that cannot be shown to the model."""


class ToolDefinitionError(ToolkitError):
    """A function that cannot become a tool, found when it is decorated or boxed."""

    def __init__(
        self, what: str, *, tool: str, parameter: str | None = None, where: Sequence[str] = (), fix: str = ""
    ) -> None:
        super().__init__(what, where=where, fix=fix)
        self.tool = tool
        self.parameter = parameter


class TargetError(ToolkitError):
    """A TARGET (file.py, file.py:name, package.module:name) that gives no tools."""

    def __init__(
        self, what: str, *, target: str, where: Sequence[str] = (), fix: str = "", is_mistyped: bool = False
    ) -> None:
        super().__init__(what, where=where, fix=fix)
        self.target = target
        self.exit_code = 2 if is_mistyped else 1
        """2 where the words name nothing that is there, and 1 where what they name gives no tools."""


class ClientConfigError(ToolkitError):
    """An MCP client's configuration file that cannot take a server; it was left as it is."""

    def __init__(self, what: str, *, file: Path, where: Sequence[str] = (), fix: str = "") -> None:
        super().__init__(what, where=where, fix=fix)
        self.file = file


class WorkspaceError(ToolkitError):
    """A workspace that cannot be prepared, read or applied."""


class WorkspaceSecurityError(WorkspaceError):
    """A path the workspace may not touch."""

    def __init__(
        self,
        what: str,
        *,
        path: str = "",
        roots: Sequence[str] = (),
        rule: str = "",
        where: Sequence[str] = (),
        fix: str = "",
    ) -> None:
        super().__init__(what, where=where, fix=fix)
        self.path = path
        self.roots = tuple(roots)
        """The allowed host roots there were."""
        self.rule = rule
        """Which rule refused it: allowed-roots, link-out, mount-path."""


class WorkspaceBudgetError(WorkspaceError):
    """A selection larger than its byte budget."""

    def __init__(
        self,
        what: str,
        *,
        max_bytes: int = 0,
        needed: int = 0,
        largest: Sequence[tuple[str, int]] = (),
        where: Sequence[str] = (),
        fix: str = "",
    ) -> None:
        super().__init__(what, where=where, fix=fix)
        self.max_bytes = max_bytes
        self.needed = needed
        """Bytes the selection has, as far as they were counted."""
        self.largest = tuple(largest)
        """The five largest entries: path and bytes."""


class WorkspaceConflictError(WorkspaceError):
    """The host changed since the copy was made, and the two changes do not merge."""

    def __init__(
        self, what: str, *, conflicts: Sequence[tuple[str, str]] = (), where: Sequence[str] = (), fix: str = ""
    ) -> None:
        super().__init__(what, where=where, fix=fix)
        self.conflicts = tuple(conflicts)
        """Each path in the workspace with the reason it cannot be applied."""


class SandboxError(ToolkitError):
    """Confinement that cannot be set up as asked."""


class SettingsError(SandboxError):
    """Settings the CLI would ignore or misread; `key` is the settings key in question, where there is one."""

    def __init__(self, what: str, *, where: Sequence[str] = (), fix: str = "", key: str | None = None) -> None:
        super().__init__(what, where=where, fix=fix)
        self.key = key


class UnconfinedError(SandboxError):
    """A safety check failed or could not be made; nothing was started."""

    exit_code = 4

    def __init__(self, what: str, *, rules: Sequence[str] = (), where: Sequence[str] = (), fix: str = "") -> None:
        super().__init__(what, where=where, fix=fix)
        self.rules = tuple(rules)
        """The rules that would have been lost."""


class TestingError(ToolkitError):
    """A script, a cassette or a CLI double used wrongly."""

    __test__ = False  # pytest would otherwise take the name for a test class

    def __init__(self, what: str, *, where: Sequence[str] = (), fix: str = "", line: int | None = None) -> None:
        super().__init__(what, where=where, fix=fix)
        self.line = line
        """The line of the cassette that is wrong."""


class RunError(ToolkitError):
    """A run that cannot start, or did not end well."""
