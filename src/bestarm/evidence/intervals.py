"""Where an interval ends: the last mean that the evidence has not excluded."""

from __future__ import annotations

from bestarm.kernel.compile import kernel, one_of
from bestarm.noises.dispatch import by_kind, evidence, evidence_and_slope, guess
from bestarm.noises.streams import ABOVE, Stream

PRECISION = 1e-7
"""How far outside, in units of the noise's width, the end of an interval may lie."""

CONVERGED = 1e-6
"""Evidence that exceeds its level by less than this counts as at its level."""


@kernel
def by_newton(s: Stream, side: int, level: float) -> float:
    """The last c for which log-convex evidence that the mean lies on this side of c has reached `level`.

    Log-evidence is convex and falls toward the mean. So after its first step, Newton's method approaches the end from
    outside; stopped at any later step, it errs on the safe side.
    """
    limit = s.low if side == ABOVE else s.high
    if s.n == 0:
        return limit
    end = guess(s, side, level)
    is_outside = False
    for _ in range(60):
        reached, slope = evidence_and_slope(s, side, end)
        # Toward the mean.
        step = side * ((level - reached) / slope)
        if is_outside and step <= PRECISION * s.width:
            # At the limit of the range the evidence may fall short. Then no mean in the range is rejected.
            if reached - level < CONVERGED:
                return end
            # Near the limit the evidence falls so steeply that the end can lie much farther in than the tangent says.
            step = PRECISION * s.width
            if evidence(s, side, end + side * step) < level:
                return end
        end = max(end + step, limit) if side == ABOVE else min(end - step, limit)
        is_outside = True
    # Statistics that are NaN say nothing.
    return end if side * end >= side * limit else limit


_every_end, _end_of = by_kind(lambda kernels: kernels.end or by_newton)


@one_of("s.kind", _every_end)
def interval_end(s: Stream, side: int, level: float) -> float:
    """The last c for which the evidence that the mean lies on this side of c has reached `level`."""
    return _end_of(s.kind)(s, side, level)
