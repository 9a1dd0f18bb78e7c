/* What a model writes, as people read it: paragraphs, lists, headings, code. Links stay text: nothing leads out. */

function prose(text) {
  const box = h("div.prose", {});
  const lines = str(text).replace(/\r\n/g, "\n").split("\n");
  for (let place = 0; place < lines.length;) place = proseBlock(box, lines, place);
  return box;
}

function proseBlock(box, lines, place) {
  const line = lines[place];
  const fence = /^\s*(```+|~~~+)\s*([\w+#.-]*)/.exec(line);
  if (fence) return proseFence(box, lines, place, fence);
  if (!line.trim()) return place + 1;
  const heading = /^(#{1,6})\s+(.*)$/.exec(line);
  if (heading) {
    box.append(h("p.heading", {}, inline(heading[2])));
    return place + 1;
  }
  if (BULLET.test(line)) return proseList(box, lines, place);
  let end = place + 1;
  while (
    end < lines.length &&
    lines[end].trim() &&
    !/^\s*(```|~~~|#{1,6}\s)/.test(lines[end]) &&
    !BULLET.test(lines[end])
  )
    end++;
  box.append(h("p", {}, inline(lines.slice(place, end).join("\n"))));
  return end;
}

const BULLET = /^(\s*)([-*+]|\d{1,3}[.)])\s+(.*)$/;

function proseList(box, lines, place) {
  const list = h("ul.list", {});
  for (let found = BULLET.exec(lines[place] ?? ""); found; found = BULLET.exec(lines[++place] ?? "")) {
    const numbered = /\d/.test(found[2]);
    const entry = h("li", {}, h("span.mark", {}, numbered ? found[2] : "•"), h("span", {}, inline(found[3])));
    entry.style.marginLeft = Math.min(found[1].length, 12) * 0.6 + "em";
    list.append(entry);
  }
  box.append(list);
  return place;
}

function proseFence(box, lines, place, fence) {
  let end = place + 1;
  while (end < lines.length && !lines[end].trim().startsWith(fence[1])) end++;
  box.append(h("pre.code", {}, coloured(lines.slice(place + 1, end).join("\n"), languageCalled(fence[2]))));
  return end + 1;
}

function inline(text) {
  const nodes = [];
  const marks = /`([^`\n]+)`|\*\*([^*\n]+)\*\*/g;
  let from = 0;
  for (let found = marks.exec(text); found; found = marks.exec(text)) {
    nodes.push(...content(text.slice(from, found.index)));
    nodes.push(found[1] !== undefined ? h("code", {}, found[1]) : h("strong", {}, found[2]));
    from = found.index + found[0].length;
  }
  nodes.push(...content(text.slice(from)));
  return nodes;
}
