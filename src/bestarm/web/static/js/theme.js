// Runs before the page is painted, so that a chosen theme does not flash in the other one's colors.
(() => {
  let chosen = "auto";
  try {
    chosen = localStorage.getItem("bestarm.theme") || "auto";
  } catch {
    // Storage may be switched off; the system's choice holds then.
  }
  document.documentElement.dataset.theme = chosen;
})();
