"""`bestarm projects` and `move`: the projects that studies belong to."""

from __future__ import annotations

from typing import Annotated

import typer

from bestarm.cli.shared.arguments import AsJson, StudyName
from bestarm.cli.shared.command import study_command
from bestarm.cli.shared.opening import Place, check_text, saying_how_to_give_a_token, whoami
from bestarm.cli.shared.show import new_table, plain_console, print_json, say
from bestarm.texts import shown


@study_command(place=122)
def projects(*, place: Place, as_json: AsJson = False) -> None:
    """List the projects, with the numbers of their studies, and at a service your role in each."""
    from bestarm.storage.opening import open_storage

    rows: list[dict[str, object]]
    if (client := place.client()) is not None:
        with client, saying_how_to_give_a_token():
            rows = [vars(line) for line in client.projects()]
    else:
        counts = sorted(open_storage(place.db).projects().items())
        rows = [{"name": name, "studies": there, "archived": archived} for name, (there, archived) in counts]
    if as_json:
        print_json(rows)
        return
    heads = ["project", *(["role"] if client is not None else []), "studies", "archived"]
    table = new_table(*heads, right=("studies", "archived"))
    for row in rows:
        table.add_row(*(shown(str(cell)) for cell in row.values()))
    plain_console().print(table)


@study_command(place=198)
def move(
    name: StudyName,
    project: Annotated[str, typer.Argument(metavar="PROJECT", help="Where it goes; a new name makes a project.")],
    *,
    place: Place,
) -> None:
    """Put a study into another project."""
    from bestarm.storage.opening import is_service, open_storage
    from bestarm.storage.projects import check_project
    from bestarm.study.record.checks import find_record

    check_project(project)
    if is_service(place.url):
        place.open(name).move(project)
    else:
        # The study is not opened, so that one that cannot be read can be moved too.
        storage = open_storage(place.db)
        storage.move(find_record(storage, check_text("study", name)).key, project, whoami())
    say(f"{name} is in the project {project}.")
