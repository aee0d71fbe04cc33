"""Words that people who have never heard of bandits do not know, or know as something else."""

from __future__ import annotations

import re
from html import unescape

AVOIDED = (
    *("arm", "arms", "bandit", "bandits", "pull", "pulls", "reward", "regret", "policy", "policies"),
    *("delta", "δ", "sigma", "epsilon", "martingale", "supermartingale", "e-value", "e-process", "likelihood"),
    *("certificate", "certificates", "prior", "posterior", "sub-Gaussian", "LUCB", "stopping rule", "stopping time"),
    *("sample complexity", "null hypothesis", "union bound", "confidence bound", "kernel", "stream", "streams"),
    "in flight",
)


def avoided_words(text: str) -> set[str]:
    """Which of them a text uses.

    >>> sorted(avoided_words("The policy tests each arm; the harm is small."))
    ['arm', 'policy']
    """
    return {word for word in AVOIDED if re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text, re.IGNORECASE)}


def read_text(page: str) -> str:
    """What people read of a page of HTML: without styles, commands and files."""
    for part in ("style", "pre", "code", "head"):
        page = re.sub(rf"<{part}[^>]*>.*?</{part}>", " ", page, flags=re.DOTALL)
    return unescape(re.sub("<[^>]*>", " ", page))
