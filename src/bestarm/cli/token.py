"""`bestarm token`: who may use the service, and for what."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from bestarm.cli.shared.arguments import AsJson, Database
from bestarm.cli.shared.command import study_command
from bestarm.cli.shared.opening import check_text
from bestarm.cli.shared.show import moment, new_table, plain_console, print_json, shown

if TYPE_CHECKING:
    from bestarm.storage.tokens import Token

DEEDS = ("create", "list", "revoke")


@study_command(place=255)
def token(
    what: Annotated[str, typer.Argument(metavar="create|list|revoke", help="Make one, list them, or end one.")],
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Its owner: a person or a machine.", show_default=False)
    ] = None,
    role: Annotated[
        str | None,
        typer.Option(
            metavar="read|work|manage",
            help="To look; also to ask and tell; also to make, change and archive studies.",
            show_default="work",
        ),
    ] = None,
    days: Annotated[
        float | None, typer.Option(metavar="DAYS", help="Days until it expires.", show_default="never")
    ] = None,
    db: Database = None,
    as_json: AsJson = False,
) -> None:
    """Named tokens for the service. A new one is printed once, and kept as a digest only."""
    from bestarm.storage.opening import open_storage
    from bestarm.validation import UNSTATED, InvalidInput

    if what not in DEEDS:
        raise InvalidInput("token", what, f"must be one of {', '.join(DEEDS)}", DEEDS)
    if (name is None) == (what != "list"):
        reason = "lists them all; leave out NAME" if what == "list" else "needs the NAME of the token"
        raise InvalidInput("token", what, reason)
    for option, given in (("--role", role), ("--days", days)):
        if given is not None and what != "create":
            raise InvalidInput(option, UNSTATED, "goes with create")
    storage = open_storage(db, create=what == "create")
    if name is None:
        _print(storage.tokens(), as_json)
    elif what == "create":
        made, kept = storage.make_token(check_text("name", name), role or "work", days)
        if as_json:
            print_json(_data(kept) | {"token": made})
            return
        ends = "" if kept.expires is None else f" until {moment(kept.expires)}"
        # So that the token alone can be sent into a file.
        print(f"token {shown(kept.name)} with the role {kept.role}{ends}; it is not shown again", file=sys.stderr)
        print(made)
    else:
        gone = storage.revoke_token(check_text("name", name))
        if as_json:
            print_json(_data(gone))
        else:
            plain_console().print(f"The token {shown(gone.name)} is revoked.", soft_wrap=True)


def _print(tokens: list[Token], as_json: bool) -> None:
    if as_json:
        print_json([_data(one) for one in tokens])
        return
    if not tokens:
        plain_console().print("No tokens yet; make one with `bestarm token create NAME`.")
        return
    table = new_table("token", "role", "made", "expires", "state")
    for one in tokens:
        state = one.fault(time.time()).removeprefix("has ").removeprefix("been ") or "valid"
        expires = "never" if one.expires is None else moment(one.expires)
        table.add_row(shown(one.name), one.role, moment(one.created), expires, state)
    plain_console().print(table)


def _data(token: Token) -> dict[str, object]:
    from bestarm.study.files.exchange import iso_time

    def written(seconds: float | None) -> str | None:
        return None if seconds is None else iso_time(seconds)

    times = {key: written(getattr(token, key)) for key in ("created", "expires", "revoked")}
    return {"name": token.name, "role": token.role, **times}
