/* Put the page together, and follow the runs. */

function start() {
  const data = JSON.parse(at("data").textContent);
  const state = { rows: new Map(), batches: byName(data.batches), live: data.live, query: "", filter: "all", group: "", items: [], drawn: new Map(), selected: null };
  for (const row of data.rows) state.rows.set(row.id, row);
  setUpTheme();
  setUpTools(state);
  refresh(state);
  addEventListener("scroll", () => drawSeen(state), { passive: true });
  new ResizeObserver(() => {
    showCosts(state);
    drawSeen(state);
  }).observe(at("costs").parentElement);
  if (data.live) follow(state);
  document.documentElement.dataset.ready = "yes";
}

function byName(lines) {
  return new Map(lines.map((line) => [line.batch, line]));
}

function refresh(state) {
  const rows = [...state.rows.values()];
  const running = rows.filter((row) => row.state === "running").length;
  const waiting = rows.reduce((sum, row) => sum + row.questions.length, 0);
  const badge = at("badge");
  badge.className = "badge " + (waiting ? "warn" : running ? "live" : "good");
  fill(badge, waiting ? many(waiting, "question") : running ? full(running) + " running" : "idle");
  document.title = (waiting ? "(" + waiting + ") " : "") + "Runs";
  fill(at("key-figures"), h("span.key-figure", {}, h("b", {}, full(rows.length)), " runs"));
  showWaiting(state);
  showCosts(state);
  showStates(state);
  showList(state);
  fill(at("footer"), state.live ? "Shown as it happens." : "As it was when this page was written.");
}

function follow(state) {
  const source = new EventSource("changes");
  let waiting = 0;
  const soon = () => {
    waiting =
      waiting ||
      setTimeout(() => {
        waiting = 0;
        refresh(state);
        const drawer = at("drawer");
        if (drawer.open && state.selected && !drawer.contains(document.activeElement?.closest("textarea, input"))) redrawDrawer(state);
      }, 150);
  };
  source.addEventListener("all", (event) => {
    state.rows = new Map(JSON.parse(event.data).map((row) => [row.id, row]));
    soon();
  });
  source.addEventListener("some", (event) => {
    const told = JSON.parse(event.data);
    for (const row of told.rows) state.rows.set(row.id, row);
    for (const id of told.gone) state.rows.delete(id);
    soon();
  });
  source.addEventListener("batches", (event) => {
    state.batches = byName(JSON.parse(event.data));
    soon();
  });
  source.addEventListener("error", () => fill(at("footer"), "The server does not answer: what is shown may be old."));
  setInterval(() => [...state.rows.values()].some((row) => row.state === "running") && showList(state), 5000);
}

/* The open drawer follows its run, unless somebody is in the middle of something there. */
function redrawDrawer(state) {
  const row = state.rows.get(state.selected);
  const shown = JSON.stringify(row);
  if (!row || state.shownRow === shown || at("drawer").querySelector(".marks, textarea")) return;
  state.shownRow = shown;
  openDrawer(state, row.id);
}

function showStates(state) {
  const rows = [...state.rows.values()];
  fill(
    at("states"),
    STATES.map(([name, word, is]) =>
      h(
        "button.kind-button",
        { type: "button", "aria-pressed": String(state.filter === name), click: () => ((state.filter = name), refresh(state)) },
        word + " ",
        h("span.count", {}, full(rows.filter(is).length)),
      ),
    ),
  );
}

function setUpTools(state) {
  const search = at("search"),
    group = at("group");
  search.addEventListener("input", () => ((state.query = search.value), showList(state)));
  fill(group, GROUPS.map(([name, word]) => h("option", { value: name }, word)));
  group.addEventListener("change", () => ((state.group = group.value), showList(state)));
  at("drawer").addEventListener("close", () => (state.selected = null));
  addEventListener("keydown", (event) => {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName);
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/") {
      event.preventDefault();
      search.focus();
    } else if (event.key === "t") switchTheme();
  });
}

start();
