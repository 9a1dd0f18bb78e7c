/* Light or dark, as the reader chose last. */

function setUpTheme() {
  let kept = null;
  try {
    kept = localStorage.getItem("toolkit-report-theme");
  } catch {
    /* a page from disk may have no storage */
  }
  if (kept === "dark" || kept === "light") document.documentElement.dataset.theme = kept;
  at("theme").addEventListener("click", switchTheme);
}

function switchTheme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  try {
    localStorage.setItem("toolkit-report-theme", root.dataset.theme);
  } catch {
    /* then it is not remembered */
  }
}
