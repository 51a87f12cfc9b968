"""A service about people and whom they know, on FastAPI and Neo4j's Python driver.

It speaks to the database that NEO4J_URI names. Neo4j and Hopcache differ in that variable only.
"""
import os
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException, Request, Response
from neo4j import GraphDatabase, RoutingControl

PERSON = "MATCH (p:Person {id: $id}) RETURN p.id AS id, p.name AS name, p.city AS city"

FRIENDS = """
MATCH (:Person {id: $id})-[:KNOWS]-(friend:Person)
RETURN friend.id AS id, friend.name AS name, friend.city AS city ORDER BY name
"""

# Whom a person may know: the friends of friends, first those with the most friends in common.
SUGGESTIONS = """
MATCH (p:Person {id: $id})-[:KNOWS]-(friend:Person)-[:KNOWS]-(other:Person)
WHERE other.id <> $id AND NOT (p)-[:KNOWS]-(other)
RETURN other.id AS id, other.name AS name, count(DISTINCT friend) AS in_common
ORDER BY in_common DESC, name LIMIT 5
"""

# Whom a person should meet: those who are three steps away by the most ways. Costly, and five lines long.
INTRODUCTIONS = """
MATCH (p:Person {id: $id})-[:KNOWS]-(:Person)-[:KNOWS]-(:Person)-[:KNOWS]-(other:Person)
WITH p, other, count(*) AS ways WHERE other <> p AND NOT (p)-[:KNOWS]-(other)
RETURN other.id AS id, other.name AS name, ways ORDER BY ways DESC, name LIMIT 5
"""

SEEN = "MATCH (p:Person {id: $id}) SET p.seen = timestamp() RETURN p.id AS id"

BEFRIEND = """
MATCH (p:Person {id: $id}), (friend:Person {id: $friend})
MERGE (p)-[knows:KNOWS]-(friend) ON CREATE SET knows.since = 2026
RETURN friend.id AS id, friend.name AS name
"""

UNFRIEND = """
MATCH (:Person {id: $id})-[knows:KNOWS]-(friend:Person {id: $friend})
DELETE knows RETURN friend.id AS id, friend.name AS name
"""


@asynccontextmanager
async def lifespan(service):
    login = (os.environ["NEO4J_USER"], os.environ["NEO4J_PASSWORD"])
    with GraphDatabase.driver(os.environ["NEO4J_URI"], auth=login) as driver:
        service.state.driver = driver
        yield


service = FastAPI(lifespan=lifespan)


def say_what_the_cache_did(response, summary):
    """Hopcache tells it in the summary, in the words of the header `Cache-Status`. Neo4j does not."""
    status = summary.metadata.get("hopcache")
    if status is None:
        return
    response.headers["cache-status"] = status
    if "; hit" in status:
        response.headers["x-cache"] = "hit"
    else:
        response.headers["x-cache"] = "bypass" if "fwd=bypass" in status else "miss"


def bookmarks_of(driver):
    """What the reads of all requests wait for: every write of the service before them, as `execute_query` does by itself. With
    BOOKMARKS=none they wait for nothing: one server, and Hopcache, show a write to whoever asks after it anyway.
    """
    return None if os.environ.get("BOOKMARKS") == "none" else driver.execute_query_bookmark_manager


def read(request, response, statement, **parameters):
    driver = request.app.state.driver
    records, summary, _ = driver.execute_query(
        statement, parameters, routing_=RoutingControl.READ, database_="neo4j", bookmark_manager_=bookmarks_of(driver)
    )
    say_what_the_cache_did(response, summary)
    return [record.data() for record in records]


def write(request, response, statement, **parameters):
    """By auto-commit: the sample graph of `hopcache dev` has no explicit transactions that write. Neo4j has them.

    The session shares its bookmarks with the reads, so a read after the write sees it.
    """
    driver = request.app.state.driver
    with driver.session(database="neo4j", bookmark_manager=bookmarks_of(driver)) as session:
        result = session.run(statement, parameters)
        rows = result.data()
        say_what_the_cache_did(response, result.consume())
    return rows


def one(rows):
    if not rows:
        raise HTTPException(404, "no such person, or not a friend")
    return rows[0]


@service.get("/health")
def health():
    return {"status": "up"}


@service.get("/people/{person}")
def person(person: int, request: Request, response: Response):
    return one(read(request, response, PERSON, id=person))


@service.get("/people/{person}/friends")
def friends(person: int, request: Request, response: Response):
    return read(request, response, FRIENDS, id=person)


@service.get("/people/{person}/suggestions")
def suggestions(person: int, request: Request, response: Response):
    return read(request, response, SUGGESTIONS, id=person)


@service.get("/people/{person}/introductions")
def introductions(person: int, request: Request, response: Response):
    return read(request, response, INTRODUCTIONS, id=person)


@service.put("/people/{person}/seen")
def seen(person: int, request: Request, response: Response):
    return one(write(request, response, SEEN, id=person))


@service.put("/people/{person}/friends/{friend}")
def befriend(person: int, friend: int, request: Request, response: Response):
    return one(write(request, response, BEFRIEND, id=person, friend=friend))


@service.delete("/people/{person}/friends/{friend}")
def unfriend(person: int, friend: int, request: Request, response: Response):
    return one(write(request, response, UNFRIEND, id=person, friend=friend))
