"""What is shown of a study that `certify` decides: the present answer, what is open, and what its end settles, by goal.

Everything here is computed from the evidence that decides, in the setting that decides.
"""

from __future__ import annotations

import math

import numpy as np

from bestarm.kernel.state import Setting, Streams
from bestarm.kernel.tournament import NO_ARM, best
from bestarm.policies.certify.any_feasible import weigh_arms
from bestarm.policies.certify.memory import Memory
from bestarm.policies.certify.top import mark_outperformed, weigh_list
from bestarm.policies.confidence import Closed, PresentAnswer, confidence_of, evidence_for, for_size, pair_level
from bestarm.policies.decisions import Stop
from bestarm.policies.findings import Findings, judged
from bestarm.policies.open_certificates import OpenCertificate, by_evidence

# ------------------------------------------------------------------------------------------------- the present answer


def likeliest(setting: Setting, streams: Streams, memory: Memory) -> PresentAnswer:
    """The leader and how sure we are of it. Closed certificates count as closed."""
    closed = Closed(memory.certified, memory.rejected, memory.beaten)
    leader = int(best(memory.candidates))
    return _answer(setting, leader, evidence_for(setting, streams, closed, leader))


def likeliest_list(setting: Setting, streams: Streams, memory: Memory) -> PresentAnswer:
    """The best of the members, and how sure we are that all of them are the answer."""
    weigh = for_size(weigh_list, setting, streams)
    return _answer(setting, int(best(memory.candidates)), float(weigh(setting, streams, memory)))


def likeliest_feasible(setting: Setting, streams: Streams, memory: Memory) -> PresentAnswer:
    """The arm that is closest to being certified, and how sure we are that it is feasible."""
    cases = np.zeros(len(memory.rejected))
    weigh = for_size(weigh_arms, setting, streams)
    none = float(weigh(setting, streams, memory.rejected, memory.certified, cases))
    # The first of several that nothing is known of has the best mean.
    order = np.argsort(-streams.means[:, 0], kind="stable")
    leader = int(order[cases[order].argmax()])
    looks_feasible = memory.rejected[leader] == 0 and memory.suspects[leader] == 0
    return _answer(setting, leader if looks_feasible else NO_ARM, float(cases[leader]) if looks_feasible else none)


def _answer(setting: Setting, leader: int, evidence: float) -> PresentAnswer:
    return PresentAnswer(None if leader == NO_ARM else leader, min(confidence_of(evidence), 1.0 - setting.delta))


# -------------------------------------------------------------------------------------------------------- what is open


def open_against(setting: Setting, streams: Streams, memory: Memory, leader: int | None) -> list[OpenCertificate]:
    """What is lacking for the answer that `leader` is the best arm, or that no arm is feasible."""
    closed = (memory.certified, memory.rejected, memory.beaten)
    return by_evidence(setting, streams, *closed, NO_ARM if leader is None else leader)


def open_of_short_list(
    setting: Setting, streams: Streams, memory: Memory, leader: int | None, found: Findings
) -> list[OpenCertificate]:
    """Without those of the arms that may stay on the list: the ones that would take longest."""
    own, others = [], []
    for one in open_against(setting, streams, memory, leader):
        if one.kind == "holds":
            own.append(one)
        elif found.candidates[one.arm]:
            others.append(one)
    spared = setting.top - (leader is not None)
    return [*own, *sorted(others, key=lambda one: -one.tests)[spared:]]


def open_of_top(setting: Setting, streams: Streams, memory: Memory) -> list[OpenCertificate]:
    """Of every member its constraints; of every other arm, that the last member is better, or that it is infeasible
    while there are fewer members than asked for."""
    chosen = memory.chosen
    members = np.flatnonzero(chosen.listed).tolist()
    is_full = len(members) == setting.top
    last = min(members, key=lambda arm: float(streams.means[arm, 0])) if is_full else NO_ARM
    closed = memory.rejected | chosen.listed | (chosen.settled if is_full else 0)
    everything = np.ones_like(memory.certified)
    others = by_evidence(setting, streams, everything, closed, memory.beaten, last)
    return [one for member in members for one in open_constraints(setting, streams, memory, member)] + others


def open_constraints(setting: Setting, streams: Streams, memory: Memory, arm: int) -> list[OpenCertificate]:
    """The constraints of one arm that are not certified."""
    nobody_else = np.ones(len(memory.rejected), np.int8)
    return by_evidence(setting, streams, memory.certified, nobody_else, memory.beaten, arm)


# ------------------------------------------------------------------------------------------------ what the end settles


def settled_set(setting: Setting, streams: Streams, found: Findings, stop: Stop) -> Findings:
    """The arms of the answer can be the best, or are among the best; the others cannot."""
    excluded = np.ones(len(streams.counts), np.bool_)
    excluded[list(stop.arms)] = False
    return judged(setting, streams.counts, found._replace(excluded=found.infeasible | excluded))


def settled_top(setting: Setting, streams: Streams, memory: Memory, found: Findings, stop: Stop) -> Findings:
    """The same, and why the others are out: the last of the best arms is better."""
    known = settled_set(setting, streams, found, stop)
    last = min(stop.arms, key=lambda arm: float(streams.means[arm, 0]))
    marks = np.zeros(len(streams.counts), np.int8)
    for_size(mark_outperformed, setting, streams)(setting, streams, memory, marks)
    is_beaten = known.excluded & ~known.infeasible
    known.beaten_by[is_beaten] = last
    # When these certificates were closed, the evidence was no less and the lead was no less.
    known.evidence[is_beaten] = pair_level(setting, last, NO_ARM)
    known.lead[is_beaten] = np.where(marks != 0, -setting.tolerance, math.nan)[is_beaten]
    return known


def settled_feasible(setting: Setting, streams: Streams, found: Findings, arm: int) -> Findings:
    """That the answer is feasible says nothing about the other arms."""
    holds = found.holds.copy()
    holds[arm, 1:] = True
    return judged(setting, streams.counts, found._replace(holds=holds))
