"""The commands there are: where each lives, and what it does in one line. Loads nothing else."""

from __future__ import annotations

DESCRIPTION = "Typed Python functions as agent tools, and agents that work confined."
EPILOG = "Run 'toolkit COMMAND --help' for options and an example."


class Entry:
    """One command. A plain class: typing and dataclasses cost more than the whole of `toolkit --help`."""

    def __init__(self, home: str, summary: str) -> None:
        self.home = home
        """The module of the click command."""
        self.summary = summary


COMMANDS: dict[str, Entry] = {
    "approvals": Entry("toolkit.cli.runs.approvals", "Answer a run's questions, and see what is remembered."),
    "batch": Entry("toolkit.cli.batches.batch", "Do many tasks from a file, each once, also after a kill."),
    "call": Entry("toolkit.cli.serving", "Call one tool and print what the model would read."),
    "completion": Entry("toolkit.cli.machine", "Print the completion script for a shell."),
    "demo": Entry("toolkit.cli.machine", "Show the product at work: no key, no network."),
    "doctor": Entry("toolkit.cli.machine", "Say what would stop a run on this machine, and the fix."),
    "init": Entry("toolkit.cli.starting.init", "Write a toolkit.toml for the project in this folder."),
    "inspect": Entry("toolkit.cli.serving", "Show the tools in TARGET as a client sees them."),
    "install": Entry("toolkit.cli.serving", "Add TARGET to an MCP client's configuration."),
    "report": Entry("toolkit.cli.runs.report", "Write RUN as one HTML page and print its path."),
    "run": Entry("toolkit.cli.starting.running", "Run an agent on PROMPT, confined, and print what it says."),
    "runs": Entry("toolkit.cli.runs.stored", "Look at stored runs, and take their changes back."),
    "sandbox": Entry("toolkit.cli.sandbox", "Confine an agent, and prove that it is confined."),
    "serve": Entry("toolkit.cli.serve", "Serve the tools in TARGET over stdio or HTTP."),
    "setups": Entry("toolkit.cli.runs.setups", "Look at what setups made, and remove it."),
    "ui": Entry("toolkit.cli.ui", "Show all runs on one page, as they happen."),
    "workspace": Entry("toolkit.cli.workspace", "Give an agent a safe copy of host files, and clean up after it."),
}
