"""Draw docs/images/how-it-works.svg from the text beside it: `python -m tests.docs_picture`. A test compares the two."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "docs" / "images"
TEXT, PICTURE = FOLDER / "how-it-works.txt", FOLDER / "how-it-works.svg"

WIDTH, MARGIN, GAP, SPACE = 1160, 28, 26, 10
TITLE, LINE, PAD = 40, 15, 9
LETTER, NARROW = 6.5, 6.4
"""The widest that a letter of the text, and of a place, is taken to be: fonts differ."""
LEGEND = "Dashed: where the agent is. A colour says which flow a box comes out of."
STYLE = """
  text { font: 12px system-ui, "Segoe UI", "DejaVu Sans", sans-serif; fill: #57606a }
  .title { font-size: 16px; font-weight: 600; fill: #1f2328 } .name { font-size: 13px; font-weight: 600; fill: #1f2328 }
  .place { font: 10.5px ui-monospace, "DejaVu Sans Mono", monospace; fill: #6e7781 }
  .sheet { fill: #ffffff; stroke: #d0d7de } .way { fill: none; stroke: #8c959f; stroke-width: 1.5 } .tip { fill: #8c959f }
  .box { fill: #f6f8fa; stroke-width: 1.5 } .agent { stroke-dasharray: 5 3 }
  .f1 { stroke: #0969da } .f2 { stroke: #1a7f37 } .f3 { stroke: #9a6700 } .f0 { stroke: #8c959f }
  @media (prefers-color-scheme: dark) {
    text { fill: #9da7b1 } .title, .name { fill: #f0f6fc } .place { fill: #8b949e }
    .sheet { fill: #0d1117; stroke: #30363d } .box { fill: #161b22 }
    .f1 { stroke: #4493f8 } .f2 { stroke: #3fb950 } .f3 { stroke: #d29922 }
  }
"""


@dataclass
class Box:
    """One step, and where it is drawn."""

    name: str
    does: str
    place: str
    is_agents: bool
    flow: int
    """The flow it comes out of: its colour."""
    x: float = 0
    y: float = 0
    width: float = 0

    @property
    def lines(self) -> list[str]:
        return textwrap.wrap(self.does, int((self.width - 2 * PAD) / LETTER))

    @property
    def height(self) -> float:
        return 2 * PAD + 14 + LINE * (len(self.lines) + bool(self.place)) + (4 if self.lines or self.place else 0)


@dataclass
class Flow:
    """One row of the picture: columns of boxes, from left to right."""

    title: str
    columns: list[list[Box]] = field(default_factory=list)
    back: str = ""
    """What the arrow from the last column to the first says."""


def read(text: str) -> list[Flow]:
    """The flows that a text describes."""
    flows: list[Flow] = []
    for line in text.splitlines():
        if line.startswith("# "):
            flows.append(Flow(line[2:]))
        elif line.startswith("<- "):
            flows[-1].back = line[3:]
        elif line and flows:
            flows[-1].columns.append([_box(part.strip(), len(flows)) for part in line.split(" | ")])
    return flows


def _box(text: str, flow: int) -> Box:
    found = re.fullmatch(r"(?:(\d)>)?(\*?)([^:\[]+?)(?:: ([^\[]+?))?(?: \[(.+)\])?", text)
    assert found, text
    from_flow, star, name, does, place = found.groups()
    return Box(name, does or "", place or "", bool(star), int(from_flow or flow))


def draw(flows: list[Flow]) -> str:
    """The picture."""
    top = float(MARGIN)
    parts: list[str] = []
    for number, flow in enumerate(flows, 1):
        bottom = _lay_out(flow, top + TITLE)
        parts.append(f'<text class="title" x="{MARGIN}" y="{top + 18:g}">{number}. {escape(flow.title)}</text>')
        for left, right in zip(flow.columns, flow.columns[1:], strict=False):
            parts += [_arrow(a, b) for a in left for b in right]
        if flow.back:
            parts.append(_arrow_back(flow, bottom))
            bottom += 34
        parts += [_drawn(box) for column in flow.columns for box in column]
        top = bottom + MARGIN
    parts.append(f'<text x="{MARGIN}" y="{top:g}">{LEGEND}</text>')
    top += MARGIN - 8
    sheet = f'<rect class="sheet" x="0.5" y="0.5" width="{WIDTH - 1}" height="{top - 1:g}" rx="8"/>'
    tip = '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top:g}" role="img" aria-label="How it works">'
    )
    defs = f'<defs>{tip}<path class="tip" d="M0 0L8 4L0 8z"/></marker></defs>'
    return "\n".join([head, f"<style>{STYLE}</style>", defs, sheet, *parts, "</svg>\n"])


def _lay_out(flow: Flow, top: float) -> float:
    """Give every box its place; the lowest edge."""
    count = len(flow.columns)
    width = (WIDTH - 2 * MARGIN - GAP * (count - 1)) / count
    for place, column in enumerate(flow.columns):
        for box in column:
            box.x, box.width = MARGIN + place * (width + GAP), width
    heights = [sum(box.height + SPACE for box in column) - SPACE for column in flow.columns]
    for column, height in zip(flow.columns, heights, strict=True):
        y = top + (max(heights) - height) / 2
        for box in column:
            box.y, y = y, y + box.height + SPACE
    return top + max(heights)


def _drawn(box: Box) -> str:
    kind = f"box f{box.flow}{' agent' if box.is_agents else ''}"
    x, y = box.x + PAD, box.y + PAD + 12
    rows = [f'<rect class="{kind}" x="{box.x:g}" y="{box.y:g}" width="{box.width:g}" height="{box.height:g}" rx="6"/>']
    rows.append(f'<text class="name" x="{x:g}" y="{y:g}">{escape(box.name)}</text>')
    y += 4
    for line in box.lines:
        y += LINE
        rows.append(f'<text x="{x:g}" y="{y:g}">{escape(line)}</text>')
    if box.place:
        rows.append(f'<text class="place" x="{x:g}" y="{y + LINE:g}">{escape(_end_of(box))}</text>')
    return "\n".join(rows)


def _end_of(box: Box) -> str:
    """As much of the place as fits, from its end."""
    names = (box.place + ("" if box.place.endswith(".py") else "/")).split("/")
    ends = ["/".join(names[start:]) for start in range(len(names) - 1 - (not names[-1]), -1, -1)]
    return max((end for end in ends if len(end) * NARROW <= box.width - 2 * PAD), key=len, default=ends[0])


def _arrow(a: Box, b: Box) -> str:
    x, y, to_x, to_y = a.x + a.width, a.y + a.height / 2, b.x - 2, b.y + b.height / 2
    middle = (x + to_x) / 2
    return f'<path class="way" marker-end="url(#tip)" d="M{x:g} {y:g}C{middle:g} {y:g} {middle:g} {to_y:g} {to_x:g} {to_y:g}"/>'


def _arrow_back(flow: Flow, bottom: float) -> str:
    first, last = flow.columns[0][0], flow.columns[-1][-1]
    x, to_x, y = last.x + last.width / 2, first.x + first.width / 2, bottom + 22
    way = f"M{x:g} {last.y + last.height:g}V{y - 8:g}Q{x:g} {y:g} {x - 8:g} {y:g}H{to_x + 8:g}Q{to_x:g} {y:g} {to_x:g} {y - 8:g}"
    text = f'<text x="{WIDTH / 2:g}" y="{y - 6:g}" text-anchor="middle">{escape(flow.back)}</text>'
    return f'<path class="way" marker-end="url(#tip)" d="{way}V{first.y + first.height + 2:g}"/>\n{text}'


def picture() -> str:
    """What the file holds."""
    return draw(read(TEXT.read_text(encoding="utf-8")))


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
