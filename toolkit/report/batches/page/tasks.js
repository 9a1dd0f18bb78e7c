/* Every task, as many as were asked for. */

const STEP = 500;
const GROUPS = [
  ["all", "All", () => true],
  ["failed", "Failed", (task) => task.group === "failed"],
  ["running", "Running", (task) => task.group === "running"],
  ["waiting", "Waiting", (task) => task.group === "waiting"],
  ["ok", "Ok", (task) => task.group === "ok"],
];
const ORDERS = [
  ["", "As in the file", null],
  ["cost", "Most expensive", (task) => num(task.known_cost)],
  ["time", "Longest", (task, data) => lengthOf(task, data) || 0],
  ["tokens", "Most tokens", (task) => num(task.tokens)],
];

function matches(task, words) {
  const text = [task.task, task.prompt, task.state, task.machine, task.cause, ...task.runs.map((run) => run.id)].map(str).join("\n").toLowerCase();
  return words.every((word) => text.includes(word));
}

function showGroups(state) {
  fill(
    at("groups"),
    GROUPS.map(([name, word, is]) =>
      h(
        "button.kind-button",
        { type: "button", "aria-pressed": String(state.group === name), click: () => ((state.group = name), (state.most = STEP), showGroups(state), showTasks(state)) },
        word + " ",
        h("span.count", {}, full(state.data.tasks.filter(is).length)),
      ),
    ),
  );
}

function showTasks(state) {
  const words = state.query.toLowerCase().split(/\s+/).filter(Boolean);
  const is = GROUPS.find(([name]) => name === state.group)[2],
    order = ORDERS.find(([name]) => name === state.order)[2];
  let tasks = state.data.tasks.filter((task) => is(task) && (!words.length || matches(task, words)));
  if (order) tasks = tasks.map((task) => [order(task, state.data), task]).sort((one, other) => other[0] - one[0]).map(([, task]) => task);
  const left = tasks.length - state.most;
  fill(
    at("tasks"),
    tasks.length ? titles() : h("p.empty", {}, "No task is like that."),
    tasks.slice(0, state.most).map((task) => drawTask(task, state.data)),
    left > 0 ? h("button.more", { type: "button", click: () => ((state.most += STEP), showTasks(state)) }, "Show " + full(Math.min(left, STEP)) + " more of " + full(left)) : null,
  );
  fill(at("found"), state.query || state.group !== "all" ? full(tasks.length) + " of " + full(state.data.tasks.length) : "");
}

function titles() {
  const cell = (word, kind) => h("span.cell" + (kind ? "." + kind : ""), {}, word);
  return h("div.task.head", {}, h("span", {}), h("span", {}, "task"), cell("", "state"), cell("turns", "wide"), cell("tokens", "wide"), cell("cost", "money"), cell("time", "time"));
}

function drawTask(task, data) {
  const seconds = lengthOf(task, data),
    begun = task.runs.length > 0;
  const verified = task.verified === true ? " ✓" : task.verified === false ? " ✗" : "";
  const more = [task.machine, task.runs.length > 1 ? many(task.runs.length, "run") : ""].filter(Boolean).map(str).join("  ·  ");
  return h(
    "div.task",
    { "data-task": str(task.task) },
    h("span.dot." + toneOf(task)),
    h(
      "div.asked",
      {},
      linked(task, firstLine(task.prompt) || task.task),
      h("span", {}, named(task.task), more ? "  ·  " : "", named(more), earlier(task)),
      task.cause && task.group === "failed" ? h("span.cause", {}, task.cause) : null,
    ),
    h("span.cell.state", {}, h("span.chip." + toneOf(task), {}, str(task.state) + verified)),
    h("span.cell.wide", {}, isNumber(task.turns) ? full(task.turns) : ""),
    h("span.cell.wide", {}, !begun ? "" : isNumber(task.tokens) ? short(task.tokens) : "unknown"),
    h("span.cell.money", {}, begun ? costWords(num(task.known_cost), isNumber(task.cost)) : ""),
    h("span.cell.time", {}, seconds === null ? "" : duration(seconds * 1000)),
  );
}

/* The runs before the latest: they were cut off, or the task was wanted again. */
function earlier(task) {
  return task.runs.slice(0, -1).map((run, place) => {
    const address = ours(run.report);
    return [place ? ", " : "  ·  before: ", address ? h("a", { href: address }, named(run.id)) : named(run.id)];
  });
}
