/* The launcher's own part of a run: its setup, its verifications, and the branch it made. */

function setupRow(item, state, redraw) {
  const { data } = item;
  const tone = !item.done ? ["under way", "live"] : !item.ok ? ["failed", "bad"] : [data.made ? "done" : "not needed", "good"];
  const domains = Array.isArray(item.domains) ? item.domains : [];
  const places = (Array.isArray(data.places) ? data.places : []).map(str).join(", ");
  const facts = [
    item.done && num(data.ms) && duration(num(data.ms)),
    "layer " + str(data.key).slice(0, 12),
    item.done && item.ok && places && places + ", " + bytes(num(data.bytes)),
    domains.length && "reached " + domains.map(str).join(", "),
  ].filter(Boolean);
  return [
    label("Setup", chip(...tone), h("span.aside", {}, facts.join("  ·  "))),
    h("p", {}, str(data.command)),
    item.done && !item.ok ? h("p", {}, str(data.why)) : null,
    item.text ? clipped(item, "s", item.text, state, redraw, (text) => h("pre", {}, text)) : null,
  ];
}

function verifyRow(item, state, redraw) {
  const { data } = item;
  const how = data.error
    ? str(data.error)
    : data.ended_by
      ? "ended: " + str(data.ended_by)
      : isNumber(data.exit_code)
        ? "exit code " + data.exit_code
        : "";
  const facts = ["attempt " + str(data.attempt), how, item.done && duration(num(data.ms))].filter(Boolean).join("  ·  ");
  const word = item.done ? chip(item.ok ? "verified" : "not verified", item.ok ? "good" : "bad") : chip("verifying", "live");
  return [
    label("Verification", word, h("span.aside", {}, facts)),
    item.what ? h("p", {}, item.what) : null,
    item.text ? clipped(item, "v", item.text, state, redraw, (text) => h("pre", {}, text)) : null,
  ];
}

function deliveredRow({ data }) {
  const branches = (Array.isArray(data.branches) ? data.branches : []).filter((one) => one && typeof one === "object");
  if (!branches.length) return [label("No branch"), h("p", {}, str(data.why))];
  return [
    label("Branch"),
    branches.map((one) =>
      h(
        "p",
        {},
        h("code", {}, str(one.name)),
        "  " + many(num(one.commits), "commit") + (one.onto ? " on " + str(one.onto).slice(0, 7) : "") + "  in " + str(one.repository),
      ),
    ),
  ];
}
