"""Neo4j's Python driver as a client of a trial. Each order is a line of JSON on stdin. A thread of its own carries it out and
answers it by a line on stdout, which repeats the order's member "n".

usage: client.py URI USER
{"run": TEXT, "parameters": {…}, "mode": "READ"}        auto-commit: its rows and the text of Cache-Status
{"withdraw": ID, "amount": N, "work": SECONDS}          reads a balance, works, writes what is left
{"clients": COUNT, "seconds": SECONDS}                  such transactions without work, each client on an account of its own
"""
import json
import sys
import threading
import time

from neo4j import GraphDatabase

# The driver reads nested values recursively.
sys.setrecursionlimit(10_000)
READ = "MATCH (a:Account {id: $id}) RETURN a.balance AS balance"
WRITE = "MATCH (a:Account {id: $id}) SET a.balance = $balance"
driver = GraphDatabase.driver(sys.argv[1], auth=(sys.argv[2], "any"))


def one(runner, text, parameters):
    result = runner.run(text, parameters)
    rows = result.values()
    return rows, result.consume().metadata.get("hopcache")


def run(order, seen):
    with driver.session(default_access_mode=order.get("mode", "WRITE")) as session:
        rows, status = one(session, order["run"], order.get("parameters"))
    return {"rows": [row[:1] for row in rows] if "mode" in order else rows, "status": status}


def withdraw(order, seen):
    account = order["withdraw"]

    def work(tx):
        rows, status = one(tx, READ, {"id": account})
        seen.append([rows[0][0], status])
        time.sleep(order["work"])
        one(tx, WRITE, {"id": account, "balance": rows[0][0] - order["amount"]})

    with driver.session() as session:
        session.execute_write(work)
    return {}


def load(order, seen):
    counts, end = [0] * order["clients"], time.monotonic() + order["seconds"]

    def client(place):
        while time.monotonic() < end:
            withdraw({"withdraw": f"load {place}", "amount": 1, "work": 0}, [])
            counts[place] += 1

    threads = [threading.Thread(target=client, args=(place,)) for place in range(order["clients"])]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return {"committed": sum(counts)}


def carry_out(order):
    work = run if "run" in order else withdraw if "withdraw" in order else load
    seen = []
    try:
        answer = work(order, seen)
    except Exception as error:
        answer = {"error": getattr(error, "code", None) or type(error).__name__, "message": str(error)[:300]}
    print(json.dumps({"n": order["n"], "seen": seen, **answer}), flush=True)


driver.verify_connectivity()
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    threading.Thread(target=carry_out, args=(json.loads(line),), daemon=True).start()
