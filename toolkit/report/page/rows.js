/* One item of the timeline as an element. */

const CLIP = { lines: 12, characters: 1600 };

function rowOf(item, state, redraw) {
  const maker = ROWS[item.type] || (() => null);
  const row = h("article.row." + item.type, { "data-key": item.key });
  row.style.setProperty("--depth", Math.min(item.depth, 8));
  if (item.depth) row.classList.add("nested");
  if (isProblem(item)) row.classList.add("problem");
  const begun = state.model.began ?? item.t;
  const when = h("time.when", { title: moment(item.t) }, since(item.t - begun));
  add(row, [when, h("div.what", {}, maker(item, state, redraw))]);
  return row;
}

/* A long text with the button that shows the rest of it. */
function clipped(item, slot, text, state, redraw, make) {
  const cut = cutAt(text, CLIP.lines, CLIP.characters);
  if (cut >= text.length) return make(text);
  item.shown = item.shown || new Set();
  const found = state.query ? text.toLowerCase().indexOf(state.query) : -1;
  const all = item.shown.has(slot) || found >= cut;
  const toggle = () => {
    if (all) item.shown.delete(slot);
    else item.shown.add(slot);
    redraw(item);
  };
  const lines = text.split("\n").length;
  const words = all
    ? "Show less"
    : "Show all  ·  " + (lines > CLIP.lines ? many(lines, "line") : many(text.length, "character"));
  return [
    all ? make(text) : h("div.cut", {}, make(text.slice(0, cut))),
    h("button.more", { type: "button", click: toggle }, words),
  ];
}

function label(word, ...rest) {
  return h("div.label", {}, h("span.word", {}, word), rest);
}

function chip(word, tone) {
  return h("span.chip" + (tone ? "." + tone : ""), {}, word);
}

function toolStatus(item, state) {
  if (!item.done) return state.data.state === "running" ? ["running", "live"] : ["never answered", "bad"];
  if (item.denied) return ["refused", "bad"];
  if (item.interrupted) return ["interrupted", "warn"];
  if (item.deferred) return ["waits", "warn"];
  return item.ok ? ["ok", "good"] : ["failed", "bad"];
}

function nothingSaid(item) {
  if (item.interrupted) return "ended before it answered";
  return item.deferred ? "waits for an answer" : "no text";
}

function toolRow(item, state, redraw) {
  const [word, tone] = toolStatus(item, state);
  const [server, tool] = toolParts(item.name);
  const head = h(
    "div.tool-head",
    {},
    h("i.dot." + tone),
    h("span.tool-name", {}, server ? h("span.server", {}, server + " ") : null, tool),
  );
  if (word !== "ok") head.append(chip(word, tone));
  for (const asked of item.approvals) head.append(approvalChip(asked));
  if (item.children.length) head.append(foldButton(item, state));
  if (item.done) head.append(h("span.took", {}, duration(item.ms)));
  const sides = h("div.sides", {}, argumentSide(item, state, redraw), resultSide(item, state, redraw));
  return [head, sides, item.approvals.map(approvalNote)];
}

/* `mcp__server__tool` as people say it. */
function toolParts(name) {
  const found = /^mcp__(.+?)__(.+)$/s.exec(name);
  return found ? [found[1], found[2]] : ["", name || "a tool"];
}

function foldButton(item, state) {
  const inside = countBelow(item);
  const click = () => {
    item.folded = !item.folded;
    item.version = ++state.model.version;
    state.refresh();
  };
  return h(
    "button.more.fold",
    { type: "button", click },
    (item.folded ? "▸ " : "▾ ") + "subagent, " + many(inside, "step"),
  );
}

function countBelow(item) {
  let count = 0;
  const stack = [...item.children];
  while (stack.length) {
    const next = stack.pop();
    count++;
    stack.push(...next.children);
  }
  return count;
}

/* The language of the file that a call is about. */
function languageIn(item) {
  const path = item.rows.find((pair) => /path|file/i.test(str(pair && pair[0])));
  return path ? languageOf(path[1]) : null;
}

function argumentSide(item, state, redraw) {
  const side = h("div.side.arguments", {});
  for (const pair of item.rows) {
    const name = str(pair && pair[0]);
    const value = str(pair && pair[1]);
    const isCode = /^(content|new_string|old_string|code|text)$/.test(name);
    const language = /^(command|cmd|script)$/.test(name) ? LANGUAGES.shell : isCode ? languageIn(item) : null;
    const short = value.length <= 60 && !value.includes("\n");
    const box = (text) => h(short ? "code.value" : "pre.value", {}, coloured(text, language));
    const title = name ? h("span.argument-name", {}, name) : null;
    side.append(
      h("div.argument" + (short ? ".short" : ""), {}, title, clipped(item, "a/" + name, value, state, redraw, box)),
    );
  }
  if (!item.rows.length) side.append(h("p.nothing", {}, "no arguments"));
  return side;
}

function resultSide(item, state, redraw) {
  const side = h("div.side.result", {});
  const language = item.name === "Read" && item.ok ? languageIn(item) : null;
  const box = (text) => h("pre.value", {}, coloured(text, language));
  if (item.done && item.result) add(side, [clipped(item, "r", item.result, state, redraw, box)]);
  else if (item.done) side.append(h("p.nothing", {}, nothingSaid(item)));
  else if (item.progress) side.append(progressNote(item.progress));
  else side.append(h("p.nothing", {}, state.data.state === "running" ? "working…" : "no answer was stored"));
  return side;
}

function progressNote(progress) {
  const share = num(progress.total) ? Math.max(0, Math.min(1, num(progress.done) / num(progress.total))) : null;
  const meter = share === null ? null : h("div.meter", {}, h("i"));
  if (meter) meter.firstChild.style.width = share * 100 + "%";
  return h("div.progress", {}, h("p", {}, str(progress.message) || "working…"), meter);
}

function approvalChip(asked) {
  if (!asked.answer) return chip("waits for approval", "warn");
  const allowed = /^allow/.test(asked.answer.decision);
  return chip(
    allowed ? "approved" : asked.answer.decision === "cancelled" ? "not answered" : "not approved",
    allowed ? "good" : "bad",
  );
}

function approvalNote(asked) {
  const answer = asked.answer;
  const words = answer
    ? [
        answer.decision.replaceAll("_", " "),
        answer.by && "by " + answer.by,
        "after " + duration((answer.t - asked.t) * 1000),
      ]
        .filter(Boolean)
        .join(", ")
    : "no answer";
  return h(
    "p.note",
    {},
    "Asked: " + (asked.reason || "may it?") + " — " + words + (answer && answer.message ? ". " + answer.message : ""),
  );
}

function textRow(item, state, redraw) {
  return clipped(item, "t", item.text, state, redraw, prose);
}

function thinkingRow(item, state, redraw) {
  const wanted = item.open || (state.query && hay(item).includes(state.query));
  const first = item.text.trim().split("\n")[0].slice(0, 160);
  const click = () => {
    item.open = !item.open;
    redraw(item);
  };
  const head = h(
    "button.more.thought",
    { type: "button", click, "aria-expanded": String(Boolean(wanted)) },
    (wanted ? "▾ " : "▸ ") + "Thinking",
  );
  return wanted ? [head, clipped(item, "t", item.text, state, redraw, prose)] : [head, h("span.glimpse", {}, first)];
}

/* What a prompt carried along: pictures as they are, the rest as a line. */
function pictures(attachments) {
  return (Array.isArray(attachments) ? attachments : []).map((one) => {
    const words = str(one.media_type) + ", " + bytes(num(one.bytes));
    if (!one.source) return h("p.aside", {}, "Not shown: " + words);
    return h("figure.attached", {}, h("img", { src: str(one.source), alt: words }), h("figcaption.aside", {}, words));
  });
}

function turnRow(item, state) {
  const { data } = item;
  const facts = [
    data.model,
    data.mode && "mode " + str(data.mode),
    Array.isArray(data.tools) && many(data.tools.length, "tool"),
  ];
  const first = item === state.model.turns[0] && str(state.data.facts.prompt);
  const words = (first || str(data.prompt)).trim();
  const cut = cutAt(words, 6, 500);
  const exactly = h("button.more", { type: "button", click: () => state.openTab("prompt") }, "The exact prompt");
  const aside = h("span.aside", {}, facts.filter(Boolean).map(str).join("  ·  "));
  return [
    label(state.model.turns.length > 1 ? "Prompt " + str(data.turn) : "Prompt", aside),
    h("p.asked", {}, words.slice(0, cut) + (cut < words.length ? " …" : "")),
    pictures(data.attachments),
    exactly,
  ];
}

function endRow(item) {
  const { data } = item;
  const facts = [
    duration(num(data.ms)),
    costWords(knownCost(data), isNumber(data.cost)),
    short(totalOf(data.total)) + " tokens",
    data.stop && "stop: " + str(data.stop),
  ].filter(Boolean);
  return [
    label("End of the turn", chip(item.code, item.ok ? "good" : "bad"), h("span.aside", {}, facts.join("  ·  "))),
    h("p", {}, str(data.message)),
    data.cause ? h("p.cause", {}, str(data.cause)) : null,
  ];
}

function retryRow(item) {
  const { data } = item;
  if (data.code) {
    const again = "Tried again after " + duration(num(data.delay_ms)) + ", " + str(data.attempt) + " of " + str(data.of) + ".";
    return [label("Retry", chip(str(data.code), "bad")), h("p", {}, again), data.error ? h("p.note", {}, str(data.error)) : null];
  }
  const status = str(data.status),
    wait = num(data.delay_ms);
  const words =
    "The model API did not answer" +
    (status ? " (" + status + ")" : "") +
    "; attempt " +
    str(data.attempt) +
    (wait ? " after " + duration(wait) : "") +
    ".";
  return [label("Retry"), h("p", {}, words), data.error ? h("p.note", {}, str(data.error)) : null];
}

function compactionRow(item) {
  const { data } = item;
  const before = num(data.before),
    after = num(data.after);
  const words = item.done
    ? "The conversation was compacted" +
      (before ? ", from " + full(before) + (after ? " to " + full(after) : "") + " tokens" : "") +
      "."
    : "The conversation is being compacted.";
  return [label("Compaction", data.trigger ? h("span.aside", {}, str(data.trigger)) : null), h("p", {}, words)];
}

function refusedRow({ data }) {
  const times = num(data.times) > 1 ? h("span.aside", {}, `${full(num(data.times))} times`) : null;
  return [
    label("Refused by the gate", times),
    h("p", {}, `${str(data.what)}: ${str(data.why)}`),
    h("p.aside", {}, str(data.fix)),
  ];
}

const ROWS = {
  tool: toolRow,
  text: textRow,
  thinking: thinkingRow,
  turn: turnRow,
  end: endRow,
  retry: retryRow,
  setup: setupRow,
  verify: verifyRow,
  delivered: deliveredRow,
  mend: (item, state, redraw) => [
    label("Sent back to the agent"),
    clipped(item, "m", item.text, state, redraw, (text) => h("p.asked", {}, text)),
  ],
  compaction: compactionRow,
  refused: refusedRow,
  warning: (item) => [label("Warning"), h("p", {}, str(item.data.what))],
  approval: (item, state, redraw) => [
    label("Approval", h("span.tool-name", {}, item.name), item.approvals.map(approvalChip)),
    argumentSide(item, state, redraw),
    item.approvals.map(approvalNote),
  ],
};
