/* The timeline: items in chunks that are drawn when they come near, so that any number of them scrolls well. */

const CHUNK = 40;
const NEAR = 1200;

function newTimeline(state, panel) {
  const view = { state, panel, chunks: [], shown: [], selected: null, kind: "all", tool: "" };
  view.watcher = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) if (entry.isIntersecting) drawChunk(view, entry.target.chunk);
    },
    { rootMargin: NEAR + "px" },
  );
  view.redraw = (item) => redrawItem(view, item);
  return view;
}

function wantedBy(view) {
  const query = view.state.query;
  return (item) => {
    if (view.tool && item.name !== view.tool) return false;
    if (view.kind === "said" && !["text", "thinking", "turn", "mend"].includes(item.type)) return false;
    if (view.kind === "tools" && item.type !== "tool" && item.type !== "approval") return false;
    if (view.kind === "problems" && !isProblem(item)) return false;
    return !query || hay(item).includes(query);
  };
}

function isFiltered(view) {
  return Boolean(view.state.query || view.tool || view.kind !== "all");
}

/* Show what is wanted now. Chunks whose items are the same, and as they were, stay as they are. */
function showTimeline(view, reset) {
  view.shown = flat(view.state.model, wantedBy(view), isFiltered(view));
  view.shown.forEach((item, place) => (item.place = place));
  const parts = [];
  for (let from = 0; from < view.shown.length; from += CHUNK) parts.push(view.shown.slice(from, from + CHUNK));
  parts.forEach((items, place) => {
    const chunk = view.chunks[place] || newChunk(view, place);
    const version = items.reduce((high, item) => Math.max(high, item.version), 0);
    const same =
      !reset &&
      chunk.version === version &&
      chunk.items.length === items.length &&
      chunk.items.every((item, i) => item === items[i]);
    if (same) return;
    const drawn = chunk.drawn && !reset;
    Object.assign(chunk, { items, version });
    if (drawn) patchChunk(view, chunk);
    else resetChunk(view, chunk);
  });
  for (const chunk of view.chunks.splice(parts.length)) {
    view.watcher.unobserve(chunk.box);
    chunk.box.remove();
  }
  if (!view.shown.length) showNothing(view);
  else if (view.nothing) {
    view.nothing.remove();
    view.nothing = null;
  }
  if (reset) drawNear(view);
  highlight(view);
}

function newChunk(view, place) {
  const chunk = { items: [], version: -1, drawn: false, box: h("div.chunk", {}), rows: new Map() };
  chunk.box.chunk = chunk;
  view.chunks[place] = chunk;
  view.panel.append(chunk.box);
  view.watcher.observe(chunk.box);
  return chunk;
}

function resetChunk(view, chunk) {
  chunk.drawn = false;
  chunk.rows.clear();
  chunk.box.replaceChildren();
  const tall = chunk.items.reduce((sum, item) => sum + guess(item), 0);
  chunk.box.style.height = tall + "px";
  chunk.box.style.containIntrinsicSize = "auto " + tall + "px";
  view.watcher.unobserve(chunk.box); // observed anew, it reports at once whether it is near
  view.watcher.observe(chunk.box);
}

function drawChunk(view, chunk) {
  if (chunk.drawn) return;
  chunk.drawn = true;
  chunk.box.style.height = "";
  patchChunk(view, chunk);
  if (view.state.query) highlight(view);
}

/* Bring the rows of a drawn chunk up to date; rows that did not change are kept. */
function patchChunk(view, chunk) {
  const before = chunk.rows;
  chunk.rows = new Map();
  const elements = chunk.items.map((item) => {
    const kept = before.get(item.key);
    const row =
      kept && kept.version === item.version
        ? kept
        : { version: item.version, element: rowOf(item, view.state, view.redraw) };
    if (item === view.selected) row.element.classList.add("selected");
    chunk.rows.set(item.key, row);
    return row.element;
  });
  const box = chunk.box;
  elements.forEach((element, place) => {
    if (box.children[place] !== element) box.insertBefore(element, box.children[place] || null);
  });
  while (box.children.length > elements.length) box.lastChild.remove();
}

function redrawItem(view, item) {
  item.version = ++view.state.model.version;
  const chunk = chunkOf(view, item);
  if (chunk && chunk.drawn) {
    chunk.version = item.version;
    patchChunk(view, chunk);
    highlight(view);
  }
}

function chunkOf(view, item) {
  return view.shown[item.place] === item ? view.chunks[Math.floor(item.place / CHUNK)] : null;
}

/* How tall a row may be, until it is drawn. */
function guess(item) {
  const lines = (text, wide) => Math.min(CLIP.lines, 1 + Math.floor(str(text).length / wide));
  if (item.type === "tool") return 74 + 19 * Math.max(lines(item.result, 60), item.rows.length);
  if (item.type === "text") return 26 + 25 * lines(item.text, 95);
  return item.type === "turn" ? 130 : item.type === "thinking" ? 44 : 76;
}

function drawNear(view) {
  for (const chunk of view.chunks) {
    const { top, bottom } = chunk.box.getBoundingClientRect();
    if (top > innerHeight + NEAR) return;
    if (bottom > -NEAR) drawChunk(view, chunk);
  }
}

/* Draw the rest while nothing else is to do, so that the browser's own search finds everything. */
function drawAtLeisure(view) {
  const ask = window.requestIdleCallback || ((work) => setTimeout(() => work({ timeRemaining: () => 8 }), 50));
  const work = (idle) => {
    while (idle.timeRemaining() > 6) {
      const next = view.chunks.find((chunk) => !chunk.drawn);
      if (!next) return;
      drawChunk(view, next);
    }
    ask(work);
  };
  ask(work);
}

function showNothing(view) {
  if (!view.nothing) view.panel.append((view.nothing = h("p.empty", {})));
  const waits = view.state.data.state === "running" && !isFiltered(view);
  fill(
    view.nothing,
    waits ? "Nothing has happened yet." : isFiltered(view) ? "Nothing here matches." : "Nothing happened in this run.",
  );
}

function select(view, item, block) {
  const mark = (one, on) => {
    const chunk = one && chunkOf(view, one);
    if (!chunk) return null;
    drawChunk(view, chunk);
    const row = chunk.rows.get(one.key);
    if (row) row.element.classList.toggle("selected", on);
    return row && row.element;
  };
  mark(view.selected, false);
  view.selected = item;
  const element = mark(item, true);
  if (element) element.scrollIntoView({ block: block || "nearest" });
}

function step(view, by, only) {
  const items = only ? view.shown.filter(only) : view.shown;
  if (!items.length) return;
  let place = items.indexOf(view.selected);
  if (place < 0) {
    const seen = firstSeen(view);
    place = items.findIndex((item) => item.place >= seen) - (by > 0 ? 1 : 0);
  }
  select(view, items[Math.max(0, Math.min(items.length - 1, place + by))]);
}

/* Where in the list a reader's eyes are: the first row that is not above the window. */
function firstSeen(view) {
  const isBelow = (element) => element.getBoundingClientRect().bottom > 160;
  const chunk = view.chunks.find((one) => isBelow(one.box));
  const item = chunk && chunk.items.find((one) => chunk.rows.has(one.key) && isBelow(chunk.rows.get(one.key).element));
  return item ? item.place : 0;
}

const MOST_MARKS = 1000;

/* Mark what was searched for, without touching the elements. */
function highlight(view) {
  if (!window.CSS || !CSS.highlights) return;
  CSS.highlights.delete("found");
  const query = view.state.query;
  if (!query) return;
  const marks = new Highlight();
  for (const chunk of view.chunks) {
    for (const row of chunk.rows.values()) if (marks.size < MOST_MARKS) markIn(row.element, query, marks);
  }
  CSS.highlights.set("found", marks);
}

/* The places of a text in an element, also where colour has cut it into several nodes. */
function markIn(element, query, marks) {
  const nodes = [];
  const walk = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  let text = "";
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    nodes.push([text.length, node]);
    text += node.data;
  }
  const lower = text.toLowerCase();
  if (lower.length !== text.length) return; // a letter that grows in lower case would shift every mark
  let first = 0;
  for (let from = lower.indexOf(query); from >= 0 && marks.size < MOST_MARKS; from = lower.indexOf(query, from + 1)) {
    const range = new Range();
    while (first + 1 < nodes.length && nodes[first + 1][0] <= from) first++;
    let last = first;
    while (last + 1 < nodes.length && nodes[last + 1][0] < from + query.length) last++;
    range.setStart(nodes[first][1], from - nodes[first][0]);
    range.setEnd(nodes[last][1], from + query.length - nodes[last][0]);
    marks.add(range);
  }
}
