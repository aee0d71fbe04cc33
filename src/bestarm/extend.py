"""What extensions import: a policy, a noise, a storage or a command of your own.

All that such a plug-in needs is here, and stays here when files inside the package move. Names load when they are first
used, so that a command of yours does not slow down `bestarm --help`. `docs/how-to/extend.md` has an example of each.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bestarm.cli.shared.arguments import Database as Database
    from bestarm.cli.shared.arguments import StudyName as StudyName
    from bestarm.cli.shared.command import Command as Command
    from bestarm.cli.shared.command import command as command
    from bestarm.cli.shared.command import study_command as study_command
    from bestarm.cli.shared.opening import open_study as open_study
    from bestarm.errors import InvalidInput as InvalidInput
    from bestarm.errors import NotFound as NotFound
    from bestarm.evidence.intervals import interval_end as interval_end
    from bestarm.evidence.pairs import pair_evidence as pair_evidence
    from bestarm.kernel.compile import apart as apart
    from bestarm.kernel.compile import compiled as compiled
    from bestarm.kernel.compile import kernel as kernel
    from bestarm.kernel.compile import large as large
    from bestarm.kernel.native.types import Untranslatable as Untranslatable
    from bestarm.kernel.random import CHOICE as CHOICE
    from bestarm.kernel.random import Generator as Generator
    from bestarm.kernel.random import normal as normal
    from bestarm.kernel.random import seed_generator as seed_generator
    from bestarm.kernel.random import uniform as uniform
    from bestarm.kernel.state import NONE as NONE
    from bestarm.kernel.state import Batch as Batch
    from bestarm.kernel.state import Flags as Flags
    from bestarm.kernel.state import Floats as Floats
    from bestarm.kernel.state import Ints as Ints
    from bestarm.kernel.state import Setting as Setting
    from bestarm.kernel.state import Streams as Streams
    from bestarm.kernel.state import add_test as add_test
    from bestarm.kernel.state import conclude as conclude
    from bestarm.kernel.state import every_metric as every_metric
    from bestarm.kernel.state import every_stream as every_stream
    from bestarm.noises.base import NoiseModel as NoiseModel
    from bestarm.noises.base import StatedNumber as StatedNumber
    from bestarm.noises.bernoulli import rate_evidence as rate_evidence
    from bestarm.noises.bernoulli import rate_evidence_and_slope as rate_evidence_and_slope
    from bestarm.noises.bets import LEAST_VARIANCE as LEAST_VARIANCE
    from bestarm.noises.bets import inside as inside
    from bestarm.noises.dispatch import evidence as evidence
    from bestarm.noises.dispatch import half_width as half_width
    from bestarm.noises.dispatch import scatter as scatter
    from bestarm.noises.kernels import NoiseKernels as NoiseKernels
    from bestarm.noises.kernels import kernels_from as kernels_from
    from bestarm.noises.streams import ABOVE as ABOVE
    from bestarm.noises.streams import BELOW as BELOW
    from bestarm.noises.streams import TUNING as TUNING
    from bestarm.noises.streams import Law as Law
    from bestarm.noises.streams import Nature as Nature
    from bestarm.noises.streams import Stream as Stream
    from bestarm.noises.streams import stream_of as stream_of
    from bestarm.policies.base import Policy as Policy
    from bestarm.policies.decisions import Stop as Stop
    from bestarm.policies.findings import Findings as Findings
    from bestarm.policies.kernels import KernelPolicy as KernelPolicy
    from bestarm.policies.kernels import Kernels as Kernels
    from bestarm.policies.setting import new_setting as new_setting
    from bestarm.policies.setting import to_normal as to_normal
    from bestarm.policies.setting import to_user as to_user
    from bestarm.storage.base import Act as Act
    from bestarm.storage.base import Amendment as Amendment
    from bestarm.storage.base import Archived as Archived
    from bestarm.storage.base import AuditLine as AuditLine
    from bestarm.storage.base import Copies as Copies
    from bestarm.storage.base import Event as Event
    from bestarm.storage.base import GivePlaces as GivePlaces
    from bestarm.storage.base import History as History
    from bestarm.storage.base import Issued as Issued
    from bestarm.storage.base import MakeAmendment as MakeAmendment
    from bestarm.storage.base import Outcome as Outcome
    from bestarm.storage.base import Part as Part
    from bestarm.storage.base import Pending as Pending
    from bestarm.storage.base import PlanRounds as PlanRounds
    from bestarm.storage.base import Rounds as Rounds
    from bestarm.storage.base import Storage as Storage
    from bestarm.storage.base import StudyRecord as StudyRecord
    from bestarm.storage.base import Telling as Telling
    from bestarm.storage.base import Told as Told
    from bestarm.storage.columns import Given as Given
    from bestarm.storage.errors import BlockTaken as BlockTaken
    from bestarm.storage.errors import BlockUnfinished as BlockUnfinished
    from bestarm.storage.errors import ConnectionLost as ConnectionLost
    from bestarm.storage.errors import HandedOn as HandedOn
    from bestarm.storage.errors import HoldsEnough as HoldsEnough
    from bestarm.storage.errors import NameTaken as NameTaken
    from bestarm.storage.errors import NoStudiesYet as NoStudiesYet
    from bestarm.storage.errors import OldTables as OldTables
    from bestarm.storage.errors import OutcomeUnknown as OutcomeUnknown
    from bestarm.storage.errors import SourceTaken as SourceTaken
    from bestarm.storage.errors import StorageError as StorageError
    from bestarm.storage.errors import StudyArchived as StudyArchived
    from bestarm.storage.errors import StudyNotArchived as StudyNotArchived
    from bestarm.storage.rows import Entries as Entries
    from bestarm.storage.tokens import Role as Role
    from bestarm.storage.tokens import Session as Session
    from bestarm.storage.tokens import Token as Token
    from bestarm.storage.tokens import TokenKeeper as TokenKeeper
    from bestarm.validation import NonNegative as NonNegative
    from bestarm.validation import Number as Number
    from bestarm.validation import Positive as Positive
    from bestarm.validation import Probability as Probability
    from bestarm.validation import WholeNumber as WholeNumber
    from bestarm.validation import exact as exact
    from bestarm.validation import value as value

_HOMES = {
    # Kernels: functions that live studies interpret and simulations compile.
    "kernel.compile": "apart compiled kernel large",
    "kernel.random": "CHOICE Generator normal seed_generator uniform",
    "kernel.state": "NONE Batch Flags Floats Ints Setting Streams add_test conclude every_metric every_stream",
    # Policies.
    "policies.base": "Policy",
    "policies.decisions": "Stop",
    "policies.kernels": "KernelPolicy Kernels",
    "evidence.intervals": "interval_end",
    "policies.findings": "Findings",
    "policies.setting": "new_setting to_normal to_user",
    "evidence.pairs": "pair_evidence",
    "noises.dispatch": "evidence half_width scatter",
    # Noises.
    "noises.base": "NoiseModel StatedNumber",
    "noises.kernels": "NoiseKernels kernels_from",
    "noises.streams": "ABOVE BELOW TUNING Law Nature Stream stream_of",
    "noises.bernoulli": "rate_evidence rate_evidence_and_slope",
    "noises.bets": "LEAST_VARIANCE inside",
    "validation": "NonNegative Number Positive Probability WholeNumber exact value",
    # Storages.
    "storage.base": (
        "Act Amendment Archived AuditLine Copies Event GivePlaces History Issued MakeAmendment "
        "Outcome Part Pending PlanRounds Rounds Storage StudyRecord Telling Told"
    ),
    "storage.columns": "Given",
    "storage.rows": "Entries",
    "storage.tokens": "Role Session Token TokenKeeper",
    # Commands.
    "cli.shared.arguments": "Database StudyName",
    "cli.shared.command": "Command command study_command",
    "cli.shared.opening": "open_study",
    # Errors.
    "errors": "InvalidInput NotFound",
    "kernel.native.types": "Untranslatable",
    "storage.errors": (
        "BlockTaken BlockUnfinished ConnectionLost HandedOn HoldsEnough NameTaken "
        "NoStudiesYet OldTables OutcomeUnknown SourceTaken StorageError StudyArchived StudyNotArchived"
    ),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'bestarm.extend' has no attribute {name!r}")
    found = getattr(importlib.import_module(f"bestarm.{_HOME[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*__all__]
