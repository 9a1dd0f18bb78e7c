/* How the batch stands: the header that stays, the sums, and the outcomes as one bar. */

const PARTS = ["cache_read", "cache_write", "input", "output"];
const GROUP_WORDS = { ok: "ok", failed: "failed", running: "running", waiting: "waiting" };
const GROUP_TONES = { ok: "good", failed: "bad", running: "live", waiting: "idle" };

function toneOf(task) {
  return GROUP_TONES[task.group] || "bad";
}

function batchVerdict(data) {
  const { counts } = data,
    total = data.tasks.length,
    left = num(counts.running) + num(counts.waiting);
  if (left)
    return {
      tone: data.worked_on ? "live" : "warn",
      word: full(total - left) + " of " + full(total) + " done",
      sentence: data.worked_on
        ? "The batch was under way when this page was made."
        : "The batch is not finished, and nobody worked on it when this page was made.",
    };
  if (num(counts.failed))
    return { tone: "bad", word: full(counts.failed) + " failed", sentence: "All tasks are done: " + full(counts.ok) + " ok, " + full(counts.failed) + " failed." };
  return { tone: "good", word: "ok", sentence: total === 1 ? "The task is done and ok." : "All " + full(total) + " tasks are done and ok." };
}

function lastMoment(data) {
  return isNumber(data.ended) ? data.ended : num(data.at);
}

function showTop(data) {
  const how = batchVerdict(data);
  document.title = how.word + " · " + plain(data.batch);
  at("badge").className = "badge " + how.tone;
  fill(at("badge"), how.word);
  fill(at("name"), data.batch);
  const wall = isNumber(data.began) ? duration((lastMoment(data) - data.began) * 1000) : "–";
  const cost = costWords(num(data.known_cost), isNumber(data.cost));
  fill(
    at("key-figures"),
    [
      [wall, "time"],
      [cost, "cost"],
      [short(num(data.tokens)), "tokens"],
    ].map(([value, word]) => h("span.key-figure." + word, {}, h("b", {}, value), " " + word)),
  );
  const work = data.tasks.reduce((sum, task) => sum + (lengthOf(task, data) || 0), 0);
  const numbers = [
    ["Tasks", full(data.tasks.length)],
    ["Ok", full(data.counts.ok)],
    ["Failed", full(data.counts.failed)],
    ["Cost", cost],
    ["Time", wall],
    ["Time of runs", duration(work * 1000)],
  ];
  fill(
    at("hero"),
    h(
      "div.title",
      {},
      h("h1", {}, named(data.batch)),
      h("p.verdict." + how.tone, {}, how.sentence),
      h("p.subtitle", {}, [moment(data.began), machinesOf(data), short(num(data.tokens)) + " tokens"].filter(Boolean).join("  ·  ")),
    ),
    h("dl.numbers", {}, numbers.map(([name, value]) => h("div" + (name === "Failed" && num(data.counts.failed) ? ".bad" : ""), {}, h("dt", {}, name), h("dd", {}, value)))),
    outcomesOf(data),
  );
}

function machinesOf(data) {
  const names = [...new Set(data.tasks.map((task) => str(task.machine)).filter(Boolean))];
  return names.length === 1 ? "on " + names[0] : names.length ? "on " + full(names.length) + " machines" : "";
}

/* Seconds that the latest run of a task took, or has taken until the page was made. */
function lengthOf(task, data) {
  if (!isNumber(task.began)) return null;
  return Math.max(0, (isNumber(task.ended) ? task.ended : num(data.at)) - task.began);
}

function outcomesOf(data) {
  const total = Math.max(1, data.tasks.length);
  const bar = h("div.outcome-bar", { role: "img", "aria-label": "Outcomes" });
  for (const group of Object.keys(GROUP_WORDS)) {
    const part = h("i." + GROUP_TONES[group]);
    part.style.width = (num(data.counts[group]) / total) * 100 + "%";
    bar.append(part);
  }
  const words = Object.entries(data.states).map(([state, count]) => {
    const task = data.tasks.find((one) => one.state === state);
    return h("span.legend-part", {}, h("i.swatch." + (task ? toneOf(task) : "idle")), named(state), " ", h("b", {}, full(count)));
  });
  return h("div.outcomes", {}, bar, h("div.legend", {}, words));
}
