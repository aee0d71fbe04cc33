"""`bestarm serve` and `token`: the HTTP service with its dashboard, and who may use it."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from bestarm.cli.shared.arguments import AsJson, ConfigFile, Database, PrintConfig
from bestarm.cli.shared.command import LIVE_STUDIES, command, study_command
from bestarm.cli.shared.opening import check_text, read_token, whoami
from bestarm.cli.shared.show import moment, new_table, plain_console, print_json, say
from bestarm.errors import UNSTATED, InvalidInput
from bestarm.texts import shown

if TYPE_CHECKING:
    from bestarm.storage.tokens import Token

_ACTIONS = ("create", "list", "revoke")


@command(place=250, panel=LIVE_STUDIES, configured=True)
def serve(
    host: Annotated[str, typer.Option(help="Address to listen at; any but this machine's own needs a token.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(help="Port to listen at; 0 is any that is free.")] = 8000,
    token: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT|@FILE",
            help="The token that clients must present; safer in a file or a variable, where ps does not show it.",
            hide_input=True,
        ),
    ] = None,
    tokens: Annotated[
        bool, typer.Option("--tokens", help="Clients must present a token made with `bestarm token create`.")
    ] = False,
    allow_host: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A host name to answer under; may be given several times.")
    ] = None,
    trusted_proxies: Annotated[
        list[str] | None,
        typer.Option(
            "--trusted-proxies",
            "--proxy",
            metavar="CIDR[,CIDR]",
            help="Proxies whose X-Forwarded headers count: addresses or networks; may be given several times.",
        ),
    ] = None,
    root_path: Annotated[
        str,
        typer.Option(metavar="PATH", help="The path under which a proxy shows the service, such as /bestarm."),
    ] = "",
    proxy_user_header: Annotated[
        str | None,
        typer.Option(metavar="HEADER", help="Where trusted proxies say who the user is, such as X-Forwarded-User."),
    ] = None,
    proxy_groups_header: Annotated[
        str | None, typer.Option(metavar="HEADER", help="Where they say the user's groups, with commas between them.")
    ] = None,
    proxy_role: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[GROUP=]ROLE[@PROJECT]",
            help="The role of a group, or of all users; may be given several times.",
            show_default="work",
        ),
    ] = None,
    rate: Annotated[float, typer.Option(metavar="N", help="Requests a second that one address may make.")] = 2000.0,
    access_log: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Write who asked for what, a line of JSON each; - is standard error."),
    ] = None,
    wait_for_db: Annotated[
        float,
        typer.Option(metavar="SECONDS", help="Wait so long for a database that is out of reach; inf is without end."),
    ] = 0.0,
    db: Database = None,
    config: ConfigFile = None,
    print_config: PrintConfig = False,
) -> None:
    """Serve studies over HTTP, with a dashboard."""
    from bestarm.storage.opening import default_url

    try:
        from bestarm.web.limits import Limits
        from bestarm.web.proxy_identity import ProxyIdentity
        from bestarm.web.server import serve as start
    except ImportError as error:
        raise InvalidInput(f"serve: needs the package {error.name!r}; pip install 'bestarm[web]'") from None
    identity = None
    if proxy_user_header is not None:
        identity = ProxyIdentity(proxy_user_header, proxy_groups_header, proxy_role or ())
    elif proxy_groups_header is not None or proxy_role:
        raise InvalidInput("proxy-user-header", UNSTATED, "is needed to say in which header the user is")
    start(
        default_url() if db is None else db,
        host=host,
        port=port,
        token=read_token(token),
        tokens=tokens,
        allowed_hosts=allow_host or (),
        proxies=trusted_proxies or (),
        root_path=root_path,
        proxy_identity=identity,
        wait_seconds=wait_for_db,
        access_log=access_log,
        limits=Limits(rate=rate, burst=2 * rate),
    )


@study_command(place=255)
def token(
    what: Annotated[str, typer.Argument(metavar="create|list|revoke", help="Make one, list them, or end one.")],
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Its owner: a person or a machine.")] = None,
    role: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ROLE[@PROJECT]",
            help="read, to look; work, also to ask and tell; manage, also to make, change, move, archive and delete "
            "studies: in all projects, or in one. May be given several times.",
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

    if what not in _ACTIONS:
        raise InvalidInput("token", what, f"must be one of {', '.join(_ACTIONS)}", _ACTIONS)
    if (name is None) == (what != "list"):
        reason = "lists them all; leave out NAME" if what == "list" else "needs the NAME of the token"
        raise InvalidInput("token", what, reason)
    for option, given in (("--role", role or None), ("--days", days)):
        if given is not None and what != "create":
            raise InvalidInput(option, UNSTATED, "goes with create")
    storage = open_storage(db, create=what == "create")
    if name is None:
        _print(storage.tokens(), as_json)
    elif what == "create":
        made, kept = storage.make_token(check_text("name", name), ",".join(role or ["work"]), days, by=whoami())
        if as_json:
            print_json(_data(kept) | {"token": made})
            return
        ends = "" if kept.expires is None else f" until {moment(kept.expires)}"
        # So that the token alone can be sent into a file.
        print(f"token {shown(kept.name)} with the role {kept.role}{ends}; it is not shown again", file=sys.stderr)
        print(made)
    else:
        gone = storage.revoke_token(check_text("name", name), by=whoami())
        if as_json:
            print_json(_data(gone))
        else:
            say(f"The token {gone.name} is revoked.")


def _print(tokens: list[Token], as_json: bool) -> None:
    if as_json:
        print_json([_data(one) for one in tokens])
        return
    if not tokens:
        say("No tokens yet; make one with `bestarm token create NAME`.")
        return
    table = new_table("token", "role", "made", "expires", "state")
    for one in tokens:
        state = one.fault(time.time()).removeprefix("has ").removeprefix("been ") or "valid"
        expires = "never" if one.expires is None else moment(one.expires)
        table.add_row(shown(one.name), one.role, moment(one.created), expires, state)
    plain_console().print(table)


def _data(token: Token) -> dict[str, object]:
    from bestarm.study.files.exchange import iso_time

    times = {key: getattr(token, key) for key in ("created", "expires", "revoked")}
    written = {key: None if seconds is None else iso_time(seconds) for key, seconds in times.items()}
    return {"name": token.name, "role": token.role, **written}
