/* What runs wait to be told: whether a call may run, or a form that a tool asks with. */

function questionBox(row, question) {
  const place = h("p.said", {});
  const answer = (choice, more) => async () => {
    await act(row.id, "answer", { id: question.id, choice, ...more });
    return "answered";
  };
  const remembers = (question.suggestions || []).includes("ALLOW_SESSION");
  const about = question.form ? str(question.reason) : typeof question.input === "object" ? JSON.stringify(question.input, null, 1) : str(question.input);
  const fields = question.form ? formFields(question) : null;
  const send = async () => answer("allow", fields ? { fields: fields.typed() } : {})();
  return h(
    "div.question",
    { "data-question": question.id },
    h("p", {}, h("b", {}, named(question.tool)), question.form ? " asks:" : " " + withoutName(str(question.reason), str(question.tool))),
    h("p.path", {}, named(row.title || row.id)),
    question.form ? h("p.asks", {}, named(about)) : h("pre", {}, about),
    fields ? fields.boxes : null,
    remembers ? h("p.muted", {}, "“For the session” and “For the project” allow, from now on: " + str(question.remembers)) : null,
    h(
      "div.buttons",
      {},
      doing(question.form ? "Send the answer" : "Allow once", place, send, "main"),
      remembers ? [doing("For the session", place, answer("session")), doing("For the project", place, answer("project"))] : null,
      doing(question.form ? "Refuse to answer" : "Deny", place, answer("deny"), "danger"),
      doing(question.form ? "Refuse and stop" : "Deny and stop", place, answer("deny", { stop: true }), "danger"),
    ),
    place,
  );
}

/* A reason often begins with the name that stands before it already. */
function withoutName(reason, name) {
  return reason.startsWith(name + " ") ? reason.slice(name.length + 1) : reason;
}

/* A box for each field of a form, and what was typed into them; a field that was left empty has its default. */
function formFields(question) {
  const inputs = Object.entries(question.form.properties || {}).map(([name, field]) => {
    const input = fieldInput(field);
    input.element.setAttribute("aria-label", name);
    return { name, field, ...input };
  });
  return {
    boxes: inputs.map(({ name, field, element }) =>
      h("label.field", {}, h("span", {}, named(str(field.title) || name), field.description ? h("span.muted", {}, " ", named(field.description)) : null), element),
    ),
    typed: () => Object.fromEntries(inputs.map(({ name, value }) => [name, value()]).filter(([, text]) => text !== null)),
  };
}

function choicesOf(field) {
  const inner = field.items || field;
  if (Array.isArray(inner.enum)) return inner.enum.map((value, place) => [str(value), str((inner.enumNames || [])[place] ?? value)]);
  return (inner.oneOf || inner.anyOf || []).map((one) => [str(one.const), str(one.title ?? one.const)]);
}

function fieldInput(field) {
  const choices = field.type === "boolean" ? [["yes", "yes"], ["no", "no"]] : choicesOf(field);
  const is = (value) => (field.type === "boolean" ? (field.default === true ? "yes" : field.default === false ? "no" : null) === value : [].concat(field.default ?? []).map(str).includes(value));
  if (choices.length) {
    const several = field.type === "array";
    const options = choices.map(([value, title]) => h("option", { value, selected: is(value) }, title));
    const empty = several || field.default !== undefined ? null : h("option", { value: "" }, "…");
    const element = h("select", several ? { multiple: true } : {}, empty, options);
    return { element, value: () => (several ? [...element.selectedOptions].map((one) => one.value).join(",") : element.value || null) };
  }
  const kind = field.type === "integer" || field.type === "number" ? "number" : field.format === "date" ? "date" : field.format === "email" ? "email" : "text";
  const element = h("input", { type: kind, step: "any", spellcheck: false, autocomplete: "off" });
  element.value = str(field.default ?? "");
  return { element, value: () => (element.value === "" && (kind !== "text" || field.default !== undefined) ? null : element.value) };
}

function showWaiting(state) {
  const box = at("waiting");
  const waiting = [...state.rows.values()].flatMap((row) => row.questions.map((question) => [row, question]));
  const key = waiting.map(([row, question]) => row.id + "/" + question.id).join(" ");
  if (state.live && key === state.waitingKey) return;
  state.waitingKey = key;
  box.hidden = !waiting.length;
  // What somebody has typed into a box stays there, whatever other questions come and go.
  const kept = state.boxes || new Map();
  state.boxes = new Map();
  for (const [row, question] of waiting) {
    const name = row.id + "/" + question.id;
    state.boxes.set(name, kept.get(name) || questionBox(row, question));
  }
  fill(box, state.live ? [...state.boxes.values()] : null);
}
