"""`bestarm serve`: the HTTP service and the dashboard."""

from __future__ import annotations

from typing import Annotated

import typer

from bestarm.cli.shared.arguments import Database
from bestarm.cli.shared.command import LIVE_STUDIES, command
from bestarm.cli.shared.opening import read_token


@command(place=250, panel=LIVE_STUDIES)
def serve(
    host: Annotated[str, typer.Option(help="Address to listen at; any but this machine's own needs a token.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(help="Port to listen at; 0 is any that is free.")] = 8000,
    token: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT|@FILE",
            help="The token that clients must present; safer in a file or BESTARM_TOKEN, where ps does not show it.",
            hide_input=True,
        ),
    ] = None,
    tokens: Annotated[
        bool, typer.Option("--tokens", help="Clients must present a token made with `bestarm token create`.")
    ] = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="A host name to answer under; may be given several times.", show_default=False
        ),
    ] = None,
    proxy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS",
            help="A trusted proxy, whose forwarded client addresses count; may be given several times.",
            show_default=False,
        ),
    ] = None,
    rate: Annotated[float, typer.Option(metavar="N", help="Requests a second that one address may make.")] = 2000.0,
    access_log: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Write who asked for what, a line of JSON each; - is standard error.",
            show_default=False,
        ),
    ] = None,
    db: Database = None,
) -> None:
    """Serve studies over HTTP, with a dashboard."""
    from bestarm.storage.opening import default_url
    from bestarm.validation import InvalidInput

    try:
        from bestarm.web.limits import Limits
        from bestarm.web.server import serve as start
    except ImportError as error:
        raise InvalidInput(f"serve: needs the package {error.name!r}; pip install 'bestarm[web]'") from None
    start(
        default_url() if db is None else db,
        host=host,
        port=port,
        token=read_token(token),
        tokens=tokens,
        allowed_hosts=allow_host or (),
        proxies=proxy or (),
        access_log=access_log,
        limits=Limits(rate=rate, burst=2 * rate),
    )
