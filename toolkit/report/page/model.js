/* Events become items: what the timeline shows, each below the tool call it was done for. */

function newModel() {
  return {
    roots: [],
    items: new Map(),
    open: new Map(),
    asked: new Map(),
    refused: new Map(),
    calls: [],
    turns: [],
    ends: [],
    tools: new Map(),
    began: null,
    last: null,
    count: 0,
    cost: 0,
    costIsWhole: true,
    ms: 0,
    reported: null,
    denied: 0,
    failed: 0,
    version: 0,
  };
}

function newItem(model, event, type, key, fields) {
  const parent = event.parent ? model.tools.get(event.parent) : undefined;
  const item = {
    key,
    type,
    t: num(event.t),
    parent: parent || null,
    depth: parent ? parent.depth + 1 : 0,
    children: [],
    open: false,
    folded: false,
    version: ++model.version,
    hay: null,
    ...fields,
  };
  (parent ? parent.children : model.roots).push(item);
  model.items.set(key, item);
  return item;
}

function touch(model, item) {
  item.version = ++model.version;
  item.hay = null;
  return item;
}

function take(model, event) {
  if (!event || typeof event !== "object" || !event.data || typeof event.data !== "object") return;
  const t = num(event.t);
  if (model.began === null) model.began = t;
  model.last = Math.max(model.last ?? t, t);
  model.count++;
  const taker = TAKERS.get(event.s + "." + event.k);
  if (taker) taker(model, event, event.data, model.count + "/" + str(event.id));
}

function takeDelta(model, event, data) {
  const slot = event.k + "/" + str(event.id);
  let item = model.open.get(slot);
  if (!item) {
    item = newItem(model, event, event.k, model.count + "/" + slot, { text: "", message: str(event.id) });
    model.open.set(slot, item);
  }
  item.text += str(data.text);
  touch(model, item);
}

function takeBlock(model, event, data, key) {
  const type = data.type === "thinking" ? "thinking" : "text";
  const slot = type + "/" + str(event.id);
  const item = model.open.get(slot) || newItem(model, event, type, key, { message: str(event.id) });
  item.text = str(data.text);
  model.open.delete(slot);
  touch(model, item);
}

function takeToolEnd(model, event, data, key) {
  const fresh = { name: str(data.name), rows: [], progress: null, approvals: [] };
  const item = model.tools.get(event.id) || newItem(model, event, "tool", key, fresh);
  item.result = str(data.text);
  item.ok = data.ok === true;
  item.ms = num(data.ms);
  item.denied = data.denied === true;
  item.interrupted = data.interrupted === true;
  item.deferred = data.deferred === true;
  item.done = true;
  if (item.denied) model.denied++;
  else if (!item.ok && !item.deferred) model.failed++;
  touch(model, item);
}

/* What the CLI itself refused is known when the turn has ended; until then the call counts as failed. */
function takeDenied(model, item) {
  if (!item || item.denied || !item.done) return;
  if (!item.ok && !item.deferred) model.failed--;
  model.denied++;
  item.denied = true;
  touch(model, item);
}

function takeCall(model, event, data) {
  const call = { id: str(event.id), model: str(data.model), t: num(event.t), parent: event.parent || null };
  for (const name of PARTS) call[name] = num(data[name]);
  model.calls.push(call);
  model.version++;
}

function takeFinished(model, event, data, key) {
  model.cost += knownCost(data);
  model.costIsWhole = model.costIsWhole && isNumber(data.cost);
  model.ms += num(data.ms);
  const total = data.total && typeof data.total === "object" ? data.total : {};
  model.reported = model.reported || { input: 0, output: 0, cache_read: 0, cache_write: 0 };
  for (const name of PARTS) model.reported[name] += num(total[name]);
  for (const id of Array.isArray(data.denied) ? data.denied : []) takeDenied(model, model.tools.get(id));
  model.ends.push(newItem(model, event, "end", key, { data, code: str(data.code), ok: data.ok === true }));
}

function takeAsked(model, event, data, key) {
  const question = { id: str(event.id), reason: str(data.reason), t: num(event.t), answer: null, tool: str(data.tool) };
  let item = model.tools.get(str(data.call));
  if (!item) {
    const rows = Array.isArray(data.input) ? data.input : [];
    item = newItem(model, event, "approval", key, { name: question.tool, rows, approvals: [] });
  }
  item.approvals.push(question);
  model.asked.set(question.id, [item, question]);
  touch(model, item);
}

function takeAnswered(model, event, data) {
  const [item, question] = model.asked.get(str(event.id)) || [];
  if (!item) return;
  question.answer = { decision: str(data.decision), message: str(data.message), by: str(data.by), t: num(event.t) };
  touch(model, item);
}

/* A refusal is told again with its count: that belongs to the row it has already. */
function takeRefused(model, event, data, key) {
  const what = JSON.stringify([model.turns.length, str(data.what), str(data.rule)]);
  const item = model.refused.get(what);
  if (item) touch(model, item).data = data;
  else model.refused.set(what, newItem(model, event, "refused", key, { data }));
}

const PARTS = ["cache_read", "cache_write", "input", "output"];

const TAKERS = new Map(
  Object.entries({
    "lifecycle.started": (model, event, data, key) => model.turns.push(newItem(model, event, "turn", key, { data })),
    "lifecycle.retry": (model, event, data, key) => newItem(model, event, "retry", key, { data }),
    "lifecycle.warning": (model, event, data, key) => newItem(model, event, "warning", key, { data }),
    "lifecycle.continued": (model, event, data, key) => newItem(model, event, "mend", key, { data, text: str(data.prompt) }),
    "lifecycle.finished": takeFinished,
    "lifecycle.delivered": (model, event, data, key) => newItem(model, event, "delivered", key, { data }),
    "setup.started": (model, event, data, key) => {
      model.settingUp = newItem(model, event, "setup", key, { data, domains: data.domains, text: "", done: false });
    },
    "setup.output": (model, event, data) => {
      const item = model.settingUp;
      if (item) touch(model, item).text += str(data.text);
    },
    "setup.ended": (model, event, data, key) => {
      const item = model.settingUp || newItem(model, event, "setup", key, { text: "" });
      Object.assign(touch(model, item), { data, ok: data.ok === true, done: true });
      model.settingUp = null;
    },
    "verify.started": (model, event, data, key) => {
      model.verifying = newItem(model, event, "verify", key, { data, what: str(data.what), text: "", done: false });
    },
    "verify.ended": (model, event, data, key) => {
      const item = model.verifying || newItem(model, event, "verify", key, { what: "" });
      Object.assign(touch(model, item), { data, text: str(data.output), ok: data.passed === true, done: true });
      model.verifying = null;
    },
    "gate.refused": takeRefused,
    "server.failed": (model, event, data, key) =>
      newItem(model, event, "warning", key, {
        data: { what: "The run goes on without the server '" + str(event.id) + "': " + str(data.error) + "\n" + str(data.stderr) },
      }),
    "server.changed": (model, event, data, key) =>
      newItem(model, event, "warning", key, {
        data: {
          what:
            "The server '" + str(event.id) + "' has new or changed tools, which need approval: " +
            (Array.isArray(data.tools) ? data.tools : []).map(str).join(", "),
        },
      }),
    "assistant.text": takeDelta,
    "assistant.thinking": takeDelta,
    "assistant.block": takeBlock,
    "tool.started": (model, event, data, key) => {
      const rows = Array.isArray(data.arguments) ? data.arguments : [];
      const item = newItem(model, event, "tool", key, {
        name: str(data.name),
        rows,
        progress: null,
        approvals: [],
        done: false,
      });
      model.tools.set(event.id, item);
    },
    "tool.progress": (model, event, data) => {
      const item = model.tools.get(event.id);
      if (item) touch(model, item).progress = data;
    },
    "tool.ended": takeToolEnd,
    "usage.call": takeCall,
    "approval.asked": takeAsked,
    "approval.answered": takeAnswered,
    "compaction.started": (model, event, data, key) => {
      model.compacting = newItem(model, event, "compaction", key, { data, done: false });
    },
    "compaction.ended": (model, event, data, key) => {
      const item = model.compacting || newItem(model, event, "compaction", key, {});
      Object.assign(touch(model, item), { data, done: true, ended: num(event.t) });
      model.compacting = null;
    },
  }),
);

function isProblem(item) {
  if (item.type === "tool") return item.done && !item.ok;
  if (item.type === "end") return !item.ok;
  if (item.type === "verify" || item.type === "setup") return item.done && !item.ok;
  if (item.type === "delivered") return !(Array.isArray(item.data.branches) && item.data.branches.length);
  return item.type === "retry" || item.type === "warning" || item.type === "refused" || item.type === "approval";
}

const SHOWN = ["prompt", "command", "model", "code", "message", "stop", "what", "why", "rule", "fix", "error", "status", "trigger"];

/* Everything in an item that a search should find, in lower case. */
function hay(item) {
  if (item.hay === null) {
    const parts = [item.name, item.what, item.text, item.result, ...(item.rows || []).flat()];
    if (item.data) parts.push(...SHOWN.map((name) => item.data[name]));
    for (const asked of item.approvals || []) parts.push(asked.reason, asked.answer && asked.answer.message);
    item.hay = parts.map(str).join("\n").toLowerCase();
  }
  return item.hay;
}

/* The items to show, in reading order: each below the call it was done for. */
function flat(model, wanted, filtered) {
  const shown = [];
  const stack = [...model.roots].reverse();
  while (stack.length) {
    const item = stack.pop();
    if (wanted(item)) shown.push(item);
    if (item.folded && !filtered) continue;
    for (let place = item.children.length - 1; place >= 0; place--) stack.push(item.children[place]);
  }
  return shown;
}
