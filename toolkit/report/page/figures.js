/* Numbers as people say them, and the figures of the run. */

function duration(ms) {
  if (ms < 1000) return Math.round(ms) + " ms";
  const seconds = ms / 1000;
  if (seconds < 60) return seconds.toFixed(1) + " s";
  if (seconds < 3600) return Math.floor(seconds / 60) + " m " + Math.floor(seconds % 60) + " s";
  return Math.floor(seconds / 3600) + " h " + Math.floor((seconds % 3600) / 60) + " m";
}

function since(seconds) {
  if (seconds < 0) return "";
  if (seconds < 60) return "+" + seconds.toFixed(1) + " s";
  const whole = Math.floor(seconds);
  const tail =
    String(Math.floor(whole / 60) % 60).padStart(whole >= 3600 ? 2 : 1, "0") +
    ":" +
    String(whole % 60).padStart(2, "0");
  return "+" + (whole >= 3600 ? Math.floor(whole / 3600) + ":" : "") + tail;
}

function short(count) {
  if (count < 1000) return String(count);
  if (count < 9950) return (count / 1000).toFixed(1) + "k";
  if (count < 999500) return Math.round(count / 1000) + "k";
  return (count / 1e6).toFixed(count < 9.95e6 ? 2 : 1) + "M";
}

function full(count) {
  return num(count).toLocaleString("en");
}

function money(usd) {
  return "$" + (usd >= 100 ? usd.toFixed(0) : usd >= 1 ? usd.toFixed(2) : usd.toFixed(4));
}

/* What a result or the end of a turn says of its cost: all of it, or the part that is known. */
function knownCost(end) {
  return num(isNumber(end.known_cost) ? end.known_cost : end.cost);
}

function costWords(known, isWhole) {
  return isWhole ? money(known) : known ? "at least " + money(known) : "unknown";
}

function bytes(count) {
  if (count < 1024) return full(count) + " bytes";
  const units = ["KiB", "MiB", "GiB", "TiB"];
  let value = count / 1024,
    unit = 0;
  while (value >= 1024 && unit < 3) {
    value /= 1024;
    unit++;
  }
  return (value < 10 ? value.toFixed(1) : Math.round(value)) + " " + units[unit];
}

function moment(seconds) {
  if (!num(seconds)) return "";
  return new Date(seconds * 1000).toLocaleString([], { dateStyle: "medium", timeStyle: "medium" });
}

function many(count, one, more) {
  return full(count) + " " + (count === 1 ? one : more || one + "s");
}

function totalOf(tokens) {
  return PARTS.reduce((sum, name) => sum + num(tokens && tokens[name]), 0);
}

/* The figures of the run: as its result has them, else what the events tell so far. */
function figures(state) {
  const { model, data } = state;
  const result = data.result;
  const tokens = { input: 0, output: 0, cache_read: 0, cache_write: 0 };
  if (result) for (const name of PARTS) tokens[name] = num(result.total && result.total[name]);
  else for (const call of model.calls) for (const name of PARTS) tokens[name] += call[name];
  const began = model.began ?? num(data.facts.began);
  const running = data.state === "running";
  const now = running && data.live ? Date.now() / 1000 : Math.max(model.last ?? began, began);
  return {
    tokens,
    total: totalOf(tokens),
    cost: result ? knownCost(result) : model.ends.length ? model.cost : null,
    costIsWhole: result ? isNumber(result.cost) : model.costIsWhole,
    ms: result && num(result.ms) ? num(result.ms) : Math.max(0, now - began) * 1000,
    calls: result && Array.isArray(result.calls) && result.calls.length ? result.calls.length : model.calls.length,
    tools: model.tools.size,
    denied: model.denied,
    failed: model.failed,
    turns: model.turns.length,
  };
}

/* The word and the sentence for how the run stands. */
function verdict(state) {
  const { data } = state;
  if (data.state === "running")
    return {
      code: "running",
      tone: "live",
      sentence: data.live
        ? "The run is under way."
        : data.followed
          ? "The connection to the run was lost."
          : "The run was under way when this page was made.",
    };
  const result = data.result || {};
  const tone =
    result.ok === true
      ? "good"
      : ["deadline", "budget", "turn_limit", "pending", "stopped", "aborted"].includes(result.code)
        ? "warn"
        : "bad";
  return { code: str(result.code) || data.state, tone, sentence: str(result.message), cause: str(result.cause) };
}
