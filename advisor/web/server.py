"""Listen and serve until interrupted."""

from __future__ import annotations

import socket
from collections.abc import Callable

from advisor.errors import EnvironmentLacks, UsageError
from advisor.results.store import Store
from advisor.usecases.serve import ServeOptions, check_names

#: Connections at once beyond which the server says 503 itself.
MOST_CONNECTIONS = 512


def run(options: ServeOptions, *, verbose: bool, say: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM; ``say`` is told the address once the port is taken.

    Raises UsageError for an address that is none, EnvironmentLacks for a port that is taken, DatabaseError for an unusable database.
    """
    import uvicorn

    from advisor.web.app import create_app

    check_names(options)
    with Store.open(options.database_url) as store:
        where = store.address.shown
    listening = listen(options.host, options.port)
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    say(f"serving {where} at http://{shown}:{port}/ (Ctrl-C ends it)")
    config = uvicorn.Config(
        create_app(options),
        log_level="info" if verbose else "warning",
        access_log=verbose,
        server_header=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=10,
        h11_max_incomplete_event_size=32 << 10,
        ws="none",
    )
    server = uvicorn.Server(config)
    with listening:
        server.run(sockets=[listening])


def listen(host: str, port: int) -> socket.socket:
    """Return a socket bound to the address."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except (OSError, UnicodeError) as error:
        raise UsageError(f"--host {host!r} is no address of this machine", "127.0.0.1 for this machine alone, 0.0.0.0 for all") from error
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        # From here on who connects waits for an answer and is not turned away, whatever still has to start.
        made.listen(MOST_CONNECTIONS)
    except OSError as error:
        made.close()
        raise EnvironmentLacks("PORT", f"cannot listen on {host} port {port}: {error.strerror}", "take another with --port N") from error
    return made
