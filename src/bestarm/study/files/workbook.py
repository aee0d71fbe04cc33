"""Sheets to fill in as Excel workbooks: a list of tests with marked cells, perhaps a plate, and what it is for."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from bestarm.problem import Plan
from bestarm.study.files.sheets import NOT_YIELDED, columns_to_fill, sheet_rows, with_headings
from bestarm.study.intake.kinds import ValueKind, kind_of
from bestarm.study.intake.names import Test
from bestarm.study.intake.results_file import PLACE
from bestarm.study.intake.xlsx_file import ABOUT, LIST, XlsxFile, needs_package
from bestarm.study.live import LiveStudy
from bestarm.study.study import Study
from bestarm.texts import from_cell, shown
from bestarm.validation import MOST, InvalidInput, exact

if TYPE_CHECKING:
    from openpyxl.worksheet.datavalidation import DataValidation
    from openpyxl.worksheet.worksheet import Worksheet

LAYOUT = "Layout"
"""The worksheet that shows where each test is made."""

_TO_FILL, _HEAD, _EDGE = "FFF2CC", "D9E2F3", "BFBFBF"
"""Colors: of cells to fill in, of headings, and of the lines between cells."""

_FILL = (
    "Fill in the yellow cells of the worksheet Tests. Leave a cell empty if there is no result yet.",
    "Numbers, with the decimal mark that your spreadsheet uses. Rates from 0 to 1 may be typed in percent.",
    "The other cells are locked, without a password.",
    "Then give the file back: on the dashboard (From a file), or with bestarm tell STUDY --from FILE.",
    "It may be given back several times; what is known already is passed over.",
)
_STUDY, _CREATED = "study", "study created"


class Place(NamedTuple):
    """Where a test is made, such as well B7 of a plate.

    >>> str(Place("B", 7))
    'B7'
    """

    row: str
    column: int

    def __str__(self) -> str:
        return f"{self.row}{self.column}"


def check_package() -> None:
    """Raise `InvalidInput` if workbooks cannot be written here."""
    try:
        import openpyxl  # noqa: F401
    except ImportError as error:
        raise needs_package(error) from None


def write_workbook(
    study: LiveStudy, tests: Sequence[Test], out: BinaryIO, *, places: Mapping[int, Place] | None = None
) -> None:
    """Write a sheet with a marked cell for each value, as `write_blank_sheet` does, as an Excel workbook.

    `places` says where each test is made, by its number. It becomes a column, and a worksheet with the layout. In a
    study in blocks that are plates, each has such a worksheet.

    >>> import io
    >>> import bestarm as ba
    >>> problem = ba.Problem(arms=["old", "new"], objective=ba.maximize("yield", noise=ba.Gaussian(0.1)))
    >>> study = ba.Study.create(problem, storage=":memory:")
    >>> plate, tests = io.BytesIO(), study.ask(2)
    >>> write_workbook(study, tests, plate, places={test.id: Place("A", k) for k, test in enumerate(tests, 1)})
    >>> plate.getvalue()[:2]
    b'PK'
    """
    check_package()
    from openpyxl import Workbook

    book = Workbook()
    book.properties.creator = "bestarm"
    sheet: Any = book.active
    sheet.title = LIST
    _write_list(sheet, study, tests, places or {})
    for title, grid in [(LAYOUT, places)] if places else _layouts(study.plan, tests):
        _write_layout(book.create_sheet(title), study.plan, tests, grid)
    holders = {row.id: row.holder for _, row in study.pending()}
    who = dict.fromkeys(shown(holders.get(test.id, study.holder)) for test in tests)
    about = {_STUDY: study.name, "tests": f"{len(tests):,}", "for": ", ".join(who)}
    if isinstance(study, Study):
        about[_CREATED] = _time(study.record.created)
    _write_about(book.create_sheet(ABOUT), about)
    book.save(out)


def _layouts(plan: Plan, tests: Sequence[Test]) -> list[tuple[str, dict[int, Place]]]:
    """For each block that is a plate: a title, and the well of each of its tests."""
    grids: dict[str, dict[int, Place]] = defaultdict(dict)
    for test in tests if plan.blocks is not None else ():
        if found := re.fullmatch(r"(.*) ([A-Z]+)([0-9]+)", test.item or ""):
            grids[found[1]][test.id] = Place(found[2], int(found[3]))
    # A title has at most 31 characters, and not all of them.
    return [(re.sub(r"[\\/*?:\[\]]", " ", f"{LAYOUT} {label}")[:31], grid) for label, grid in grids.items()]


def check_origin(study: Study, workbook: XlsxFile) -> None:
    """Raise `InvalidInput` if a workbook says that it is of another study."""
    given, created = workbook.about.get(_STUDY), workbook.about.get(_CREATED)
    if given is not None and study.name not in (given, from_cell(given)):
        raise InvalidInput(f"{workbook.name}: was written for study {given!r}, and this is study {study.name!r}")
    if created is not None and created != _time(study.record.created):
        reason = f"was written for another study of this name, created {created}"
        raise InvalidInput(f"{workbook.name}: {reason}; this one was created {_time(study.record.created)}")


def _time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S.%f} UTC"


# ------------------------------------------------------------------------------------------------- the worksheets


def _write_list(sheet: Worksheet, study: LiveStudy, tests: Sequence[Test], places: Mapping[int, Place]) -> None:
    from openpyxl.styles import PatternFill, Protection

    rows, metrics = sheet_rows(study, tests), columns_to_fill(study.plan, tests)
    to_fill = [k for k, column in enumerate(rows[0]) if column in metrics]
    if places:
        at = {str(number): str(place) for number, place in places.items()}
        rows = [[*rows[0], PLACE], *([*row, at.get(row[0], "")] for row in rows[1:])]
    marked, kinds = (
        PatternFill("solid", fgColor=_TO_FILL),
        {name: kind_of(study.plan, name) for name in study.plan.measured},
    )
    cells: dict[str, list[str]] = defaultdict(list)
    shown_rows = with_headings(study.plan, rows)
    for number, row in enumerate(rows, 1):
        for k, text in enumerate(row):
            cell = sheet.cell(number, k + 1)
            cell.border = _edges()
            if number > 1 and k in to_fill and text != NOT_YIELDED:
                cell.fill, cell.protection = marked, Protection(locked=False)
                metric = row[rows[0].index("metric")] if "metric" in rows[0] else rows[0][k]
                cells[metric].append(cell.coordinate)
            elif number > 1 and k == 0:
                cell.value = int(text)
            else:
                _put(cell, shown_rows[number - 1][k])
    for metric, names in cells.items():
        if (rule := _rule(metric, kinds[metric])) is not None:
            for name in names:
                rule.add(name)
            sheet.add_data_validation(rule)
    _dress(sheet, [max(len(row[k]) for row in shown_rows) for k in range(len(rows[0]))])
    sheet.freeze_panes = "C2"
    # Without a password: it prevents accidents only.
    sheet.protection.sheet = True
    sheet.protection.formatColumns = sheet.protection.formatRows = False


def _write_layout(sheet: Worksheet, plan: Plan, tests: Sequence[Test], places: Mapping[int, Place]) -> None:
    """A grid with rows and columns as on a plate, and in each place what is made there."""
    from openpyxl.styles import Alignment

    there: dict[Place, list[Test]] = defaultdict(list)
    for test in tests:
        if test.id in places:
            there[places[test.id]].append(test)
    rows = sorted({place.row for place in there}, key=lambda row: (len(row), row))
    columns = sorted({place.column for place in there})
    for k, column in enumerate(columns, 2):
        sheet.cell(1, k, column)
    for number, row in enumerate(rows, 2):
        _put(sheet.cell(number, 1), row)
        for k, column in enumerate(columns, 2):
            cell = sheet.cell(number, k)
            cell.border, cell.alignment = _edges(), Alignment(wrap_text=True, vertical="top")
            if here := there.get(Place(row, column)):
                # Tests that differ in what they measure say it.
                yields = [f": {', '.join(test.metrics)}" if len(plan.yields) > 1 else "" for test in here]
                arms = dict.fromkeys(f"{test.arm}{which}" for test, which in zip(here, yields, strict=True))
                numbers = ", ".join(str(test.id) for test in here)
                _put(cell, "\n".join([*arms, f"test {numbers}"]))
    _dress(sheet, [4, *[16 if len(plan.yields) == 1 else 22] * len(columns)])
    sheet.freeze_panes = "B2"


def _write_about(sheet: Worksheet, about: Mapping[str, str]) -> None:
    for number, (name, text) in enumerate(about.items(), 1):
        _put(sheet.cell(number, 1), name)
        _put(sheet.cell(number, 2), text)
    for number, sentence in enumerate(_FILL, len(about) + 2):
        _put(sheet.cell(number, 1), sentence)
    sheet.column_dimensions["A"].width = 16
    sheet.protection.sheet = True


def _dress(sheet: Worksheet, widths: Iterable[int]) -> None:
    """A header that stands out, also on every printed page, and columns that are wide enough."""
    from openpyxl.styles import Font, PatternFill
    from openpyxl.utils import get_column_letter
    from openpyxl.worksheet.properties import PageSetupProperties

    for cell in sheet[1]:
        cell.font, cell.fill = Font(bold=True), PatternFill("solid", fgColor=_HEAD)
    for k, width in enumerate(widths, 1):
        sheet.column_dimensions[get_column_letter(k)].width = min(max(width + 3, 8), 40)
    sheet.print_title_rows = "1:1"
    sheet.page_setup.orientation, sheet.page_setup.fitToHeight = "landscape", 0
    sheet.sheet_properties.pageSetUpPr = PageSetupProperties(fitToPage=True)


def _edges() -> Any:
    from openpyxl.styles import Border, Side

    side = Side("thin", color=_EDGE)
    return Border(left=side, right=side, top=side, bottom=side)


def _put(cell: Any, text: str) -> None:
    """Write a text that stays a text, whatever it looks like."""
    # Spreadsheets take _x0041_ for an A.
    cell.value = re.sub(r"_(?=x[0-9A-Fa-f]{4}_)", "_x005F_", text)
    cell.data_type, cell.quotePrefix = "s", True


def _rule(metric: str, kind: ValueKind) -> DataValidation | None:
    """What a spreadsheet lets users type for a metric; None for anything."""
    from openpyxl.worksheet.datavalidation import DataValidation

    options: dict[str, Any]
    if kind.words:
        said = kind.said
        # Numbers are right, too, and not in the list: a spreadsheet asks, and does not refuse.
        options = {"type": "list", "formula1": f'"{",".join(kind.offered)}"', "errorStyle": "warning"}
    else:
        low, high = kind.low > -MOST, kind.high < MOST
        if not low and not high:
            return None
        options = {"type": "whole" if kind.is_whole else "decimal"}
        if low and high:
            said = f"from {exact(kind.low)} to {exact(kind.high)}"
            options |= {"operator": "between", "formula1": repr(kind.low), "formula2": repr(kind.high)}
        else:
            bound = kind.low if low else kind.high
            said = f"{'at least' if low else 'at most'} {exact(bound)}"
            options |= {"operator": "greaterThanOrEqual" if low else "lessThanOrEqual", "formula1": repr(bound)}
    rule = DataValidation(allow_blank=True, showErrorMessage=True, **options)
    rule.errorTitle, rule.error = "bestarm", f"{metric[:150]}: {said}"
    return rule
