/* While the run goes on: its events as they come, and its end. */

function follow(state) {
  const source = new EventSource("events");
  let waiting = 0;
  const soon = () => {
    waiting =
      waiting ||
      setTimeout(() => {
        waiting = 0;
        const stays = isAtEnd();
        refresh(state);
        if (stays) scrollTo(0, document.body.scrollHeight);
      }, 120);
  };
  const ticking = setInterval(() => showHeader(state), 1000);
  source.addEventListener("open", () => {
    state.model = newModel();
    state.data.live = true;
  }); // it tells all from the start
  source.addEventListener("event", (event) => {
    take(state.model, JSON.parse(event.data));
    soon();
  });
  source.addEventListener("end", (event) => {
    source.close();
    clearInterval(ticking);
    const told = JSON.parse(event.data);
    Object.assign(
      state.data,
      told.error ? { state: "crashed", result: { ok: false, code: "unreadable", message: told.error } } : told,
    );
    soon();
  });
  source.addEventListener("error", () => {
    state.data.live = false;
    soon();
  });
}

/* Whoever reads the end of the timeline wants to see what comes next. */
function isAtEnd() {
  return scrollY > 0 && innerHeight + scrollY >= document.body.scrollHeight - 60;
}
