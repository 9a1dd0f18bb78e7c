/* When the runs ran, side by side, and how quickly the model API was asked. */

const SVG = "http://www.w3.org/2000/svg";
const LEFT = 46,
  BOTTOM = 18,
  TOP = 8;
const MOST_BARS = 4000;

function svg(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, String(value));
  add(element, children);
  return element;
}

function showCharts(data) {
  const times = h("div.chart-box", {}),
    rate = h("div.chart-box", {});
  const hasTimes = data.tasks.some((task) => isNumber(task.began)),
    hasRate = data.rate.length > 0;
  at("charts").hidden = !hasTimes && !hasRate;
  fill(
    at("charts"),
    hasTimes ? h("figure.chart", {}, h("figcaption", {}, h("span", {}, "Runs, by when they ran")), times) : null,
    hasRate ? h("figure.chart", {}, h("figcaption", {}, h("span", {}, "Requests a second that the batch allowed itself"), h("span", {}, rateWords(data.rate))), rate) : null,
  );
  if (hasTimes) drawTimes(times, data);
  if (hasRate) drawRate(rate, data);
}

/* Each run in the first lane that is free when it begins. */
function lanesOf(data) {
  const runs = data.tasks
    .filter((task) => isNumber(task.began))
    .map((task) => ({ task, from: task.began, to: task.began + lengthOf(task, data) }))
    .sort((one, other) => one.from - other.from)
    .slice(0, MOST_BARS);
  const free = [];
  for (const run of runs) {
    let lane = free.findIndex((end) => end <= run.from);
    if (lane < 0) lane = free.length;
    free[lane] = run.to;
    run.lane = lane;
  }
  return { runs, lanes: free.length };
}

function drawTimes(box, data) {
  const width = Math.max(240, box.clientWidth);
  const { runs, lanes } = lanesOf(data);
  const tall = Math.max(3, Math.min(14, Math.floor(260 / lanes))),
    base = TOP + lanes * tall;
  const from = Math.min(...runs.map((run) => run.from)),
    to = Math.max(...runs.map((run) => run.to), from + 1);
  const scale = (width - 8) / (to - from);
  const picture = svg("svg", { width, height: base + BOTTOM, role: "img", "aria-label": "When " + many(runs.length, "run") + " ran" });
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    const x = 4 + share * (width - 8);
    picture.append(svg("line", { x1: x, x2: x, y1: TOP, y2: base, class: "grid" }));
    const anchor = share === 0 ? "start" : share === 1 ? "end" : "middle";
    if (width > 480 || share === 0 || share === 1)
      picture.append(svg("text", { x, y: base + 14, class: "tick", "text-anchor": anchor }, share ? duration(share * (to - from) * 1000) : moment(from)));
  }
  for (const run of runs) {
    const bar = svg("rect", {
      x: 4 + (run.from - from) * scale,
      y: TOP + run.lane * tall,
      width: Math.max(1.5, (run.to - run.from) * scale - 1),
      height: Math.max(2, tall - 2),
      rx: Math.min(3, tall / 3),
      class: "run-bar " + toneOf(run.task),
    });
    const words = [run.task.task + ": " + run.task.state, duration((run.to - run.from) * 1000), run.task.machine].filter(Boolean);
    bar.append(svg("title", {}, plain(words.join("\n"))));
    picture.append(bar);
  }
  fill(box, picture);
}

function rateWords(history) {
  const lowered = history.filter((one) => one.why === "lowered").length;
  return lowered ? "lowered " + many(lowered, "time") + " after the API refused" : "the API refused nothing";
}

function drawRate(box, data) {
  const width = Math.max(240, box.clientWidth),
    height = 130,
    base = height - BOTTOM;
  const points = data.rate.filter((one) => isNumber(one.at)).sort((one, other) => one.at - other.at);
  if (!points.length) return;
  const from = points[0].at,
    to = Math.max(points.at(-1).at, lastMoment(data), from + 1);
  const top = Math.max(1, ...points.map((one) => num(one.base)));
  const x = (at) => LEFT + ((at - from) / (to - from)) * (width - LEFT - 6),
    y = (rate) => base - (rate / top) * (base - TOP);
  const picture = svg("svg", { width, height, role: "img", "aria-label": "Requests a second over time" });
  for (const share of [0, 0.5, 1]) {
    const line = y(share * top) + 0.5;
    picture.append(svg("line", { x1: LEFT, x2: width, y1: line, y2: line, class: share ? "grid" : "axis" }));
    picture.append(svg("text", { x: LEFT - 8, y: line + 3.5, class: "tick", "text-anchor": "end" }, (share * top).toFixed(top < 10 ? 1 : 0)));
  }
  let path = "";
  points.forEach((one, place) => {
    const until = place + 1 < points.length ? points[place + 1].at : to;
    path += (place ? "L" : "M") + x(one.at).toFixed(1) + " " + y(num(one.base)).toFixed(1) + "H" + x(until).toFixed(1);
  });
  picture.append(svg("path", { d: path, class: "rate-line" }));
  for (const one of points.filter((point) => point.why === "lowered")) {
    const mark = svg("circle", { cx: x(one.at), cy: y(num(one.base)), r: 3, class: "rate-stop" });
    const wait = isNumber(one.retry_after) ? ", asked to wait " + duration(one.retry_after * 1000) : "";
    mark.append(svg("title", {}, plain("answered " + str(one.status ?? "?") + wait)));
    picture.append(mark);
  }
  picture.append(svg("text", { x: LEFT, y: height - 4, class: "tick" }, moment(from)));
  picture.append(svg("text", { x: width - 4, y: height - 4, class: "tick", "text-anchor": "end" }, duration((to - from) * 1000)));
  fill(box, picture);
}
