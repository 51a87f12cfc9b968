"""Reads of Neo4j's Python driver, asked twice: the second ones are hits, in every way that a driver reads.

usage: hits.py URI USER PASSWORD TAG
Prints one line of JSON for each read: [name, value, the text of Cache-Status].
"""
import json
import sys

from neo4j import READ_ACCESS, GraphDatabase, Query

URI, USER, PASSWORD, TAG = sys.argv[1:5]


def show(name, record, summary):
    print(json.dumps([name, record, summary.metadata.get("hopcache")]), flush=True)


def one(tx, text):
    result = tx.run(text)
    record = result.single()[0]
    return record, result.consume()


with GraphDatabase.driver(URI, auth=(USER, PASSWORD)) as driver:
    for time in ("first", "second"):
        with driver.session() as session:
            show(f"{time} session.run", *one(session, f"RETURN 'run {TAG}'"))
            show(f"{time} execute_read", *session.execute_read(one, f"RETURN 'read {TAG}'"))
            show(f"{time} execute_write that reads", *session.execute_write(one, f"RETURN 'write {TAG}'"))
            with driver.session(default_access_mode=READ_ACCESS) as reads, reads.begin_transaction() as tx:
                show(f"{time} transaction", *one(tx, f"RETURN 'transaction {TAG}'"))
            records, summary, _ = driver.execute_query(f"RETURN 'query {TAG}'", routing_="r")
            show(f"{time} execute_query", records[0][0], summary)
            # Over HTTP first: see the test.
            show(f"{time} filled over HTTP", *one(session, f"RETURN 'http {TAG}'"))
    with driver.session() as session:
        anew = Query(f"RETURN 'run {TAG}'", metadata={"hopcache": {"cache": "no-cache"}})
        show("no-cache", *one(session, anew))
        with session.begin_transaction() as tx:
            tx.run(f"CREATE (:{TAG})")
            show("behind a write", *one(tx, f"RETURN 'run {TAG}'"))
            tx.rollback()
