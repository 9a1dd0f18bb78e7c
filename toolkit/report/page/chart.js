/* Tokens of every model call as stacked bars. A click on a bar goes to what was said in it. */

const PART_WORDS = { cache_read: "read from cache", cache_write: "written to cache", input: "input", output: "output" };
const SVG = "http://www.w3.org/2000/svg";
const CHART = { height: 148, left: 44, bottom: 18, top: 10 };

function svg(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, String(value));
  add(element, children);
  return element;
}

/* At most so many bars: neighbours are drawn as one, as high as the highest of them. */
function barsOf(calls, most) {
  const size = Math.max(1, Math.ceil(calls.length / most));
  const bars = [];
  for (let from = 0; from < calls.length; from += size) {
    const group = calls.slice(from, from + size);
    const call = group.reduce((high, next) => (totalOf(next) > totalOf(high) ? next : high));
    bars.push({ call, from, to: from + group.length });
  }
  return bars;
}

function niceTop(value) {
  const unit = 10 ** Math.floor(Math.log10(Math.max(value, 1)));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].map((step) => step * unit).find((top) => top >= value);
}

function drawChart(box, calls, jump) {
  const width = Math.max(240, box.clientWidth);
  const room = width - CHART.left - 4,
    base = CHART.height - CHART.bottom,
    tall = base - CHART.top;
  const bars = barsOf(calls, Math.floor(room / 4));
  const top = niceTop(Math.max(1, ...bars.map((bar) => totalOf(bar.call))));
  const picture = svg("svg", {
    width,
    height: CHART.height,
    role: "img",
    "aria-label": "Tokens of " + many(calls.length, "model call"),
  });
  for (const share of [0, 0.5, 1]) {
    const y = base - share * tall + 0.5;
    picture.append(svg("line", { x1: CHART.left, x2: width, y1: y, y2: y, class: share ? "grid" : "axis" }));
    picture.append(
      svg("text", { x: CHART.left - 8, y: y + 3.5, class: "tick", "text-anchor": "end" }, short(share * top)),
    );
  }
  const step = Math.min(150, (room - 6) / Math.max(1, bars.length)),
    wide = Math.max(2, Math.min(34, step * 0.66));
  bars.forEach((bar, place) =>
    picture.append(drawBar(bar, CHART.left + 6 + place * step, wide, base, tall / top, jump)),
  );
  const last = CHART.left + 6 + (bars.length - 1) * step + wide / 2;
  picture.append(
    svg("text", { x: CHART.left + 6 + wide / 2, y: CHART.height - 4, class: "tick", "text-anchor": "middle" }, "1"),
  );
  if (bars.length > 1)
    picture.append(
      svg("text", { x: last, y: CHART.height - 4, class: "tick", "text-anchor": "middle" }, full(calls.length)),
    );
  fill(box, picture);
}

function drawBar(bar, x, wide, base, scale, jump) {
  const { call } = bar;
  const words = PARTS.filter((name) => call[name]).map((name) => full(call[name]) + " " + PART_WORDS[name]);
  const which = bar.to - bar.from > 1 ? "Calls " + (bar.from + 1) + "–" + bar.to + ", the largest" : "Call " + bar.to;
  const group = svg(
    "g",
    { class: "bar-group" },
    svg("title", {}, which + "\n" + words.join("\n") + (call.model ? "\n" + call.model : "")),
  );
  group.append(svg("rect", { x: x - 2, y: CHART.top, width: wide + 4, height: base - CHART.top, class: "hit" }));
  let y = base;
  for (const name of PARTS) {
    const tall = call[name] * scale;
    if (tall <= 0) continue;
    y -= tall;
    group.append(svg("rect", { x, y, width: wide, height: Math.max(tall, 0.5), class: "part " + name }));
  }
  group.addEventListener("click", () => jump(call));
  return group;
}

function chartLegend(tokens) {
  return h(
    "div.legend",
    {},
    PARTS.filter((name) => tokens[name]).map((name) =>
      h("span.legend-part", {}, h("i.swatch." + name), PART_WORDS[name] + " ", h("b", {}, short(tokens[name]))),
    ),
  );
}
