/* The line of a batch, above its runs: how far it is, what it costs, and its page. */

const BATCH_TONES = { ok: "good", failed: "bad", running: "live" };

function batchWords(line) {
  if (line.damage) return line.damage;
  const { counts } = line;
  const done = num(counts.ok) + num(counts.failed);
  const parts = [full(done) + " of " + many(line.total, "task") + " done"];
  for (const group of ["running", "failed", "waiting"]) if (num(counts[group])) parts.push(full(counts[group]) + " " + group);
  if (done || num(counts.running)) parts.push(costWords(num(line.known_cost), isNumber(line.cost)));
  if (line.worked_on && isNumber(line.rate)) parts.push(line.rate.toFixed(1) + " requests/s");
  return parts.join(", ");
}

function drawBatch(state, line) {
  const bar = h("span.batch-bar", { role: "img", "aria-label": "Progress" });
  for (const [group, tone] of Object.entries(BATCH_TONES)) {
    const part = h("i." + tone);
    part.style.width = (num(line.counts[group]) / Math.max(1, num(line.total))) * 100 + "%";
    bar.append(part);
  }
  const address = line.damage ? null : state.live ? "batch/" + encodeURIComponent(line.batch) + "/" : line.report;
  return h(
    "div.group-title.batch",
    { "data-batch": line.batch },
    h("span.dot." + (line.damage ? "bad" : line.worked_on ? "live" : line.ended === null ? "warn" : "good")),
    address ? h("a.path", { href: address }, named(line.batch)) : h("span.path", {}, named(line.batch)),
    bar,
    h("span.muted", {}, batchWords(line)),
  );
}
