/* Put the page together. */

function start() {
  const data = JSON.parse(at("data").textContent);
  const state = { data, model: newModel(), query: "", tab: "timeline", places: new Map() };
  for (const event of data.events) take(state.model, event);
  data.events = [];
  state.view = newTimeline(state, at("panel-timeline"));
  state.openTab = (name) => openTab(state, name);
  state.refresh = () => refresh(state);
  setUpTheme();
  setUpHelp();
  setUpFinder(state);
  refresh(state, true);
  openTab(state, "timeline", false);
  listenToKeys(state);
  new ResizeObserver(() => drawTokens(state)).observe(at("hero"));
  addEventListener("beforeprint", () => {
    state.view.chunks.forEach((chunk) => drawChunk(state.view, chunk));
    TABS.forEach(([name]) => showPanel(state, name));
  });
  data.followed = data.live;
  if (data.live) follow(state);
  else drawAtLeisure(state.view);
  document.documentElement.dataset.ready = "yes";
}

function refresh(state, reset) {
  showHeader(state);
  showHero(state);
  showTabs(state);
  showToolNames(state);
  showTimeline(state.view, reset);
  showFound(state);
  showPanel(state, state.tab);
}

start();
