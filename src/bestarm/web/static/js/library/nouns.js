// What a study calls its arms, one and several. The rules are those of `Noun` in texts.py.

/** By a word such as "dose", whose plural follows English rules unless it is stated: "mouse/mice". */
export function noun(word) {
  const [one, stated] = (word || "arm").split("/");
  // A word with other letters than English has is left as it is: "Plättchen".
  const many = stated || (/[^\0-\x7f]/.test(one) ? one : /(s|x|z|ch|sh)$/.test(one) ? `${one}es` : /[^aeiou]y$/.test(one) ? `${one.slice(0, -1)}ies` : `${one}s`);
  const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
  return { one, many, One: capital(one), Many: capital(many), a: `${/^[aeiou]/i.test(one) ? "an" : "a"} ${one}`,
    counted: (n) => `${n.toLocaleString("en")} ${n === 1 ? one : many}` };
}

/** What a study calls its arms: one with its plan, a plan, or a line of the list. */
export const nounOf = (study) => noun(study?.plan?.arm_word ?? study?.arm_word);
