"""What a problem costs any algorithm, and what it costs Algorithm 1, computed from its true means."""

from __future__ import annotations

from bestarm.theory.summary import ArmTheory, Theory, analyze

__all__ = ["ArmTheory", "Theory", "analyze"]
