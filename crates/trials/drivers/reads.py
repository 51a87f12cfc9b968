"""Cached reads of Neo4j's Python driver, about one a second in each way that it reads, with a new and with a long-lived session.

usage: reads.py URI USER
Prints one line of JSON for each read: at (ms since 1970), took (ms), way, id, value, status, error.
"""
import json
import sys
import threading
import time

from neo4j import READ_ACCESS, WRITE_ACCESS, GraphDatabase

TEXT = "MATCH (k:Key {id: $id}) RETURN k.value AS value"
driver = GraphDatabase.driver(sys.argv[1], auth=(sys.argv[2], "any"))


def one(runner, id):
    result = runner.run(TEXT, id=id)
    value = result.single()[0]
    return value, result.consume().metadata.get("hopcache")


def query(access, id):
    records, summary, _ = driver.execute_query(TEXT, id=id, routing_=access)
    return records[0][0], summary.metadata.get("hopcache")


WAYS = {
    "managed read": (READ_ACCESS, lambda session, id: session.execute_read(one, id)),
    "managed write": (WRITE_ACCESS, lambda session, id: session.execute_write(one, id)),
    "auto-commit read": (READ_ACCESS, one),
    "auto-commit write": (WRITE_ACCESS, one),
}


def loop(way, read):
    n = 0
    while True:
        n, began, said = n + 1, time.time(), {}
        try:
            said["value"], said["status"] = read(n % 10)
        except Exception as error:
            said["error"] = f"{getattr(error, 'code', None) or type(error).__name__}: {str(error)[:100]}"
        took = time.time() - began
        line = {"at": int(began * 1000), "took": int(took * 1000), "way": way, "id": n % 10, **said}
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
        time.sleep(max(0, 1 - took))


def with_new(access, read):
    def one_session(id):
        with driver.session(default_access_mode=access) as session:
            return read(session, id)

    return one_session


loops = {"query read": lambda id: query("r", id), "query write": lambda id: query("w", id)}
for way, (access, read) in WAYS.items():
    loops[f"{way}, new session"] = with_new(access, read)
    session = driver.session(default_access_mode=access)
    loops[f"{way}, long-lived session"] = lambda id, session=session, read=read: read(session, id)
for way, read in loops.items():
    threading.Thread(target=loop, args=(way, read)).start()
