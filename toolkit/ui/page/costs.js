/* What runs cost: today, this week, and each of the last days as a bar. */

const PARTS = ["cache_read", "cache_write", "input", "output"];
const SVG = "http://www.w3.org/2000/svg";
const DAYS = 14;
const CHART = { height: 132, left: 52, bottom: 18, top: 10 };

function svg(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, String(value));
  add(element, children);
  return element;
}

function startOfDay(seconds) {
  const day = new Date(seconds * 1000);
  day.setHours(0, 0, 0, 0);
  return day;
}

/* The known cost of some runs, and whether that is all of it. */
function sumOf(rows) {
  let known = 0,
    isWhole = true;
  for (const row of rows) {
    known += knownCost(row);
    if (row.state !== "running" && row.state !== "damaged" && !isNumber(row.cost)) isWhole = false;
  }
  return { known, isWhole };
}

function costsByDay(rows) {
  const first = startOfDay(Date.now() / 1000);
  first.setDate(first.getDate() - DAYS + 1);
  const days = [];
  for (let number = 0; number < DAYS; number++) {
    const day = new Date(first);
    day.setDate(first.getDate() + number);
    days.push({ day, rows: [] });
  }
  for (const row of rows) {
    const place = days.findLastIndex((one) => num(row.began) * 1000 >= one.day.getTime());
    if (place >= 0) days[place].rows.push(row);
  }
  return days;
}

function showCosts(state) {
  const rows = [...state.rows.values()];
  const days = costsByDay(rows);
  const today = days.at(-1).rows,
    week = days.slice(-7).flatMap((one) => one.rows);
  const words = (some) => (some.length ? costWords(sumOf(some).known, sumOf(some).isWhole) : money(0));
  const numbers = [
    ["Today", words(today)],
    ["Last 7 days", words(week)],
    ["Runs today", full(today.length)],
    ["Tokens, 7 days", short(week.reduce((sum, row) => sum + num(row.tokens), 0))],
  ];
  const box = h("div.chart-box", {});
  fill(
    at("costs"),
    h(
      "dl.numbers",
      {},
      numbers.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))),
    ),
    h("figure.chart", {}, h("figcaption", {}, h("span", {}, "Cost a day")), box),
  );
  drawDays(box, days);
}

function drawDays(box, days) {
  const width = Math.max(240, box.clientWidth);
  const base = CHART.height - CHART.bottom,
    tall = base - CHART.top,
    room = width - CHART.left - 4;
  const sums = days.map((one) => sumOf(one.rows).known);
  const top = Math.max(0.01, ...sums);
  const picture = svg("svg", { width, height: CHART.height, role: "img", "aria-label": "Cost of each day" });
  for (const share of [0, 0.5, 1]) {
    const y = base - share * tall + 0.5;
    picture.append(svg("line", { x1: CHART.left, x2: width, y1: y, y2: y, class: share ? "grid" : "axis" }));
    const label = { x: CHART.left - 8, y: y + 3.5, class: "tick", "text-anchor": "end" };
    picture.append(svg("text", label, "$" + (share * top).toFixed(top < 1 ? 3 : 2)));
  }
  const step = room / days.length,
    wide = Math.max(4, step * 0.6);
  days.forEach((one, place) => {
    const x = CHART.left + place * step + (step - wide) / 2;
    const high = (sums[place] / top) * tall;
    const name = one.day.toLocaleDateString([], { month: "short", day: "numeric" });
    const isToday = place === days.length - 1;
    const bar = svg("rect", {
      x,
      y: base - high,
      width: wide,
      height: Math.max(high, one.rows.length ? 1 : 0),
      class: "cost-bar" + (isToday ? " today" : ""),
    });
    bar.append(svg("title", {}, name + "\n" + many(one.rows.length, "run") + ", " + money(sums[place])));
    picture.append(bar);
    if (isToday || place === 0 || place === 7)
      picture.append(
        svg("text", { x: isToday ? x + wide : x + wide / 2, y: CHART.height - 4, class: "tick", "text-anchor": isToday ? "end" : "middle" }, name),
      );
  });
  fill(box, picture);
}
