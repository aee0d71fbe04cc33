"""Which indexes should a table of orders have? Measured on a real PostgreSQL server, certified by a study.

python examples/database/indexes.py                        # everything: server, tables, study
python examples/database/indexes.py --apart                # the same with tests of one metric each, to compare
python examples/database/indexes.py measure ARM            # one test: what the study calls; prints a JSON object
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import random
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import psycopg

PLAN = Path(__file__).with_name("indexes.toml")
ADDRESS = "BESTARM_EXAMPLE_DATABASE"
"""The environment variable that tells a test where the server is."""

CUSTOMER = "(customer)"
DAY = "(placed)"
CUSTOMER_COVERING = "(customer, placed) INCLUDE (amount)"
DAY_COVERING = "(placed) INCLUDE (amount)"
# Without fastupdate: every insert pays for its own entries, instead of one in some hundred paying for all.
TAGS = "USING gin (tags) WITH (fastupdate = off)"
DESIGNS = {
    "primary key only": (),
    "customer": (CUSTOMER,),
    "customer + day": (CUSTOMER, DAY),
    "covering": (CUSTOMER_COVERING, DAY_COVERING),
    "customer + day + tags": (CUSTOMER, DAY, TAGS),
    "covering + tags": (CUSTOMER_COVERING, DAY_COVERING, TAGS),
}

CUSTOMERS, DAYS, TAGS_IN_USE, TAGS_PER_ORDER = 300, 365, 500, 6
ORDERS = (
    f"SELECT floor(random() * {CUSTOMERS})::int AS customer,"
    f" date '2025-01-01' + floor(random() * {DAYS})::int AS placed,"
    " floor(random() * 20000)::int AS amount,"
    f" ARRAY[{', '.join([f'floor(random() * {TAGS_IN_USE})::int'] * TAGS_PER_ORDER)}] AS tags"
    " FROM generate_series(1, %d)"
)
RECENT = "SELECT placed, amount FROM orders WHERE customer = %s ORDER BY placed DESC LIMIT 10"
MONTH = "BETWEEN date '2025-01-01' + %s::int AND date '2025-01-30' + %s::int"
REVENUE = f"SELECT sum(amount) FROM orders WHERE placed {MONTH}"
TAGGED = "SELECT count(*) FROM orders WHERE tags @> ARRAY[%s::int, %s::int]"

SLOW = 10.0
LONGEST_QUERY, LONGEST_WRITE = 30.0, 60.0
"""Milliseconds. Longer times count as these: that is part of what the metrics mean, and makes their range certain."""
KINDS = {RECENT: 140, REVENUE: 40, TAGGED: 20}
"""The queries of one test."""
WRITES, WRITTEN = 20, 200
"""The inserts of one test, and the orders of one insert."""
WARM_UP = 3
PAGE = 8192 / 2**20
"""Megabytes."""
PAGES = (
    "SELECT sum(pg_stat_get_xact_blocks_fetched(oid)) FROM pg_class"
    " WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'i')"
)
"""How many pages of the table and its indexes this transaction has read, most of them from the server's memory."""


def build(address: str, rows: int) -> None:
    """A schema for every design, all of them with the same orders."""
    import psycopg

    with psycopg.connect(address, autocommit=True) as connection:
        run(connection, "SELECT setseed(0.5)")
        run(connection, f"CREATE TABLE all_orders AS {ORDERS % rows}")
        for number, indexes in enumerate(DESIGNS.values()):
            run(connection, f"CREATE SCHEMA design_{number}")
            run(connection, f"SET search_path TO design_{number}, public")
            run(
                connection,
                "CREATE TABLE orders"
                " (id bigint GENERATED ALWAYS AS IDENTITY, customer int, placed date, amount int, tags int[])",
            )
            run(connection, "INSERT INTO orders (customer, placed, amount, tags) SELECT * FROM all_orders")
            run(connection, "ALTER TABLE orders ADD PRIMARY KEY (id)")
            for index in indexes:
                run(connection, f"CREATE INDEX ON orders {index}")
            run(connection, "VACUUM (ANALYZE) orders")


def run(connection: psycopg.Connection[Any], statement: str, values: tuple[int, ...] = ()) -> float:
    """How many milliseconds the statement took, with all its rows fetched."""
    start = time.perf_counter()
    cursor = connection.execute(statement.encode(), values)
    if cursor.description is not None:
        cursor.fetchall()
    return 1000 * (time.perf_counter() - start)


def query(kind: str, rng: random.Random) -> tuple[str, tuple[int, ...]]:
    """A query of that kind for a random customer, month or pair of tags."""
    if kind == RECENT:
        return kind, (rng.randrange(CUSTOMERS),)
    if kind == REVENUE:
        return kind, (first := rng.randrange(DAYS - 30), first)
    return kind, (rng.randrange(TAGS_IN_USE), rng.randrange(TAGS_IN_USE))


def measure(address: str, design: str, metrics: list[str]) -> dict[str, float]:
    """One test: a fresh connection, warmed up, and then random queries, or inserts. Of what that yields, `metrics`."""
    import psycopg

    with psycopg.connect(address, autocommit=True, prepare_threshold=None) as connection:
        run(connection, f"SET search_path TO design_{list(DESIGNS).index(design)}")
        found = write(connection) if "write latency" in metrics else read(connection)
    return {metric: found[metric] for metric in metrics}


def write(connection: psycopg.Connection[Any]) -> dict[str, float]:
    times = [insert(connection) for _ in range(WARM_UP + WRITES)][WARM_UP:]
    run(connection, "VACUUM orders")
    return {"write latency": sum(min(taken, LONGEST_WRITE) for taken in times) / len(times)}


def read(connection: psycopg.Connection[Any]) -> dict[str, float]:
    """The same queries tell how long they take, how many are slow, and how much memory they go through."""
    rng = random.Random()
    for kind in KINDS:
        for _ in range(WARM_UP):
            run(connection, *query(kind, rng))
    queries = [query(kind, rng) for kind, number in KINDS.items() for _ in range(number)]
    rng.shuffle(queries)
    with connection.transaction():
        times = [run(connection, *chosen) for chosen in queries]
        [[pages]] = connection.execute(PAGES.encode()).fetchall()
    return {
        "query latency": sum(min(taken, LONGEST_QUERY) for taken in times) / len(times),
        "slow queries": sum(taken > SLOW for taken in times) / len(times),
        "memory": PAGE * float(pages) / len(times),
    }


def insert(connection: psycopg.Connection[Any]) -> float:
    """The time to insert orders; they are taken back, so that every test finds the table as the first one found it."""
    run(connection, "BEGIN")
    taken = run(connection, f"INSERT INTO orders (customer, placed, amount, tags) {ORDERS % WRITTEN}")
    run(connection, "ROLLBACK")
    return taken


def bestarm(*words: str, **environment: str) -> int:
    """Call the command line as one would in a terminal; returns its exit status."""
    print("$ bestarm", shlex.join(words), flush=True)
    return subprocess.run([sys.executable, "-m", "bestarm", *words], env=os.environ | environment).returncode


def apart(plan: Path, file: Path) -> Path:
    """A study file with the same question, where each metric is measured on its own."""
    import bestarm as ba

    file.write_text(dataclasses.replace(ba.Plan.load(plan), measurements=()).to_toml(), encoding="utf-8")
    return file


def study(rows: int, db: str, plan: Path) -> int:
    import bestarm as ba

    sys.path.insert(0, str(Path(__file__).parents[2]))  # The tests of bestarm start such a server too.
    from tests.tools.postgres import PostgresServer, find_postgres

    programs = find_postgres()
    if programs is None:
        print("error: no PostgreSQL server on this machine; its package is called postgresql", file=sys.stderr)
        return 2
    name = ba.Plan.load(plan).name
    print("Starting a PostgreSQL server of our own …", flush=True)
    # What would make one test differ from the next for reasons of its own is off.
    settings = {"shared_buffers": "256MB", "jit": "off", "autovacuum": "off", "max_parallel_workers_per_gather": "0"}
    # However it is ended, the server ends with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    server = PostgresServer(programs, settings)
    try:
        start = time.monotonic()
        build(server.url(), rows)
        print(f"{len(DESIGNS)} tables of {rows:,} orders: {time.monotonic() - start:.0f} s\n", flush=True)
        if not Path(db).exists() and (status := bestarm("new", str(plan), "--db", db)):
            return status
        print(f"\nTo watch it in a browser, in another window: bestarm serve --db {shlex.quote(db)}\n", flush=True)
        command = shlex.join([sys.executable, str(Path(__file__).resolve()), "measure"]) + " {arm}"
        return (
            # One at a time: two tests at once would slow each other down, by how much depends on which they are.
            bestarm("run", name, "--db", db, "--command", command, "--timeout", "60", **{ADDRESS: server.url()})
            or bestarm("status", name, "--db", db)
            or bestarm("report", name, "--db", db, "--out", str(Path(db).with_suffix(".html")))
        )
    except KeyboardInterrupt:
        return 1
    finally:
        server.close()


def main() -> int:
    parser = argparse.ArgumentParser(description="Which indexes should a table of orders have?")
    parser.add_argument("--rows", type=int, default=100_000, help="orders in each table (default: 100,000)")
    parser.add_argument("--db", help="where the study is kept (default: indexes.db; with --apart, apart.db)")
    parser.add_argument("--plan", type=Path, default=PLAN, help="the study file (default: indexes.toml beside this)")
    parser.add_argument("--apart", action="store_true", help="measure one metric in each test, to compare")
    if sys.argv[1:2] == ["measure"]:
        _, _, design = sys.argv
        # One run yields all that the study asks of it.
        metrics = os.environ["BESTARM_METRICS"].splitlines()
        print(json.dumps(measure(os.environ[ADDRESS], design, metrics)))
        return 0
    options = parser.parse_args()
    db = options.db or ("apart.db" if options.apart else "indexes.db")
    plan = apart(options.plan, Path(db).with_suffix(".toml")) if options.apart else options.plan
    return study(options.rows, db, plan)


if __name__ == "__main__":
    sys.exit(main())
