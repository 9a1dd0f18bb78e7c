/* The exact prompts, and what the run was allowed: limits, what was used, and what was enforced. */

function showPrompts(state, panel) {
  fill(panel);
  const turns = state.model.turns;
  const asked = str(state.data.facts.prompt);
  if (!turns.length) {
    panel.append(
      h("h2", {}, "Asked"),
      h("p.empty", {}, "No prompt was sent. This is what was asked for:"),
      h("pre.prompt", {}, asked),
    );
    return;
  }
  turns.forEach((turn, place) => {
    const words = str(turn.data.prompt);
    const title = turns.length > 1 ? "Prompt " + (place + 1) : "The exact prompt";
    panel.append(
      h("h2", {}, title, h("span.aside", {}, many(words.length, "character") + "  ·  " + moment(turn.t))),
      h("pre.prompt", {}, exact(words)),
      pictures(turn.data.attachments),
    );
  });
}

const LIMIT_WORDS = {
  seconds: ["Time", (value) => duration(value * 1000), (f) => f.ms / 1000, "the run's own clock, from outside"],
  turns: ["Turns", full, null, "the CLI"],
  tokens: ["Tokens", full, (f) => f.total, "a check before every tool call"],
  usd: ["Cost", money, (f) => f.cost, "the CLI, as it counts"],
  memory_bytes: ["Memory", bytes, null, "the jail"],
  processes: ["Processes", full, null, "the jail"],
  file_bytes: ["Largest file", bytes, null, "the jail"],
  workspace_bytes: ["Workspace", bytes, null, "the jail"],
  cpu_seconds: ["Processor time", (value) => duration(value * 1000), null, "the jail"],
  tmp_bytes: ["/tmp", bytes, null, "the jail"],
};

function showLimits(state, panel) {
  const { facts, result } = state.data;
  const sums = figures(state);
  const loose = new Set((result && Array.isArray(result.unenforced) ? result.unenforced : []).map(str));
  const first = state.model.turns[0] ? state.model.turns[0].data : {};
  fill(panel, h("h2", {}, "Limits"), limitTable(facts, sums, loose), looseNotes(loose, facts.limits));
  panel.append(h("h2", {}, "Confinement"), factList(confinement(facts, first)));
  panel.append(h("h2", {}, "Refused", h("span.aside", {}, "tool calls that were not allowed")), refusedList(result));
  if (result && Array.isArray(result.pending) && result.pending.length) {
    panel.append(
      h("h2", {}, "Waiting for an answer"),
      h(
        "ul.plain",
        {},
        result.pending.map((call) => h("li", {}, h("span.tool-name", {}, str(call.name)))),
      ),
    );
  }
  if (result && result.output !== null && result.output !== undefined)
    panel.append(h("h2", {}, "Output"), h("pre.prompt", {}, coloured(str(result.output), LANGUAGES.json)));
  panel.append(h("h2", {}, "The run"), factList(runFacts(state, first, sums)));
  const tools = Array.isArray(first.tools) ? first.tools : [];
  if (tools.length)
    panel.append(
      h("h2", {}, "Tools offered"),
      h(
        "p.tool-list",
        {},
        tools.map((name) => h("code", {}, str(name))),
      ),
    );
}

function limitTable(facts, sums, loose) {
  const given = Object.entries(facts.limits && typeof facts.limits === "object" ? facts.limits : {});
  if (!given.length)
    return h(
      "p.empty",
      {},
      "None were set: time, turns, tokens and money were unlimited, the machine had the jail's defaults.",
    );
  const rows = given.map(([name, allowed]) => {
    const [title, show, used, by] = Object.hasOwn(LIMIT_WORDS, name) ? LIMIT_WORDS[name] : [name, str, null, ""];
    const spent = used ? used(sums) : null;
    const cells = [
      h("td", {}, title),
      h("td.number", {}, show(num(allowed))),
      h("td", {}, spent === null || spent === undefined ? "" : usedMeter(spent / num(allowed), show(spent))),
    ];
    const free = loose.has(name) || (by === "the jail" && facts.confined !== true);
    cells.push(h("td", {}, free ? h("span.chip.bad", {}, "not enforced") : h("span.muted", {}, by)));
    return h("tr", {}, cells);
  });
  return h(
    "div.scroll",
    {},
    h(
      "table",
      {},
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          ["Limit", "Allowed", "Used", "Enforced by"].map((word) => h("th", {}, word)),
        ),
      ),
      h("tbody", {}, rows),
    ),
  );
}

function usedMeter(share, words) {
  const meter = h("div.meter" + (share >= 1 ? ".over" : ""), {}, h("i"));
  meter.firstChild.style.width = Math.min(100, share * 100) + "%";
  return h("div.used", {}, h("span", {}, words), meter);
}

function looseNotes(loose, limits) {
  const others = [...loose].filter((name) => !limits || !Object.hasOwn(limits, name));
  return others.map((name) => h("p.note.bad", {}, "Not enforced on this machine: " + name));
}

function confinement(facts, first) {
  const domains = Array.isArray(facts.domains) ? facts.domains : [];
  const approval = [
    ["Approval", facts.mode],
    ["Permission mode of the CLI", first.mode],
  ];
  if (facts.confined !== true) return [["Confined", "no: the agent's program was a stand-in"], ...approval];
  return [
    ["Confined", "yes, in the jail"],
    ["Profile", facts.profile],
    ["Lent by the host, read-only", lent(facts)],
    ["Network", domains.length ? "the model API and " + domains.map(str).join(", ") : "the model API only"],
    ...approval,
  ];
}

function lent(facts) {
  const rows = Array.isArray(facts.lent) ? facts.lent.filter((row) => row && typeof row === "object") : [];
  return rows.map((row) => (row.what === "lent" ? "" : str(row.what) + ": ") + str(row.host)).join(", ");
}

function runFacts(state, first, sums) {
  const { data } = state;
  const result = data.result || {};
  const servers =
    first.servers && typeof first.servers === "object"
      ? Object.entries(first.servers)
          .map(([name, status]) => name + " (" + str(status) + ")")
          .join(", ")
      : "";
  const loose = totalOf(result.unattributed);
  return [
    ["Run", data.run],
    ["Began", moment(data.facts.began)],
    ["Took", duration(sums.ms)],
    ["Model", result.model || first.model || data.facts.model],
    ["Started in", data.facts.cwd],
    ["Worked in", first.cwd],
    ["MCP servers", servers],
    ["Session", result.session || first.session],
    ["CLI", first.cli],
    ["Trace", data.facts.trace],
    ["Stop reason", result.stop],
    ["Tokens outside the calls shown", loose ? full(loose) + " (subagents, compaction)" : ""],
  ];
}

function factList(facts) {
  return h(
    "dl.facts",
    {},
    facts.filter(([, value]) => str(value)).map(([name, value]) => [h("dt", {}, name), h("dd", {}, str(value))]),
  );
}

function refusedList(result) {
  const denied = result && Array.isArray(result.denied) ? result.denied : [];
  if (!denied.length) return h("p.empty", {}, "Nothing was refused.");
  return h(
    "ul.plain",
    {},
    denied.map((call) =>
      h("li", {}, h("i.dot.bad"), h("span.tool-name", {}, str(call.name)), " ", h("span.muted", {}, str(call.reason))),
    ),
  );
}
