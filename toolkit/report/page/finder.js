/* Tabs, search and filters. */

const TABS = [
  ["timeline", "Timeline"],
  ["changes", "Changes"],
  ["prompt", "Prompt"],
  ["limits", "Limits"],
];
const KINDS = [
  ["all", "Everything"],
  ["said", "Said"],
  ["tools", "Tools"],
  ["problems", "Problems"],
];

function showTabs(state) {
  const changes = state.data.changes;
  const counts = {
    timeline: state.model.items.size,
    changes: changes && Array.isArray(changes.files) ? changes.files.length : "",
  };
  fill(
    at("tabs"),
    TABS.map(([name, word]) =>
      h(
        "button.tab",
        { type: "button", role: "tab", "aria-selected": String(state.tab === name), click: () => openTab(state, name) },
        word,
        Object.hasOwn(counts, name) && counts[name] !== "" ? h("span.count", {}, full(counts[name])) : null,
      ),
    ),
  );
}

function openTab(state, name, moves = true) {
  state.places.set(state.tab, scrollY);
  const known = name !== state.tab && state.places.get(name);
  state.tab = name;
  for (const [other] of TABS) at("panel-" + other).hidden = other !== name;
  at("finder").hidden = name !== "timeline";
  showTabs(state);
  showPanel(state, name);
  if (moves) toPanel(at("tools-bar").getBoundingClientRect().top > innerHeight / 2);
  if (known > scrollY) scrollTo(0, known); // back to where one was reading
}

/* To the beginning of the panel, for whoever has scrolled past it or does not see it yet. */
function toPanel(isBelow) {
  const hero = at("hero");
  const top = hero.offsetTop + hero.offsetHeight - document.querySelector(".bar").offsetHeight;
  if (isBelow || scrollY > top) scrollTo(0, top);
}

function showPanel(state, name) {
  if (name === "changes") showChanges(state, at("panel-changes"));
  if (name === "prompt") showPrompts(state, at("panel-prompt"));
  if (name === "limits") showLimits(state, at("panel-limits"));
}

function setUpFinder(state) {
  let waiting = 0;
  at("search").addEventListener("input", (event) => {
    clearTimeout(waiting);
    waiting = setTimeout(() => search(state, event.target.value), 90);
  });
  at("tool-name").addEventListener("change", (event) => {
    state.view.tool = event.target.value;
    filtered(state);
  });
  showKinds(state);
}

function search(state, text) {
  state.query = text.trim().toLowerCase();
  filtered(state);
}

function filtered(state) {
  showKinds(state);
  showTimeline(state.view, true);
  showFound(state);
  toPanel(false);
  drawNear(state.view); // the page may have moved
}

function showKinds(state) {
  fill(
    at("kinds"),
    KINDS.map(([kind, word]) =>
      h(
        "button.kind-button",
        {
          type: "button",
          "aria-pressed": String(state.view.kind === kind),
          click: () => {
            state.view.kind = kind;
            filtered(state);
          },
        },
        word,
      ),
    ),
  );
}

function showToolNames(state) {
  const names = [...new Set([...state.model.tools.values()].map((item) => item.name))].sort();
  const select = at("tool-name");
  if (select.options.length === names.length + 1) return;
  fill(
    select,
    h("option", { value: "" }, "Every tool"),
    names.map((name) =>
      h(
        "option",
        { value: name, selected: name === state.view.tool },
        plain(toolParts(name).filter(Boolean).join(" ")),
      ),
    ),
  );
  select.hidden = names.length < 2;
}

function showFound(state) {
  fill(
    at("found"),
    isFiltered(state.view) ? full(state.view.shown.length) + " of " + full(state.model.items.size) : "",
  );
}
