"""Write `sandbox-settings/`: the profiles as files, and the table of them in its README.

Run it after a change: python -m tests.sandbox.publish
"""

from __future__ import annotations

from pathlib import Path

from toolkit.sandbox import PROFILES, profile

FOLDER = Path(__file__).parents[2] / "sandbox-settings"
BEGIN, END = "<!-- profiles: generated -->", "<!-- /profiles -->"


def published() -> dict[str, str]:
    """What each generated file in `sandbox-settings/` has to hold."""
    files = {f"{name}.json": _make(name) for name in PROFILES}
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    rows = [f"| [`{name}.json`]({name}.json) | {text} |" for name, text in PROFILES.items()]
    table = "\n".join(["| file | what it gives |", "|---|---|", *rows])
    return {**files, "README.md": f"{before}{BEGIN}\n{table}\n{END}{after}"}


def _make(name: str) -> str:
    return profile(name, domains=("example.com",) if name == "allowlist" else ()).as_json(indent=2) + "\n"


if __name__ == "__main__":
    for name, text in published().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
