// Whether a button of the mouse, or a finger, is down. A control that moves or is made anew between press and release does
// nothing, so what comes from the service meanwhile is shown after the release.

let isDown = false;
let waiting = [];
let ending = 0;

function release() {
  // The click follows the release.
  ending = setTimeout(() => {
    isDown = false;
    const resolved = waiting;
    waiting = [];
    for (const go of resolved) go();
  });
}

addEventListener("pointerdown", () => {
  // The second press of a double click may come before the first has ended.
  clearTimeout(ending);
  isDown = true;
}, true);
for (const end of ["pointerup", "pointercancel", "blur"]) addEventListener(end, release, true);
// A release outside of the window may go unnoticed.
addEventListener("pointermove", (event) => { if (isDown && event.buttons === 0) release(); }, true);

/** Resolved as soon as nothing is pressed. */
export function released() {
  return isDown ? new Promise((resolve) => { waiting.push(resolve); }) : Promise.resolve();
}
