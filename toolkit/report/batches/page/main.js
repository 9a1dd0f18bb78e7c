/* Put the page together. */

function start() {
  const data = JSON.parse(at("data").textContent);
  const state = { data, group: "all", query: "", order: "", most: STEP };
  setUpTheme();
  showTop(data);
  showFailures(data);
  showCharts(data);
  showGroups(state);
  showTasks(state);
  const search = at("search"),
    order = at("order");
  search.addEventListener("input", () => ((state.query = search.value), (state.most = STEP), showTasks(state)));
  fill(order, ORDERS.map(([name, word]) => h("option", { value: name }, word)));
  order.addEventListener("change", () => ((state.order = order.value), showTasks(state)));
  let width = innerWidth;
  addEventListener("resize", () => innerWidth !== width && ((width = innerWidth), showCharts(data)));
  addEventListener("keydown", (event) => {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName);
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/") {
      event.preventDefault();
      search.focus();
    } else if (event.key === "t") switchTheme();
  });
  fill(at("footer"), "As it was on " + moment(data.at) + ". Costs are what the CLI counts; what is not known is not counted as nothing.");
  document.documentElement.dataset.ready = "yes";
}

start();
