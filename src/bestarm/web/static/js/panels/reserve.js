// Before the first test: whether arms may come later or be taken out, of a study that exists.

import { post } from "../library/api.js";
import { signature } from "../library/dialogs.js";
import { announce, h, newId, replace, setText } from "../library/dom.js";
import { nounOf } from "../library/nouns.js";
import { price, RESERVE } from "../library/reserve.js";
import { percentOf } from "../library/words.js";

/** Whether a plan can have a reserve. */
const isPlain = (plan) => plan.policy === "certify" && (plan.goal ?? "best") === "best" && !(plan.top > 1)
  && ![plan.objective, ...(plan.constraints || [])].some((part) => part?.relative_to_baseline || part?.judge || part?.where);

export function reservePanel(context) {
  const noun = nounOf(context.status);
  const words = h("p", {});
  const hint = h("p", { class: "hint", id: newId("reserve") });
  const wrong = h("p", { class: "error", role: "alert" });
  const button = h("button", { class: "small", "aria-describedby": hint.id, onclick: change });
  const element = h("div", { class: "reserve", "data-needs": "manage", hidden: true }, words, button, hint, wrong);
  let reserve = 0;

  async function change() {
    button.disabled = true;
    setText(wrong, "");
    try {
      await post(`${context.base}/reserve`, { share: reserve ? 0 : RESERVE, holder: await signature() });
      announce(reserve ? `The ${noun.many} stay as they are` : `${noun.Many} may come later or be taken out`);
      await context.refresh();
    } catch (error) {
      setText(wrong, error.message);
    }
    button.disabled = false;
  }

  return {
    element,
    update(status) {
      const { plan } = status;
      reserve = plan.reserve ?? 0;
      element.hidden = Boolean(status.archived) || status.tests + status.pending > 0 || status.state !== "running" || !isPlain(plan);
      replace(words, reserve ? `${noun.Many} may come later or be taken out: ${percentOf(reserve)} of the accepted chance of error is kept for that.`
        : `The ${noun.many} stay as they are: none may come later or be taken out.`);
      setText(button, reserve ? "Keep them as they are" : "Let them come and go");
      const isOnItems = plan.items !== undefined || Boolean(plan.blocks);
      const cost = price((plan.constraints || []).length > 0, plan.objective?.noise, isOnItems).words;
      setText(hint, `That they may come and go ${cost}. It can be changed before the first test.`);
    },
  };
}
