"""What an application sees through Neo4j's Python driver, as lines of JSON: the same lines from Neo4j and from Hopcache.

usage: answers.py URI USER PASSWORD LABEL
Each line is [name, what was seen]. Times, agents, bookmarks and element ids are left out: they differ by themselves.
"""
import json
import sys
import warnings

import neo4j
from neo4j import GraphDatabase, READ_ACCESS
from neo4j.exceptions import Neo4jError

warnings.simplefilter("ignore")
URI, USER, PASSWORD, LABEL = sys.argv[1:5]


def show(name, seen):
    print(json.dumps([name, seen], sort_keys=True, default=repr), flush=True)


def plain(value):
    """A value with everything that a driver shows of it, but ids."""
    if isinstance(value, neo4j.graph.Node):
        return ["node", sorted(value.labels), dict(value)]
    if isinstance(value, neo4j.graph.Relationship):
        return ["relationship", value.type, dict(value)]
    if isinstance(value, neo4j.graph.Path):
        return ["path", [plain(n) for n in value.nodes], [plain(r) for r in value.relationships]]
    if isinstance(value, (list, tuple)) and not hasattr(value, "srid"):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, float):
        return ["float", repr(value)]
    return [type(value).__name__, str(value)] if not isinstance(value, (str, int, bool, type(None))) else value


def summary_of(summary):
    gql = [[s.gql_status, s.status_description] for s in summary.gql_status_objects]
    return {
        "type": summary.query_type,
        "database": summary.database,
        "counters": {name: n for name, n in vars(summary.counters).items() if n},
        "notifications": sorted(n["code"] for n in summary.notifications or []),
        "gql": gql,
        "plan": summary.plan and summary.plan["operatorType"],
        "profile": summary.profile and summary.profile["operatorType"],
    }


def error_of(error):
    return {
        "class": type(error).__name__,
        "code": error.code,
        "message": error.message,
        "gql_status": error.gql_status,
        "retryable": error.is_retryable(),
    }


def attempt(name, work):
    try:
        show(name, work())
    except Neo4jError as error:
        show(name, error_of(error))


STATEMENTS = [
    "RETURN null, true, 1, -9223372036854775808, 1.5, 'aé😀', [1, [2, 'x']], {a: {b: 1}} AS map",
    "RETURN date('2024-02-29'), time('12:00:00.5+02:00'), localtime('12:00'), localdatetime('2024-02-29T12:00:00.5')",
    "RETURN datetime('2024-07-01T12:34:56[Europe/Stockholm]') AS zone, datetime('2024-07-01T12:34:56+02:00') AS offset",
    "RETURN duration('P1Y2M10DT2H30M5.25S'), point({x: 1.5, y: 2}), point({longitude: 1, latitude: 2, height: 3})",
    f"MATCH (n:{LABEL}) RETURN n ORDER BY n.n",
    f"MATCH p = (:{LABEL} {{n: 1}})-[r:NEXT]->(m) RETURN p, r, m",
    f"MATCH (n:{LABEL}) WHERE n.n > 100 RETURN n.n AS none",
    "UNWIND range(1, 2500) AS n RETURN n, 'row ' + n AS text",
    "UNWIND [] AS n RETURN n AS zero, 1 AS one",
    f"MATCH (a:{LABEL}), (b:{LABEL}) RETURN count(*) AS cartesian",
    "MATCH (n:NoSuchLabelAtAll) RETURN n",
    "RETURN 1 / 0",
    "UNWIND [1, 2, 0] AS n RETURN 2 / n",
    "RETURN $missing",
    "RETRUN 1",
    "RETURN nosuch(1)",
    "RETURN date('not a date')",
    f"MATCH (n:{LABEL} {{n: 1}}) SET n.seen = 1",
    f"CREATE (n:{LABEL}Extra {{n: 1}})-[:NEXT]->(m:{LABEL}Extra) RETURN n.n AS n",
    f"MATCH (n:{LABEL}Extra) DETACH DELETE n",
    f"EXPLAIN MATCH (n:{LABEL}) RETURN n.n",
    "CALL db.labels() YIELD label RETURN count(label) > 0 AS some",
    "SHOW DATABASES YIELD name, currentStatus ORDER BY name",
]


def auto_commit(session):
    for text in STATEMENTS:
        for time in ("first", "second"):
            def run():
                result = session.run(text)
                keys = result.keys()
                rows = [plain(list(record)) for record in result]
                return [keys, rows if len(rows) < 50 else [len(rows), rows[-1]], summary_of(result.consume())]
            attempt(f"{time}: {text}", run)


def in_pieces(driver):
    with driver.session(fetch_size=7) as session:
        result = session.run("UNWIND range(1, 40) AS n RETURN n")
        first = [record["n"] for _, record in zip(range(10), result)]
        summary = result.consume()
        show("pieces, the rest dropped", [first, summary.query_type])
        show("pieces, all", [record["n"] for record in session.run("UNWIND range(1, 40) AS n RETURN n")])
        with session.begin_transaction() as tx:
            one, two = tx.run("UNWIND range(1, 30) AS n RETURN n"), tx.run("UNWIND range(1, 20) AS n RETURN n * 2 AS n")
            mixed = [(a["n"], b["n"]) for a, b in zip(one, two)]
            show("two open results", mixed)


def transactions(driver):
    count = f"MATCH (n:{LABEL}Tx) RETURN count(n) AS n"
    create = f"CREATE (:{LABEL}Tx)"

    def counted(tx):
        return tx.run(count).single()["n"]

    with driver.session() as session:
        show("managed read", session.execute_read(counted))
        show("managed read again", session.execute_read(counted))
        with session.begin_transaction() as tx:
            show("before the write", counted(tx))
            show("write", summary_of(tx.run(create).consume()))
            show("behind the write", counted(tx))
            tx.rollback()
        show("rolled back", session.execute_read(counted))
        with session.begin_transaction() as tx:
            tx.run(create)
            tx.run(create)
            tx.commit()
        show("committed", session.execute_read(counted))
        session.execute_write(lambda tx: tx.run(create).consume())
        show("managed write", session.execute_read(counted))
        show("has a bookmark", len(session.last_bookmarks().raw_values) > 0)
        bookmarks = session.last_bookmarks()
    with driver.session(bookmarks=bookmarks) as session:
        show("with a bookmark", session.execute_read(counted))

    def broken(session):
        tx = session.begin_transaction()
        try:
            tx.run("RETRUN 1")
        finally:
            tx.close()

    with driver.session() as session:
        attempt("a syntax error in a transaction", lambda: broken(session))
        show("the session works on", session.run("RETURN 1 AS one").single()["one"])
        attempt("a write in a read transaction", lambda: session.execute_read(lambda tx: tx.run(create).consume()))
    with driver.session(default_access_mode=READ_ACCESS) as session:
        attempt("a write in a read session", lambda: session.run(create).consume())
    with driver.session(database="nosuchdatabase") as session:
        attempt("no such database", lambda: session.run("RETURN 1").consume())
        attempt("no such database, begun", lambda: session.begin_transaction().commit())
    with driver.session(bookmarks=neo4j.Bookmarks.from_raw_values(["garbage"])) as session:
        attempt("a garbage bookmark", lambda: session.begin_transaction().commit())
    with driver.session() as session:
        tx = session.begin_transaction(metadata={"app": "test"}, timeout=5)
        show("metadata", tx.run("RETURN 1 AS one").single()["one"])
        tx.commit()


def whole_driver():
    auth = (USER, PASSWORD)
    with GraphDatabase.driver(URI, auth=auth) as driver:
        driver.verify_connectivity()
        show("authenticates", driver.verify_authentication())
        driver.execute_query(f"UNWIND range(1, 5) AS i CREATE (:{LABEL} {{n: i, name: 'n' + i}})")
        driver.execute_query(f"MATCH (a:{LABEL}), (b:{LABEL}) WHERE b.n = a.n + 1 CREATE (a)-[:NEXT {{w: a.n}}]->(b)")
        with driver.session() as session:
            auto_commit(session)
        in_pieces(driver)
        transactions(driver)
        records, summary, keys = driver.execute_query(f"MATCH (n:{LABEL}) RETURN count(n) AS n", routing_="r")
        show("execute_query", [keys, [r.data() for r in records], summary_of(summary)])
        driver.execute_query(f"MATCH (n) WHERE n:{LABEL} OR n:{LABEL}Tx DETACH DELETE n")
    quiet = GraphDatabase.driver(URI, auth=auth, notifications_min_severity="OFF")
    with quiet as driver, driver.session() as session:
        for time in ("first", "second"):
            attempt(f"{time}: no notifications", lambda: summary_of(session.run("MATCH (n:NoSuchLabelAtAll) RETURN n").consume()))

    def wrong():
        with GraphDatabase.driver(URI, auth=(USER, "not the password")) as driver:
            driver.verify_connectivity()

    attempt("a wrong password", wrong)


whole_driver()
