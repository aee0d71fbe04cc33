"""Where a study stands, at a glance."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from bestarm.analysis.health.notes import Health
from bestarm.analysis.open_questions import OpenQuestion
from bestarm.analysis.standing import ArmStanding
from bestarm.analysis.status_view import status_html, status_text
from bestarm.analysis.waiting import Awaited
from bestarm.answer import (
    Guarantee,
    all_names,
    good_words,
    guarantee_of,
    known_words,
    leads_words,
    void_words,
)

StudyState = Literal["running", "certified", "no_feasible_arm", "budget_spent", "void"]


@dataclasses.dataclass(frozen=True)
class Status:
    """Where a study stands.

    `answer` is what the study has come to, None as long as it has not; `guarantee` says whether it is guaranteed.
    `leader` is the current best arm. `tests` and `cost` are those of all results recorded. Of these, `waiting` do not
    count until the result of an earlier test is there. `candidates` are the arms that can still be the answer,
    `feasible` those certified so, as in `Answer`. `confidence` is how sure the evidence so far makes us of the leader;
    it can fall. Printed, it is some lines of text.
    """

    study: str
    state: StudyState
    answer: str | None
    leader: str | None
    confidence: float
    tests: int
    cost: float
    pending: int
    waiting: int
    arms: tuple[ArmStanding, ...]
    tolerance: float = 0.0
    slack: Mapping[str, float] = dataclasses.field(default_factory=dict)
    candidates: tuple[str, ...] = ()
    feasible: tuple[str, ...] = ()
    regret_at_most: float | None = None
    """As in `Answer`, of the leader."""
    known: str = ""
    """What is certain, in a sentence: which arms can be the answer, which are feasible, how good the leader is."""
    open: tuple[OpenQuestion, ...] = ()
    """What the likeliest answer still lacks."""
    progress: float = 0.0
    """How much there is of all the evidence that the likeliest answer needs, from 0 to 1."""
    answered: tuple[str, ...] = ()
    """The arms that the policy has stopped with: `answer`, or the set that it leads. As `arms` of `Answer`."""
    claim: str = ""
    """What it claims of them, in words; empty if it is that `answer` is feasible and best."""
    awaited: Awaited | None = None
    """The test whose result counts next, who holds it, and how to free it."""
    health: Health = dataclasses.field(default_factory=Health)
    """Whether the results contradict what the guarantee rests on."""
    seed: int | None = None
    """The seed of the study's random choices."""
    items_seed: int | None = None
    """The seed of the random order of its items; None without items. Stated for a new study, both seeds repeat this
    one."""
    basis: str = dataclasses.field(default="", compare=False, repr=False)
    """Changes when the study changes in kind: its past or its plan, its state, or which arms can be the answer."""
    void_because: tuple[str, ...] = dataclasses.field(init=False)
    """What the results contradict of that on which the guarantee rests. If there is any, the guarantee is void."""
    guarantee: Guarantee = dataclasses.field(init=False)
    """As in `Answer`; void in any state, if the results contradict what the guarantee rests on."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "void_because", self.health.void_because)
        object.__setattr__(self, "guarantee", guarantee_of(self.state, self.void_because))

    def __str__(self) -> str:
        return status_text(self)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return status_html(self)

    @property
    def headline(self) -> str:
        """The state in a few words."""
        match self.state:
            case "certified":
                if len(self.answered) > 1:
                    return f"{all_names(self.answered)}: {self.claim}"
                return f"{self.answer} is {self.claim or good_words(self.tolerance, self.slack)}"
            case "no_feasible_arm":
                return "no arm is feasible"
            case "void":
                return f"{leads_words(self.leader)}; {void_words(self.void_because)}"
            case "budget_spent":
                spent = "the budget is spent and no answer is certified"
                return f"{spent}; {leads_words(self.leader)}; {known_words(self.known, self.void_because)}"
        if not self.tests:
            return "running: no results yet"
        if self.leader is None:
            said = "running: no arm looks feasible so far"
        else:
            said = f"running: {self.leader} leads"
        said += f" (not counting {self.results_that_wait})" if self.waiting else ""
        return f"{said}; {void_words(self.void_because)}" if self.void_because else said

    @property
    def results_that_wait(self) -> str:
        """How many results wait, in words."""
        return "1 result that waits" if self.waiting == 1 else f"{self.waiting:,} results that wait"

    @property
    def seed_words(self) -> str:
        """The seeds that repeat the study, by name."""
        items = "" if self.items_seed is None else f", items_seed {self.items_seed}"
        return f"seed {self.seed}{items}"

    @property
    def seed_options(self) -> str:
        """The seeds that repeat the study, as `bestarm new` takes them."""
        items = "" if self.items_seed is None else f" --items-seed {self.items_seed}"
        return f"--seed {self.seed}{items}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as `bestarm status --json` prints it. What is unknown or infinite is None."""
        data: dict[str, Any] = plain(self)
        data["health"]["notes"] = [note.through("file").to_dict() for note in self.health.notes]
        if data["awaited"] is not None and data["awaited"]["item"] is None:
            # As it is in every study without items.
            del data["awaited"]["item"]
        return data


def basis_of(revision: int, state: StudyState, candidates: Sequence[str]) -> str:
    """What a forecast must have in common with a status to be shown beside it."""
    return f"{revision}.{state}.{zlib.crc32(json.dumps(candidates).encode()):08x}"


def plain(data: Any) -> Any:
    """Data classes as dictionaries of what JSON knows; what is unknown or infinite is None."""
    # A large study has millions of entries, which `dataclasses.asdict` would copy one by one.
    kind: Any = type(data)
    if kind is float:
        return data if math.isfinite(data) else None
    if kind is tuple:
        return [plain(item) for item in data]
    if kind is dict:
        return {name: plain(item) for name, item in data.items()}
    names = _fields(kind)
    return {name: plain(getattr(data, name)) for name in names} if names else data


@functools.cache
def _fields(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else ()
