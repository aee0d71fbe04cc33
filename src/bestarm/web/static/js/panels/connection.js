// The bar that says when what is shown may be out of date.

import { announce, h, replace } from "../library/dom.js";
import { time } from "../library/words.js";

/** Show the state of a connection; `retry` is called when the user does not want to wait. */
export function connectionBar(retry) {
  const bar = document.getElementById("connection");
  const count = h("span", {});
  let lostAt = null;
  let retryAt = 0;
  let ticking = 0;

  function tick() {
    const left = Math.max(0, Math.ceil((retryAt - Date.now()) / 1000));
    count.textContent = left > 0 ? `Trying again in ${left} s.` : "Trying again …";
  }

  return (state) => {
    if (state.connected) {
      if (lostAt !== null) announce("Connected again");
      lostAt = null;
      clearInterval(ticking);
      bar.hidden = true;
      return;
    }
    retryAt = state.retryAt;
    if (lostAt === null) {
      lostAt = Date.now() / 1000;
      replace(bar,
        h("strong", {}, "Connection lost."), ` What you see is as of ${time(lostAt)}. `, count, " ",
        h("button", { class: "small", onclick: retry }, "Try now"));
      bar.hidden = false;
      announce("Connection lost. Trying again by itself.", { show: false });
      ticking = setInterval(tick, 1000);
    }
    tick();
  };
}
