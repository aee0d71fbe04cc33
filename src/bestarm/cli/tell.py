"""`bestarm tell`: record results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bestarm.cli.shared.arguments import IgnoredColumns, Key, Reason, StudyName, Yes
from bestarm.cli.shared.command import study_command
from bestarm.cli.shared.files import confirm_far, record_confirmed, recorded_words, results_file
from bestarm.cli.shared.opening import Access, check_text, repeatable_with_key, stated_reason
from bestarm.cli.shared.show import say
from bestarm.errors import UNSTATED, InvalidInput

if TYPE_CHECKING:
    from bestarm.study.files.exchange import Recorded
    from bestarm.study.intake.values import Result


@study_command(place=140)
def tell(
    name: StudyName,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TEST VALUE", help="A test and its result; METRIC=VALUE for each metric if it yields several."
        ),
    ] = None,
    arm: Annotated[str | None, typer.Option(metavar="ARM", help="With --metric: measured without asking.")] = None,
    metric: Annotated[str | None, typer.Option(metavar="METRIC", help="The metric of that result.")] = None,
    item: Annotated[str | None, typer.Option(metavar="ITEM", help="The item of that result, if there are any.")] = None,
    table: Annotated[
        str | None,
        typer.Option(
            "--from",
            "--csv",
            metavar="FILE",
            help="Many results, in CSV or an Excel workbook: columns test,value or arm,metric,value, or a column for "
            "each metric; - is standard input.",
        ),
    ] = None,
    correct: Annotated[
        bool,
        typer.Option(
            "--correct",
            help="Replace a result told wrongly; the log keeps it. Correcting only surprising values voids the "
            "guarantee.",
        ),
    ] = False,
    reason: Reason = "",
    yes: Yes = False,
    key: Key = None,
    ignore: IgnoredColumns = None,
    *,
    access: Access,
) -> None:
    """Record results: TEST VALUE, or --arm A --metric M VALUE, or --from FILE."""
    from bestarm.study import Study
    from bestarm.study.files.exchange import tell_results
    from bestarm.study.intake.names import read_test

    words = words or []
    is_table, by_name = table is not None, arm is not None or metric is not None
    by_number = not is_table and not by_name
    if is_table:
        is_clear = not words and not by_name
    elif by_name:
        # Without --metric, the values must say of which metrics they are.
        is_clear = arm is not None and bool(words) and (metric is None or len(words) == 1)
        is_clear = is_clear and (metric is not None or all("=" in word for word in words))
    else:
        is_clear = len(words) == 2 or (len(words) > 2 and all("=" in word for word in words[1:]))
    if not is_clear:
        raise InvalidInput(
            "tell: give TEST VALUE, or --arm ARM --metric METRIC VALUE, or --from FILE; of several metrics "
            "METRIC=VALUE for each in place of VALUE"
        )
    if correct and not by_number:
        raise InvalidInput("--correct", UNSTATED, "goes with TEST VALUE, one test at a time")
    if reason and not correct:
        raise InvalidInput("--reason", UNSTATED, "goes with --correct")
    if item is not None and not by_name:
        raise InvalidInput("--item", UNSTATED, "goes with --arm; a test's number says which item it is of")
    if key is not None and by_number:
        raise InvalidInput("--key", UNSTATED, "goes with --arm and --metric, or --from; a test's number is key enough")
    if ignore and not is_table:
        raise InvalidInput("--ignore", UNSTATED, "goes with --from")
    check_text("reason", reason)
    if table is not None:
        study = access.open(name)

        def record(check_far: bool) -> Recorded:
            with results_file(table) as (file, called), repeatable_with_key():
                # The same lines may well be piped in twice, such as yes and no. A file is one set of results.
                how: dict[str, Any] = {"key": key, "check_far": check_far, "ignore": ignore or ()}
                if isinstance(study, Study):
                    return tell_results(study, file, called, once=table != "-", **how)
                from bestarm.parsing import read_bytes

                return study.tell_csv(read_bytes(file, called), **how)

        said = recorded_words(study, record_confirmed(record, yes, table))
    elif arm is not None:
        result = _result(words)
        study = access.open(name)
        if metric is not None:
            given: tuple[Any, ...] = check_text("arm", arm), check_text("metric", metric), result
        else:
            given = check_text("arm", arm), result
        row: Any = given if item is None else (*given, check_text("item", item))
        confirm_far(lambda: study.check_far(given=[row]), yes)
        with repeatable_with_key():
            [number] = study.add([row], key=key)
        what = f"{metric} of {arm} = {_shown(result)}" if metric is not None else f"{arm}: {_shown(result)}"
        said = f"Recorded as test {number}: {what}."
    else:
        number, result = read_test(words[0].strip()), _result(words[1:])
        study = access.open(name)
        confirm_far(lambda: study.check_far([(number, result)]), yes)
        if correct:
            study.correct(number, result, stated_reason(reason))
        else:
            study.tell(number, result)
        said = f"{'Corrected' if correct else 'Recorded'}: test {number} = {_shown(result)}."
    say(said)


def _result(words: Sequence[str]) -> Result:
    """A value, or METRIC=VALUE, several times."""
    from bestarm.study.intake.values import Value, typed

    if len(words) == 1 and "=" not in words[0]:
        return typed(words[0])
    found: dict[str, Value] = {}
    for word in words:
        metric, _, text = check_text("value", word).rpartition("=")
        metric = metric.strip()
        if metric in found:
            raise InvalidInput("value", word, f"{metric!r} is given twice")
        found[metric] = typed(text, f"value of {metric!r}")
    return found


def _shown(result: Result) -> str:
    from bestarm.study.intake.values import shown

    if isinstance(result, Mapping):
        return ", ".join(f"{metric} {shown(value)}" for metric, value in result.items())
    return shown(result)
