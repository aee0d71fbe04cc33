"""Which indexes should a table of orders have? Measured on a real PostgreSQL server, certified by a study.

python examples/database/indexes.py                        # everything: server, tables, study
python examples/database/indexes.py measure ARM METRIC     # one test: what the study calls; prints one number
"""

from __future__ import annotations

import argparse
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


def query(kind: str, lots: random.Random) -> tuple[str, tuple[int, ...]]:
    """A query of that kind for a random customer, month or pair of tags."""
    if kind == RECENT:
        return kind, (lots.randrange(CUSTOMERS),)
    if kind == REVENUE:
        return kind, (first := lots.randrange(DAYS - 30), first)
    return kind, (lots.randrange(TAGS_IN_USE), lots.randrange(TAGS_IN_USE))


def measure(address: str, design: str, metric: str) -> float:
    """One test: a fresh connection, warmed up, and then random queries, or inserts."""
    import psycopg

    lots = random.Random()
    with psycopg.connect(address, autocommit=True, prepare_threshold=None) as connection:
        run(connection, f"SET search_path TO design_{list(DESIGNS).index(design)}")
        if metric == "write latency":
            times = [insert(connection) for _ in range(WARM_UP + WRITES)][WARM_UP:]
            run(connection, "VACUUM orders")
            return sum(min(taken, LONGEST_WRITE) for taken in times) / len(times)
        for kind in KINDS:
            for _ in range(WARM_UP):
                run(connection, *query(kind, lots))
        queries = [query(kind, lots) for kind, number in KINDS.items() for _ in range(number)]
        lots.shuffle(queries)
        times = [run(connection, *chosen) for chosen in queries]
    if metric == "slow queries":
        return sum(taken > SLOW for taken in times) / len(times)
    return sum(min(taken, LONGEST_QUERY) for taken in times) / len(times)


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


def study(rows: int, db: str, plan: Path) -> int:
    import bestarm as ba
    from bestarm.testing.postgres import PostgresServer, find_postgres

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
        command = shlex.join([sys.executable, str(Path(__file__).resolve()), "measure"]) + " {arm} {metric}"
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
    parser.add_argument("--db", default="indexes.db", help="where the study is kept (default: indexes.db)")
    parser.add_argument("--plan", type=Path, default=PLAN, help="the study file (default: indexes.toml beside this)")
    if sys.argv[1:2] == ["measure"]:
        _, _, design, metric = sys.argv
        print(measure(os.environ[ADDRESS], design, metric))
        return 0
    options = parser.parse_args()
    return study(options.rows, options.db, options.plan)


if __name__ == "__main__":
    sys.exit(main())
