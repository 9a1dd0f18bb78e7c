/* The header that stays, and the first look: how it ended, what it said last, what it used. */

function showHeader(state) {
  const sums = figures(state),
    how = verdict(state);
  document.title = how.code + " · " + plain(state.data.run);
  const badge = at("badge");
  badge.className = "badge " + how.tone;
  fill(badge, how.code);
  fill(at("name"), state.data.run);
  const parts = [
    [duration(sums.ms), "time"],
    [sums.cost === null ? null : costWords(sums.cost, sums.costIsWhole), "cost"],
    [short(sums.total), "tokens"],
    [full(sums.tools), sums.tools === 1 ? "tool call" : "tool calls"],
  ];
  if (sums.denied) parts.push([full(sums.denied), "refused"]);
  fill(
    at("key-figures"),
    parts
      .filter(([value]) => value !== null)
      .map(([value, word]) => h("span.key-figure." + word.replace(" ", "-"), {}, h("b", {}, value), " " + word)),
  );
}

function showHero(state) {
  const { data, model } = state;
  const sums = figures(state),
    how = verdict(state);
  const last = data.result ? str(data.result.text) : "";
  const hero = at("hero");
  const numbers = [
    ["Time", duration(sums.ms)],
    ["Cost", sums.cost === null ? "–" : costWords(sums.cost, sums.costIsWhole)],
    ["Tokens", short(sums.total)],
    ["Model calls", full(sums.calls)],
    ["Tool calls", full(sums.tools)],
    ["Refused", full(sums.denied)],
  ];
  const grid = h(
    "dl.numbers",
    {},
    numbers.map(([name, value]) =>
      h("div" + (name === "Refused" && sums.denied ? ".bad" : ""), {}, h("dt", {}, name), h("dd", {}, value)),
    ),
  );
  const began = moment(data.facts.began ?? model.began);
  const title = h(
    "div.title",
    {},
    h("h1", {}, taskOf(data) || data.run),
    h("p.verdict." + how.tone, {}, how.sentence),
    how.cause ? h("p.cause", {}, how.cause) : null,
    data.half_applied ? h("p.note.warn", {}, str(data.half_applied)) : null,
    h("p.subtitle", {}, [began, data.result && data.result.model].filter(Boolean).map(str).join("  ·  ")),
  );
  const chart = h(
    "figure.chart",
    {},
    h("figcaption", {}, h("span", {}, "Tokens per model call"), chartLegend(sums.tokens)),
    h("div.chart-box", {}),
  );
  fill(hero, title, grid, lastWords(state, last), model.calls.length ? chart : null);
  drawTokens(state);
}

/* What the run was asked, as far as its first line tells. */
function taskOf(data) {
  const line = str(data.facts.prompt).trim().split("\n", 1)[0];
  return line.length > 160 ? line.slice(0, 160) + "…" : line;
}

function lastWords(state, text) {
  if (!text.trim()) return null;
  const box = h("div.last-words", {});
  const redraw = () =>
    fill(
      box,
      h("p.label", {}, h("span.word", {}, state.data.result.ok ? "Answer" : "Last words")),
      clipped(state, "last", text, { query: "" }, redraw, prose),
    );
  redraw();
  return box;
}

function drawTokens(state) {
  const box = at("hero").querySelector(".chart-box");
  if (box && state.model.calls.length) drawChart(box, state.model.calls, (call) => jumpToCall(state, call));
}

function jumpToCall(state, call) {
  state.openTab("timeline");
  const said =
    state.view.shown.find((item) => item.message === call.id) || state.view.shown.find((item) => item.t >= call.t);
  if (said) select(state.view, said, "center");
}
