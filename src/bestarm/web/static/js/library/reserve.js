// A share of the accepted chance of error that is kept for options that come later or are taken out.

export const RESERVE = 0.1;

/** What it costs in tests, as measured (`benchmarks/reserve.py`): it is cheap with a constraint, or if scatter is unknown. */
export function price(hasConstraints, noise, isOnItems) {
  if (isOnItems) return { isCheap: false, words: "costs at most 6% more tests, in simulations on 500 items with up to 32 options" };
  if (hasConstraints) return { isCheap: true, words: "costs at most 3% more tests, in simulations with one constraint and up to 32 options" };
  if (noise === "symmetric") return { isCheap: true, words: "costs 2 to 6% more tests, in simulations with up to 32 options" };
  return { isCheap: false, words: "costs 20 to 46% more tests as long as there is no constraint, in simulations with up to 32 options" };
}
