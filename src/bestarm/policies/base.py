"""What a policy is: it is told results and proposes the tests to make next, or stops with an answer."""

from __future__ import annotations

import abc
import functools
import math
from collections.abc import Sequence
from typing import Any, ClassVar, cast

import numpy as np

from bestarm.answer import promised
from bestarm.evidence.items import in_next_blocks, next_places, record_at, streams_for, tests_on_items, with_room
from bestarm.kernel.state import ON_ITEMS, Flags, Floats, Ints, Setting, gather, rounding_error
from bestarm.kernel.tables import slot
from bestarm.noises.dispatch import half_width, record
from bestarm.noises.registry import numbered
from bestarm.policies.comparisons import differences_by_intervals, regret_by_intervals
from bestarm.policies.confidence import PresentAnswer, confidence_of, evidence_for, present_answer
from bestarm.policies.decisions import EmptyProposal, Stop, ignoring_overflow
from bestarm.policies.findings import Bools, Findings, findings_by_intervals, settled
from bestarm.policies.open_certificates import OpenCertificate, open_by_intervals
from bestarm.policies.options import NoOptions, as_numbers, checked_options, from_numbers
from bestarm.policies.setting import cost_of_counts, new_setting
from bestarm.problem import Plan, Problem
from bestarm.problem.goals import Asked, answers_sets
from bestarm.texts import quoted
from bestarm.validation import InvalidInput


class Policy(abc.ABC):
    """Decides one study. Subclass it to write a policy of your own in plain Python.

    `propose` returns the tests to make next as pairs (arm, metric), or `Stop`. Once all of them have been told, it is
    asked again. Asked twice without a new result, it must give the same tests. So it never changes `streams`. It may
    note in the policy what follows from the results so far, such as which arms are out, and its random choices may
    depend on nothing but the seed and the results.

    Arms and metrics are numbered from 0. Metric 0 is the objective, and larger is better. An arm is feasible when every
    other metric's mean lies below `self.setting.threshold[metric]`. All values are in normal form: the user's value,
    times -1 for `minimize` and `at_least`, minus `self.setting.reference[metric]`. `to_normal` and `to_user` of
    `bestarm.policies.setting` convert one into the other.

    What is shown of a study comes from its policy too: `present_answer` (who leads, and how sure we are), `findings`
    (what is certain of every arm), `regret` and `differences` (how far apart arms can be), `open_certificates` (what an
    answer lacks), `bounds` (the intervals), `reason` and `note_on_intervals` (words). The defaults suit a policy that
    decides by the confidence bounds `lower` and `upper`. Override what yours knows better.

    Parameters
    ----------
    setting
        Thresholds, sigmas, costs and the confidence radius.
    arms, metrics
        How many there are; `metrics` counts the objective.
    seed, run
        The seed of `self.random`, for policies that make random choices.

    >>> import numpy as np
    >>> import bestarm as ba
    >>> from bestarm.policies.setting import new_setting
    >>> class EqualShares(ba.Policy):
    ...     '''Test both arms equally often, until one of them is better for certain.'''
    ...
    ...     name = "equal-shares"
    ...
    ...     def propose(self):
    ...         for arm, other in ((0, 1), (1, 0)):
    ...             if self.untested == 0 and self.lower(arm, 0) >= self.upper(other, 0):
    ...                 return ba.Stop(arm)
    ...         return [(0, 0), (1, 0)]
    >>> problem = ba.Problem(arms=[ba.Arm("a"), ba.Arm("b")], objective=ba.maximize("gain", noise=ba.Gaussian(1.0)))
    >>> policy, noise = EqualShares(new_setting(problem, 0.05, "mixture"), 2, 1), np.random.default_rng(seed=1)
    >>> while not isinstance(decision := policy.decide(), ba.Stop):
    ...     for arm, metric in decision:
    ...         policy.tell(arm, metric, noise.normal([2.0, 3.0][arm]))
    >>> decision, policy.spent
    (Stop(arm=1, arms=()), (114, 114.0))
    """

    name: ClassVar[str]
    remark: ClassVar[str] = ""
    """A few words that follow the name where people choose a policy."""
    uses_items: ClassVar[bool] = False
    """Whether it decides studies with items."""
    asked: ClassVar[Asked | tuple[Asked, ...]] = "best"
    """What it is asked for: the best arm, or one or several of the other goals that a problem can have."""
    uses_baseline: ClassVar[bool] = False
    """Whether it decides constraints relative to a baseline."""
    uses_judge: ClassVar[bool] = False
    """Whether it decides with the scores of judges."""
    uses_reserve: ClassVar[bool] = False
    """Whether it shares delta with arms that come later."""
    Options: ClassVar[type[Any]] = NoOptions
    """Its parameters: a `NamedTuple` of numbers, booleans and texts (`Literal`), each with its type and default."""

    def __init__(self, setting: Setting, arms: int, metrics: int, *, seed: int = 0, run: int = 0) -> None:
        # A setting that was made by hand has no options.
        self.setting = setting if setting.options else setting._replace(options=as_numbers(self.options_of()))
        self.arms = arms
        self.metrics = metrics
        self.streams = streams_for(setting, arms, metrics)
        self._seed = (seed, run)
        self.tests_made: Ints | None = None
        self.blocks_made, self.cost_of_scores = 0, 0.0

    @classmethod
    def new_setting(cls, problem: Problem, delta: float, bound: str, reference: Floats | None = None) -> Setting:
        """The setting in which this policy decides `problem`, with values relative to `reference`.

        Raises `InvalidInput` if the policy decides by confidence intervals, and a noise has none.
        """
        for metric, noise in zip(problem.metrics, problem.noises, strict=True):
            if cls._uses_half_widths() and not noise.has_intervals:
                raise InvalidInput(
                    "policy",
                    cls.name,
                    f"decides by confidence intervals, and the {noise.name} noise of {quoted(metric)} has none: it "
                    "states neither a scale nor a kernel `radius`; choose policy certify, which decides by evidence",
                )
        return new_setting(problem, delta, bound, reference)

    @classmethod
    def options_of(cls, problem: Problem | None = None) -> Any:
        """The options that a plan states, checked, with defaults for the rest; without a plan, the defaults.

        Raises `InvalidInput` for an option that the policy does not have, or a value that it does not take.
        """
        return checked_options(cls.name, cls.Options, getattr(problem, "options", {}))

    @functools.cached_property
    def options(self) -> Any:
        """The parameters with which it decides, as `Options` declares them."""
        return from_numbers(type(self).Options, self.setting.options)

    @classmethod
    def _uses_half_widths(cls) -> bool:
        """Whether its intervals are the mean plus or minus a half-width."""
        return cls.bounds is Policy.bounds and cls.lower is Policy.lower and cls.upper is Policy.upper

    @classmethod
    def answers_sets(cls) -> bool:
        """Whether its answer may be a set of arms."""
        return any(answers_sets(asked) for asked in goals_of(cls))

    @abc.abstractmethod
    def propose(self) -> list[tuple[int, int]] | Stop:
        """The tests to make next, or the answer. Asked twice, it must say the same."""

    def decide(self) -> list[tuple[int, int]] | Stop:
        """What `propose` says, as tests: a test measures all metrics of a bundle and is named by the first.

        Raises `EmptyProposal` if there is neither a test nor an answer.
        """
        decision = self.propose()
        if isinstance(decision, Stop):
            return decision
        if not decision:
            raise EmptyProposal(self.name)
        return self.tests_of(decision)

    def tests_of(self, wanted: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """The tests that tell what is wanted."""
        if not self.setting.is_bundled:
            return [*wanted]
        batch = np.array(wanted, np.uint32)
        covered = np.zeros((self.arms, self.metrics), np.int64)
        size = gather(self.setting, covered, batch, len(batch))  # type: ignore[arg-type]
        return [(arm, metric) for arm, metric in batch[:size].tolist()]

    def results_of(self, arm: int, metric: int) -> list[tuple[int, int]]:
        """The streams that get a result from a test: those of all metrics of its bundle that are about its items."""
        parts, queue = [int(self.setting.lead[metric])], self.setting.queue
        while (part := int(self.setting.following[parts[-1]])) >= 0:
            parts.append(part)
        return [(arm, part) for part in parts if queue[part] == queue[metric]]

    def update(self, arm: int, metric: int) -> None:
        """Called after a result has entered `streams`, for policies that keep more than that."""
        return

    def tell(self, arm: int, metric: int, value: float) -> None:
        """Take in one result, in normal form (as `to_normal` of `bestarm.policies.setting` makes it)."""
        self.tell_together([(arm, metric, value)])

    def tell_together(self, results: Sequence[tuple[int, int, float]], places: Sequence[int] | None = None) -> None:
        """Take in all results (arm, metric, value) of one test, on items on the next ones, or at these places."""
        with ignoring_overflow():
            for k, (arm, metric, value) in enumerate(results):
                if self.setting.pairing == ON_ITEMS:
                    at = int(next_places(self.setting, self.streams)[arm, metric]) if places is None else places[k]
                    self.streams = with_room(self.streams, 1 + at)
                    record_at(self.setting, self.streams, arm, metric, at, value)
                else:
                    record(self.setting, self.streams, arm, metric, value)
        for arm, metric, _ in results:
            self.update(arm, metric)

    def imagine(self, results: Sequence[tuple[int, int, float]]) -> None:
        """Take in results (arm, metric, value) that are only supposed, without deciding anything; on items, on the next
        items of their streams, as far as there are any."""
        rows, values, counts = [], [], next_places(self.setting, self.streams).copy()
        for arm, metric, value in results:
            places = self.places_of(metric)
            if places is None or counts[arm, metric] < places:
                rows.append((arm, metric, counts[arm, metric]))
                values.append(value)
                counts[arm, metric] += 1
        tests = np.array(rows, np.int64).reshape(-1, 3)
        self.streams, tests = in_next_blocks(self.setting, self.streams, tests, np.array(values))
        self.advance(tests, np.array(values), np.zeros(len(values), np.int8))

    def must_be_tested(self, arm: int) -> bool:
        """Whether nothing can be decided before every metric of the arm has a result."""
        return True

    def arms_to_go_on_with(self) -> list[int]:
        """The arms to test further while some streams have no result yet."""
        return [*range(self.arms)]

    @property
    def is_untested(self) -> Bools:
        """[arm, metric]: whether the stream has no result yet, and must have one before anything is decided."""
        return cast("Bools", self.streams.counts == 0)

    @property
    def untested(self) -> int:
        """How many streams have no result yet."""
        return int(self.is_untested.sum())

    def places_of(self, metric: int = 0) -> int | None:
        """How often a metric can be measured: once on each item of its set. None if there is no limit."""
        return None

    @property
    def tests(self) -> Ints:
        """[arm, metric]: how many tests there have been. In blocks, several of them make one result."""
        return tests_on_items(self.setting, self.streams) if self.tests_made is None else self.tests_made

    @property
    def spent(self) -> tuple[int, float]:
        """How many tests there have been, and what they cost."""
        counts = self.tests.sum(axis=0)
        tests = counts[self.setting.lead == np.arange(self.metrics)].sum()
        return int(tests), cost_of_counts(self.tests, self.setting.cost) + self.cost_of_scores

    def advance(self, tests: Ints, values: Floats, ends: Flags) -> list[tuple[int, int]] | Stop | None:
        """Take in recorded results [arm, metric] in order, deciding where a round ends, until the policy stops. The
        results of one test follow each other. NaN means a test without a result.

        Returns the decision after the last one, or None if it did not end a round, or a stream is untested."""
        decision: list[tuple[int, int]] | Stop | None = None
        untested = self.untested
        rows = zip(tests.tolist(), values.tolist(), ends.tolist(), strict=True)
        together: list[tuple[int, int, float]] = []
        for (arm, metric, *_), value, end in rows:
            if value == value:
                untested -= int(self.streams.counts[arm, metric] == 0 and self.must_be_tested(arm))
                together.append((arm, metric, value))
            if self.setting.following[metric] < 0:
                self.tell_together(together)
                together = []
            decision = self.decide() if end and untested == 0 else None
            if isinstance(decision, Stop):
                break
        # The rest of a test may be in the next piece.
        self.tell_together(together)
        return decision

    def propose_ahead(
        self, count: int, pending: Sequence[tuple[int, int]], waiting: Sequence[tuple[int, int, float]] = ()
    ) -> list[list[tuple[int, int]]]:
        """Further rounds with `count` tests or more in all, while the results of `pending` tests are still out.

        No rounds means "wait", as for all policies that must see a round's results before the next. The results
        `waiting` are known, but do not enter before those of tests issued earlier.
        """
        return []

    @classmethod
    def plans_ahead(cls) -> bool:
        """Whether further tests can be planned while results are out. If not, a round's results count together."""
        return cls.propose_ahead is not Policy.propose_ahead

    # ----------------------------------------------------------------------- what is known, for showing it

    def present_answer(self, stop: Stop | None = None) -> PresentAnswer:
        """The present best answer and how sure we are of it. Once the policy has stopped, it is the policy's answer.

        While a study goes on, the evidence in its results says how sure we are, whatever the policy. An answer that
        the policy has stopped with is wrong with probability at most delta, so our confidence is 1 - delta or more.
        """
        if stop is None:
            return present_answer(self.setting, self.streams)
        evidence = evidence_for(self.setting, self.streams, [] if stop.arm is None else [stop.arm])
        return PresentAnswer(stop.arm, max(confidence_of(evidence), 1.0 - self.setting.delta))

    def findings(self) -> Findings:
        """What is certain about every arm. By default, what the policy's confidence intervals say."""
        return findings_by_intervals(self.setting, self.streams.counts, *self.bounds())

    def regret(self, leader: int, found: Findings) -> float:
        """How far, at most, the performance of `leader`, which is certified feasible, is below that of the best
        feasible arm, in normal form; infinity if there is no limit. By default, what the intervals in `found` say."""
        return regret_by_intervals(found, leader)

    @classmethod
    def regret_is_apart(cls, problem: Problem) -> bool:
        """Whether the limit of `regret` holds with probability 1 - delta by itself, but not together with the rest."""
        return False

    def differences(self, arm: int) -> tuple[Floats, Floats]:
        """By how much, at least and at most, `arm` performs better than each arm, in normal form; infinite where there
        is no limit. By default all limits of all arms hold at once, at all times, with probability 1 - delta."""
        return differences_by_intervals(*self.bounds(), arm)

    def open_certificates(self, leader: int | None, found: Findings) -> list[OpenCertificate]:
        """What is lacking for an answer, where `leader` (None: that no arm is feasible) is the likeliest one. By
        default, what the intervals in `found` leave open."""
        return [] if self.untested else open_by_intervals(self.setting, self.streams, found, leader)

    def recommend(self) -> int | None:
        """The arm to answer with if no more tests could be made, or None: "no arm is feasible"."""
        return self.present_answer().leader

    def settled(self, found: Findings, stop: Stop) -> Findings:
        """What was `found`, once the policy has stopped: in agreement with its answer."""
        return settled(self.setting, self.streams.counts, found, stop.arm)

    def reason(self, problem: Problem, arm: int, found: Findings) -> str | None:
        """Why `arm` is out, or what is still open about it, in the policy's own words on one line.

        With None, `found` is put into words: the violated constraint, the better arm, the evidence.
        """
        return None

    @classmethod
    def note_on_intervals(cls, plan: Plan, *, brief: bool = False) -> str:
        """A sentence on what the intervals are, for the report; with `brief`, for the small print below a chart."""
        all_of = f"all {plan.noun.many}, metrics and times"
        note = f"Intervals hold for {all_of} at once with probability {promised(plan.delta)}"
        return f"{note} or more." if brief else f"{note} (confidence bound {plan.bound}); they are what decides."

    def bounds(self) -> tuple[Floats, Floats]:
        """The lower and upper confidence bounds of all streams [arm, metric]; infinite where there is no result."""
        counts = self.streams.counts
        low, high = np.full(counts.shape, -math.inf), np.full(counts.shape, math.inf)
        tested = (counts > 0) & np.isfinite(self.streams.means)
        tabulated = all(numbered()[noise].kernels.radius is None for noise in self.setting.kind.tolist())
        if tabulated and type(self)._uses_half_widths():
            slots = np.fromiter(map(slot, counts.ravel().tolist()), np.int64, counts.size).reshape(counts.shape)
            with ignoring_overflow():
                # Kernels are plain Python, and work on arrays as well.
                least: Any = rounding_error(counts, self.streams.means)  # type: ignore[arg-type]
                width = np.fmax(self.setting.sigma * self.setting.radius[slots], least)
                low[tested] = (self.streams.means - width)[tested]
                high[tested] = (self.streams.means + width)[tested]
        else:
            for arm, metric in np.argwhere(tested).tolist():
                low[arm, metric], high[arm, metric] = self.lower(arm, metric), self.upper(arm, metric)
        return low, high

    def interval_levels(self, arm: int, metric: int) -> tuple[float, float] | None:
        """The log-evidence at which the lower and the upper end of a stream's interval lie; None for a policy whose
        intervals are the mean plus or minus a half-width.

        By default, delta is shared by all streams and both sides, which holds whatever a policy decides by.
        """
        if type(self)._uses_half_widths():
            return None
        level = math.log(2.0 * self.streams.counts.size / self.setting.delta)
        return level, level

    def mean(self, arm: int, metric: int) -> float:
        return float(self.streams.means[arm, metric])

    def lower(self, arm: int, metric: int) -> float:
        """Lower confidence bound of a stream that has been tested; minus infinity if its mean is not finite."""
        lower = self.mean(arm, metric) - half_width(self.setting, self.streams, arm, metric)
        return lower if math.isfinite(lower) else -math.inf

    def upper(self, arm: int, metric: int) -> float:
        """Upper confidence bound of a stream that has been tested; infinity if its mean is not finite."""
        upper = self.mean(arm, metric) + half_width(self.setting, self.streams, arm, metric)
        return upper if math.isfinite(upper) else math.inf

    def contrasts(self, metric: int) -> Floats:
        """By arm, for a constraint relative to the baseline: how far the measured mean lies over the limit, in normal
        form; NaN where nothing is known. Intervals of this constraint show the same quantity."""
        raise NotImplementedError

    @functools.cached_property
    def random(self) -> np.random.Generator:
        """Random numbers of this run alone, for policies that make random choices."""
        return np.random.default_rng(self._seed)


def goals_of(policy: type[Policy]) -> tuple[Asked, ...]:
    """All that the policy can be asked for."""
    return (policy.asked,) if isinstance(policy.asked, str) else policy.asked
