"""Write the API reference from docstrings into build/docs: `./dev docs`, or `python -m tests.docs_api [FOLDER]`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "build" / "docs"
DOORS = (
    "toolkit",
    "toolkit.errors",
    "toolkit.tools",
    "toolkit.servers",
    "toolkit_servers.http",
    "toolkit.workspace",
    "toolkit.sandbox",
    "toolkit.runs",
    "toolkit.runs.views",
    "toolkit.telemetry",
    "toolkit.testing",
)
"""What users import from; what is behind these doors is not documented."""


def build(folder: Path) -> Path:
    """The reference as HTML files in a folder; gives its first page. Loads nothing from the network.

    Raises:
        subprocess.CalledProcessError: pdoc could not read a module; its stderr says which.
    """
    command = [sys.executable, "-m", "pdoc", "--docformat", "google", "--no-show-source", "--output-directory", folder]
    subprocess.run([*map(str, command), *DOORS], check=True, timeout=300, stdout=subprocess.DEVNULL)
    return folder / "index.html"


if __name__ == "__main__":
    print(build(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER))
