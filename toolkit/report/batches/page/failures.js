/* What failed, those of one cause together. */

const MOST_FAILED = 200;

function showFailures(data) {
  const box = at("failures");
  box.hidden = !data.failures.length;
  if (!data.failures.length) return;
  const tasks = new Map(data.tasks.map((task) => [task.task, task]));
  fill(
    box,
    h("h2", {}, "Why tasks failed"),
    data.failures.map((group, place) => {
      const details = h(
        "details.failure",
        {},
        h(
          "summary",
          {},
          h("span.chip.bad", {}, named(group.state)),
          h("div.why", {}, h("b", {}, group.message || named(group.state)), group.cause ? h("span", {}, group.cause) : null),
          h("span.many", {}, many(group.tasks.length, "task")),
        ),
        h("ul", {}, group.tasks.slice(0, MOST_FAILED).map((name) => failedTask(tasks.get(name), name)), leftOut(group.tasks.length)),
      );
      details.open = place === 0 && group.tasks.length <= 5;
      return details;
    }),
  );
}

function failedTask(task, name) {
  return h("li", {}, linked(task, name), " ", h("span.muted", {}, task ? firstLine(task.prompt) : ""));
}

function leftOut(count) {
  return count > MOST_FAILED ? h("li.muted", {}, "and " + full(count - MOST_FAILED) + " more") : null;
}

/* The task's name, leading to the report of its latest run where there is one. */
function linked(task, name) {
  const run = task && task.runs.length ? task.runs.at(-1) : null;
  const address = run ? ours(run.report) : null;
  return address ? h("a", { href: address }, named(name)) : h("b", {}, named(name));
}

/* An address that leads to a page beside this one, and nowhere else. */
function ours(address) {
  return typeof address === "string" && /^(\.\.\/)*[\w%.~-]+(\/[\w%.~-]*)*$/.test(address) ? address : null;
}

function firstLine(text) {
  return str(text).trim().split("\n", 1)[0];
}
