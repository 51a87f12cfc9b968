"""Transactions while nodes leave, die and come: what the driver's own retries did not absorb is an error.

usage: cluster.py URI USER PASSWORD LABEL
Prints "begun" once some are done, goes on until its stdin is closed and as many again are done, and prints what it saw.
HOPCACHE_TEST_CA: the file of an authority that has signed the server's certificate, for TLS.
HOPCACHE_TEST_TRANSACTIONS: how many make a half (60); HOPCACHE_TEST_DRIVER_THREADS: concurrent clients (4).
"""
import json
import os
import sys
import threading
import time

from neo4j import GraphDatabase, TrustCustomCAs

URI, USER, PASSWORD, LABEL = sys.argv[1:5]
HALF = int(os.environ.get("HOPCACHE_TEST_TRANSACTIONS", "60"))
CA = os.environ.get("HOPCACHE_TEST_CA")
TLS = {"encrypted": True, "trusted_certificates": TrustCustomCAs(CA)} if CA else {}
CLIENTS = int(os.environ.get("HOPCACHE_TEST_DRIVER_THREADS", "4"))
over = threading.Event()
done, errors, servers = 0, [], set()
lock = threading.Lock()


def work(driver, who):
    global done
    n = 0
    while not over.is_set():
        n += 1
        try:
            with driver.session() as session:
                read = session.execute_read(lambda tx: tx.run(f"RETURN 'read {n % 7}'").consume())
                write = session.execute_write(lambda tx: tx.run(f"MERGE (n:{LABEL} {{who: {who}}}) SET n.n = {n}").consume())
            with lock:
                done += 2
                servers.update(f"{summary.server.address}" for summary in (read, write))
        except Exception as error:
            with lock:
                errors.append(repr(error))
                if len(errors) > 20:
                    over.set()


def until(count):
    while done < count and not over.is_set():
        time.sleep(0.01)


with GraphDatabase.driver(URI, auth=(USER, PASSWORD), **TLS) as driver:
    threads = [threading.Thread(target=work, args=(driver, who)) for who in range(CLIENTS)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    until(HALF)
    print("begun", flush=True)
    sys.stdin.read()
    until(done + HALF)
    over.set()
    for thread in threads:
        thread.join()
    seconds = time.monotonic() - began
print(json.dumps({"done": done, "per_s": done / seconds, "clients": CLIENTS, "errors": errors, "servers": sorted(servers)}))
