/* The list. Only the rows that can be seen are in the page, so that thousands of runs stay smooth. */

const ROW = 62,
  TITLE = 44,
  SPARE = 8;
const DAY = new Intl.DateTimeFormat([], { dateStyle: "full" }); // made once: making one takes longer than using it
const STATES = [
  ["all", "All", () => true],
  ["running", "Running", (row) => row.state === "running"],
  ["waiting", "Waiting", (row) => row.questions.length > 0],
  ["failed", "Failed", (row) => row.state === "damaged" || (row.state !== "running" && !row.ok)],
  ["done", "Done", (row) => row.ok === true],
];
const GROUPS = [
  ["", "No groups", null],
  ["day", "By day", (row) => DAY.format(num(row.began) * 1000)],
  ["project", "By project", (row) => str(row.project) || "no project"],
  ["batch", "By batch", (row) => str(row.batch) || "no batch"],
];
const WARNINGS = ["deadline", "budget", "turn_limit", "pending", "stopped", "aborted", "unverified"];

function toneOf(row) {
  if (row.state === "running") return row.questions.length ? "warn" : "live";
  if (row.half_applied) return "warn";
  if (row.ok === true) return "good";
  return WARNINGS.includes(row.code) ? "warn" : "bad";
}

function matches(row, words) {
  const text = [row.id, row.prompt, row.title, row.project, row.batch, row.model, row.code, row.state, row.half_applied && "half applied"].filter(Boolean).map(str).join("\n").toLowerCase();
  return words.every((word) => text.includes(word));
}

/* What is to be seen, in order, each with its place from the top. */
function arrange(state) {
  const words = state.query.toLowerCase().split(/\s+/).filter(Boolean);
  const filter = STATES.find(([name]) => name === state.filter)[2];
  const rows = [...state.rows.values()]
    .filter((row) => filter(row) && (!words.length || matches(row, words)))
    .sort((one, other) => num(other.began) - num(one.began));
  const group = GROUPS.find(([name]) => name === state.group)[2];
  const items = [];
  let top = 0;
  const put = (item, height) => {
    items.push({ ...item, top, height });
    top += height;
  };
  if (!group) rows.forEach((row) => put({ row }, ROW));
  else {
    const groups = new Map();
    for (const row of rows) {
      const name = group(row);
      if (!groups.has(name)) groups.set(name, []);
      groups.get(name).push(row);
    }
    const lines = state.group === "batch" ? state.batches : new Map();
    if (!words.length && state.filter === "all") for (const name of lines.keys()) if (!groups.has(name)) groups.set(name, []);
    for (const [name, some] of groups) {
      put({ title: name, some, line: lines.get(name) }, TITLE);
      some.forEach((row) => put({ row }, ROW));
    }
  }
  state.items = items;
  state.shown = rows;
  state.height = top;
}

function showList(state) {
  arrange(state);
  const list = at("list");
  list.style.height = Math.max(state.height, ROW) + "px";
  state.drawn = new Map();
  list.replaceChildren();
  drawSeen(state);
  if (!state.items.length)
    fill(list, h("p.empty", {}, state.rows.size ? "No run is like that." : "There are no runs yet. To begin one: toolkit run PROMPT"));
  fill(at("found"), state.query || state.filter !== "all" ? full(state.shown.length) + " of " + full(state.rows.size) : "");
}

function drawSeen(state) {
  const list = at("list");
  const offset = list.getBoundingClientRect().top;
  const from = -offset - SPARE * ROW,
    to = -offset + innerHeight + SPARE * ROW;
  let low = 0,
    high = state.items.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (state.items[middle].top + state.items[middle].height < from) low = middle + 1;
    else high = middle;
  }
  const seen = new Set();
  for (let place = low; place < state.items.length && state.items[place].top < to; place++) {
    seen.add(place);
    if (!state.drawn.has(place)) {
      const element = drawItem(state, state.items[place]);
      state.drawn.set(place, element);
      list.append(element);
    }
  }
  for (const [place, element] of state.drawn)
    if (!seen.has(place)) {
      element.remove();
      state.drawn.delete(place);
    }
}

function drawItem(state, item) {
  const element = item.row ? drawRun(state, item.row) : item.line ? drawBatch(state, item.line) : drawTitle(item);
  element.style.top = item.top + "px";
  return element;
}

function drawTitle(item) {
  const { known, isWhole } = sumOf(item.some);
  const isKnown = known > 0 || item.some.some((row) => row.state !== "running");
  const words = many(item.some.length, "run") + (isKnown ? ", " + costWords(known, isWhole) : "");
  return h("div.group-title", {}, h("span.path", {}, named(item.title)), h("span.muted", {}, words));
}

function drawRun(state, row) {
  const tone = toneOf(row);
  const word = row.state === "running" ? (row.questions.length ? "waits for you" : "running") : str(row.code || row.state) + (row.half_applied ? ", half applied" : "");
  const age = row.state === "running" ? duration((Date.now() / 1000 - num(row.began)) * 1000) : ago(row.began);
  const cost = row.state === "running" && !num(row.known_cost) ? "" : costWords(knownCost(row), isNumber(row.cost));
  const details = [row.id, row.project, row.model].filter(Boolean).map(str).join("  ·  ");
  const verified = row.verified === true ? " ✓" : row.verified === false ? " ✗" : "";
  return h(
    "button.run" + (state.selected === row.id ? ".selected" : ""),
    { type: "button", role: "listitem", "data-run": row.id, click: () => openDrawer(state, row.id) },
    h("span.dot." + tone),
    h("span.task", {}, h("b", {}, named(row.title || row.id)), h("span", {}, named(details))),
    h("span.cell.state", {}, h("span.chip." + tone, {}, word + verified)),
    h("span.cell.wide", { title: "model calls" }, row.turns ? many(row.turns, "call") : ""),
    h("span.cell.wide", {}, row.tokens ? short(row.tokens) + " tokens" : ""),
    h("span.cell", {}, cost),
    h("span.cell.age", {}, age),
  );
}

function ago(seconds) {
  const past = Date.now() / 1000 - num(seconds);
  if (!num(seconds)) return "";
  if (past < 60) return "just now";
  if (past < 3600) return Math.max(0, Math.floor(past / 60)) + " m ago";
  if (past < 86400) return Math.floor(past / 3600) + " h ago";
  return Math.floor(past / 86400) + " d ago";
}
