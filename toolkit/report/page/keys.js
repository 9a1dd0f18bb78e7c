/* Keys, and the list of them. */

const KEYS = [
  ["j  k", "next and previous"],
  ["n  p", "next and previous problem"],
  ["o", "open or close what is selected"],
  ["g  G", "first and last"],
  ["/", "search"],
  ["1 – 4", "timeline, changes, prompt, limits"],
  ["t", "light or dark"],
  ["Esc", "clear"],
  ["?", "this list"],
];

function listenToKeys(state) {
  const { view } = state;
  const actions = {
    j: () => step(view, 1),
    k: () => step(view, -1),
    n: () => step(view, 1, isProblem),
    p: () => step(view, -1, isProblem),
    g: () => view.shown.length && select(view, view.shown[0], "center"),
    G: () => view.shown.length && select(view, view.shown.at(-1), "center"),
    o: () => toggleSelected(view),
    Enter: () => toggleSelected(view),
    "/": () => {
      if (state.tab !== "timeline") openTab(state, "timeline");
      at("search").focus();
      at("search").select();
    },
    t: switchTheme,
    "?": () => at("help").showModal(),
    1: () => openTab(state, "timeline"),
    2: () => openTab(state, "changes"),
    3: () => openTab(state, "prompt"),
    4: () => openTab(state, "limits"),
    Escape: () => clearAll(state),
  };
  addEventListener("keydown", (event) => {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName);
    if (event.ctrlKey || event.metaKey || event.altKey || at("help").open) return;
    if (typing && event.key !== "Escape") return;
    if (event.key === "Enter" && document.activeElement.tagName === "BUTTON") return;
    if (!Object.hasOwn(actions, event.key)) return;
    if (state.tab !== "timeline" && "jknpgGo".includes(event.key)) return;
    event.preventDefault();
    actions[event.key]();
  });
}

function toggleSelected(view) {
  const item = view.selected;
  const row = item && chunkOf(view, item) && chunkOf(view, item).rows.get(item.key);
  const buttons = row ? [...row.element.querySelectorAll("button.more")] : [];
  for (const place of buttons.keys()) {
    const now = chunkOf(view, item).rows.get(item.key).element.querySelectorAll("button.more")[place];
    if (now) now.click();
  }
}

function clearAll(state) {
  at("search").blur();
  at("search").value = "";
  at("tool-name").value = "";
  const clean = !isFiltered(state.view);
  Object.assign(state.view, { kind: "all", tool: "" });
  if (clean) select(state.view, null);
  else search(state, "");
}

function setUpHelp() {
  const close = h("button.more", { type: "button", click: () => at("help").close() }, "Close");
  fill(
    at("help"),
    h("h2", {}, "Keys"),
    h(
      "dl.facts",
      {},
      KEYS.map(([keys, words]) => [
        h(
          "dt",
          {},
          keys.split("  ").map((key) => h("kbd", {}, key)),
        ),
        h("dd", {}, words),
      ]),
    ),
    close,
  );
  at("help-button").addEventListener("click", () => at("help").showModal());
  fill(at("footer"), "Made by toolkit report. This page is one file and loads nothing from the network.");
}
