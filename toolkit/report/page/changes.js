/* What changed in the workspace, file by file, with colour. */

const SLAB = 150;

function showChanges(state, panel) {
  const { changes, run } = state.data;
  fill(panel);
  if (!changes) return void panel.append(h("p.empty", {}, "The changes are shown when the run has ended."));
  const files = Array.isArray(changes.files) ? changes.files : [];
  if (changes.note) panel.append(h("p.empty", {}, str(changes.note)));
  else if (!files.length) panel.append(h("p.empty", {}, "The agent changed nothing."));
  const ignored = changes.ignored ? h("p.take", {}, exact(str(changes.ignored))) : null;
  if (!files.length) return void (ignored && panel.append(ignored));
  const boxes = files.map((file) => fileBox(file));
  const list = h(
    "div.file-list",
    {},
    boxes.map(({ file, box, counts }) =>
      h(
        "button.file-line",
        {
          type: "button",
          click: () => {
            box.open = true;
            box.scrollIntoView({ block: "start" });
          },
        },
        kindMark(file),
        h("span.path", {}, named(file.agent_path || file.path)),
        suspicion(file),
        countMarks(counts),
      ),
    ),
  );
  const apply = changes.note
    ? null
    : h("p.take", {}, "To take them back: ", h("code", {}, "toolkit runs apply " + run));
  add(panel, [h("h2", {}, many(files.length, "change")), list, ignored, apply, boxes.map(({ box }) => box)]);
}

function kindMark(file) {
  return h(
    "span.kind." + (["added", "deleted", "modified", "renamed"].includes(file.kind) ? file.kind : "other"),
    {},
    str(file.kind),
  );
}

function suspicion(file) {
  const reasons = Array.isArray(file.suspicious) ? file.suspicious : [];
  return reasons.length ? h("span.chip.warn", { title: reasons.map(str).join("\n") }, "look twice") : null;
}

function countMarks({ plus, minus }) {
  return h(
    "span.counts",
    {},
    plus ? h("span.plus", {}, "+" + full(plus)) : null,
    minus ? h("span.minus", {}, "−" + full(minus)) : null,
  );
}

function fileBox(file) {
  const lines = diffLines(str(file.patch));
  const counts = { plus: 0, minus: 0 };
  for (const line of lines) {
    if (line.sign === "+") counts.plus++;
    else if (line.sign === "-") counts.minus++;
  }
  const facts = [
    file.type !== "file" && str(file.type),
    file.old_mode && file.mode && file.old_mode !== file.mode && str(file.old_mode) + " → " + str(file.mode),
    file.target && "→ " + str(file.target).replaceAll("\n", "␊"),
    file.binary &&
      [file.old_size, file.size]
        .filter((size) => size !== undefined && size !== null)
        .map((size) => bytes(num(size)))
        .join(" → "),
  ]
    .filter(Boolean)
    .join("  ·  ");
  const was = file.agent_old_path || file.old_path;
  const head = h(
    "summary",
    {},
    kindMark(file),
    h("span.path", {}, was ? [named(was), " → "] : null, named(file.agent_path || file.path)),
    h("span.aside", {}, facts),
    suspicion(file),
    countMarks(counts),
  );
  const box = h("details.file", {}, head);
  const reasons = (Array.isArray(file.suspicious) ? file.suspicious : []).map((reason) =>
    h("p.note.warn", {}, "Look twice: " + str(reason)),
  );
  const draw = () => {
    if (box.open && !box.drawn) {
      box.drawn = true;
      box.append(...reasons, diffBody(file, lines));
    }
  };
  box.addEventListener("toggle", draw);
  box.open = lines.length <= 400;
  draw();
  return { file, box, counts };
}

/* The lines of a patch: sign, text and both line numbers. How many there are is counted, not guessed. */
function diffLines(patch) {
  const lines = [];
  let old = 0,
    now = 0,
    oldLeft = 0,
    newLeft = 0;
  for (const text of patch.split("\n")) {
    if (oldLeft <= 0 && newLeft <= 0) {
      const head = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@(.*)$/s.exec(text);
      if (head) {
        [old, now] = [Number(head[1]), Number(head[3])];
        [oldLeft, newLeft] = [Number(head[2] ?? 1), Number(head[4] ?? 1)];
        lines.push({ sign: "@", text: head[5].trim(), from: now });
        continue;
      }
    }
    const sign = text[0],
      rest = text.slice(1);
    if (sign === "\\") lines.push({ sign: "\\", text: "no newline at the end" });
    else if (sign === "+") {
      lines.push({ sign, text: rest, now: now++ });
      newLeft--;
    } else if (sign === "-") {
      lines.push({ sign, text: rest, old: old++ });
      oldLeft--;
    } else if (sign === " ") {
      lines.push({ sign, text: rest, old: old++, now: now++ });
      oldLeft--;
      newLeft--;
    }
  }
  return lines;
}

function diffBody(file, lines) {
  if (!lines.length)
    return h(
      "p.nothing",
      {},
      file.why ? "Not shown: " + str(file.why) + "." : file.type === "folder" ? "A folder." : "No line differs.",
    );
  const body = h("div.diff", { role: "table", "aria-label": "Changed lines" });
  const language = languageOf(file.path);
  const open = { old: null, now: null };
  for (let from = 0; from < lines.length; from += SLAB) {
    const part = lines.slice(from, from + SLAB);
    const slab = h(
      "div.slab",
      {},
      part.map((line) => diffLine(line, language, open)),
    );
    slab.style.containIntrinsicSize = "auto " + part.length * 20 + "px";
    body.append(slab);
  }
  return body;
}

const SIGN_CLASS = { "+": "plus", "-": "minus", "@": "hunk", "\\": "hunk", " ": "same" };

function diffLine(line, language, open) {
  if (line.sign === "@") open.old = open.now = null;
  if (line.sign === "@" || line.sign === "\\") {
    const words = line.sign === "@" ? "line " + full(line.from) + (line.text ? "  ·  " + line.text : "") : line.text;
    return h("div.diff-line.hunk", {}, h("span.numbers", {}), h("span.text", {}, exact(words)));
  }
  const [pieces, still] = colourLine(line.text, language, line.sign === "-" ? open.old : open.now);
  if (line.sign !== "+") open.old = still;
  if (line.sign !== "-") open.now = still;
  return h(
    "div.diff-line." + SIGN_CLASS[line.sign],
    {},
    h("span.numbers", {}, h("i", {}, String(line.old ?? "")), h("i", {}, String(line.now ?? ""))),
    h("span.sign", {}, line.sign === "-" ? "−" : line.sign),
    h("span.text", {}, pieceNodes(pieces)),
  );
}
