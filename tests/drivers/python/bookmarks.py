"""One session that only reads, in rounds: auto-commit, managed and explicit transactions. Python's driver chains bookmarks.

usage: bookmarks.py URI USER PASSWORD TAG
Prints one line of JSON for each read: [round, the text of Cache-Status, bookmarks that the session has then].
"""
import json
import sys

from neo4j import READ_ACCESS, GraphDatabase

URI, USER, PASSWORD, TAG = sys.argv[1:5]


def one(tx, text):
    result = tx.run(text)
    result.single()
    return result.consume().metadata["hopcache"]


with GraphDatabase.driver(URI, auth=(USER, PASSWORD)) as driver, driver.session(default_access_mode=READ_ACCESS) as session:
    for round in range(3):
        for place in range(9):
            text = f"RETURN 'bolt {TAG} {place}'"
            if place % 3 == 0:
                status = one(session, text)
            elif place % 3 == 1:
                status = session.execute_read(one, text)
            else:
                with session.begin_transaction() as tx:
                    status = one(tx, text)
                    tx.commit()
            print(json.dumps([round, status, len(session.last_bookmarks().raw_values)]), flush=True)
