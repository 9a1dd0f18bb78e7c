/* One run: what it was asked, what can be done with it, and what it wants to know. */

async function act(run, action, data) {
  const answer = await fetch("run/" + encodeURIComponent(run) + "/" + action, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(data || {}),
  });
  const text = await answer.text();
  let said;
  try {
    said = JSON.parse(text);
  } catch {
    said = { error: text };
  }
  if (!answer.ok || said.error) throw new Error(str(said.error) || "it could not be done");
  return said;
}

/* A button that does one thing, once, and says what came of it beside it. */
function doing(word, place, work, tone) {
  const button = h("button.button" + (tone ? "." + tone : ""), { type: "button" }, word);
  button.addEventListener("click", async () => {
    button.disabled = true;
    place.className = "said";
    fill(place, "…");
    try {
      fill(place, await work());
    } catch (error) {
      place.className = "said bad";
      fill(place, error.message);
    }
    button.disabled = false;
  });
  return button;
}

function openDrawer(state, id) {
  state.selected = id;
  const row = state.rows.get(id);
  const drawer = at("drawer");
  fill(drawer, h("div.drawer-in", {}, drawerParts(state, row)));
  if (!drawer.open) drawer.showModal();
}

function drawerParts(state, row) {
  const facts = [
    ["Run", row.id],
    ["Project", row.project],
    ["Model", row.model],
    ["Began", moment(row.began)],
    ["Tokens", full(row.tokens)],
    ["Cost", costWords(knownCost(row), isNumber(row.cost))],
    ["Verified", row.verified === true ? "yes" : row.verified === false ? "no" : null],
  ].filter(([, value]) => value);
  const report = state.live ? "run/" + encodeURIComponent(row.id) + "/" : row.report;
  return [
    h("h2", {}, row.title || row.id),
    row.message && !row.ok ? h("p.note.bad", {}, row.message + (row.cause ? " " + str(row.cause) : "")) : null,
    row.half_applied ? h("p.note.warn", {}, str(row.half_applied)) : null,
    row.prompt && row.prompt.trim() !== row.title ? h("div.asked", {}, row.prompt) : null,
    h("dl.facts", {}, facts.map(([name, value]) => [h("dt", {}, name), h("dd", {}, named(value))])),
    state.live ? row.questions.map((question) => questionBox(row, question)) : null,
    actionsFor(state, row, report),
  ];
}

function actionsFor(state, row, report) {
  const place = h("p.said", {}),
    more = h("div", {});
  const close = h("button.button", { type: "button", click: () => at("drawer").close() }, "Close");
  const open = report ? h("a.button.main", { href: report }, "Open the report") : null;
  if (!state.live || row.state === "damaged") return h("div.buttons", {}, open, close);
  const stop = row.state === "running" ? doing("Stop", place, async () => (await act(row.id, "stop")).said, "danger") : null;
  const interrupt = row.state === "running" ? doing("Interrupt the turn", place, async () => (await act(row.id, "interrupt")).said) : null;
  const settle = row.half_applied && row.copied ? [["Apply the rest", "finish", "main"], ["Take it back", "undo"]] : [];
  const ways = settle.map(([word, action, tone]) => doing(word, place, async () => (await act(row.id, action)).said, tone));
  const take = row.state !== "running" && row.copied && row.changes && !row.half_applied ? h("button.button", { type: "button", click: () => reviewChanges(row, more, place) }, "Take back " + many(row.changes, "change")) : null;
  const resume = row.state !== "running" && row.session && !row.half_applied ? h("button.button", { type: "button", click: () => askMore(row, more, place) }, "Go on") : null;
  return [h("div.buttons", {}, open, ways, take, resume, interrupt, stop, close), more, place];
}

/* The changed files with their marks come first; then they can be applied or put on a branch. */
async function reviewChanges(row, box, place) {
  fill(box, "…");
  let found;
  try {
    found = await act(row.id, "changes");
  } catch (error) {
    fill(box);
    place.className = "said bad";
    fill(place, error.message);
    return;
  }
  const name = h("input", { type: "text", placeholder: "agent/" + row.id, spellcheck: false, autocomplete: "off" });
  name.setAttribute("aria-label", "Name of the branch");
  const marked = found.files.filter((file) => file.suspicious.length || file.planted);
  fill(
    box,
    marked.length ? h("p.note.warn", {}, many(marked.length, "file deserves", "files deserve") + " a second look:") : h("p.note", {}, "Nothing here is marked."),
    h(
      "ul.marks",
      {},
      [...marked, ...found.files.filter((file) => !marked.includes(file))].slice(0, 500).map((file) =>
        h("li", {}, h("span", {}, h("span.kind." + file.kind, {}, file.kind + " "), h("code.path", {}, named(file.path))), [file.planted, ...file.suspicious].filter(Boolean).map((why) => h("span.why", {}, why))),
      ),
    ),
    found.ignored ? h("p.muted", {}, named(found.ignored)) : null,
    found.diff ? h("details", {}, h("summary", {}, "The diff"), h("pre.diff", {}, diffLines(found.diff))) : null,
    h("p", {}, name),
    h(
      "div.buttons",
      {},
      doing("Apply to the host", place, async () => (await act(row.id, "apply")).said, "main"),
      doing("Put on a branch", place, async () => (await act(row.id, "branch", { name: name.value.trim() })).said),
    ),
  );
}

/* Each line in the colour of what it does; the text is only ever text. */
function diffLines(diff) {
  const tone = (line) => (/^(diff|index|---|\+\+\+|@@)/.test(line) ? "head" : line[0] === "+" ? "plus" : line[0] === "-" ? "minus" : "same");
  return diff.split("\n").slice(0, 5000).map((line) => h("span." + tone(line), {}, named(line), "\n"));
}

function askMore(row, box, place) {
  const prompt = h("textarea", { placeholder: "What should it do next?" });
  prompt.setAttribute("aria-label", "Prompt");
  fill(box, prompt, h("div.buttons", {}, doing("Send", place, async () => (await act(row.id, "resume", { prompt: prompt.value })).said, "main")));
  prompt.focus();
}
