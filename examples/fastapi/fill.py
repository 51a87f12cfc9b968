"""Copies the people of the sample graph of `hopcache dev`, and whom they know, to a Neo4j that has no :Person.

usage: fill.py FROM TO: Bolt addresses; NEO4J_USER and NEO4J_PASSWORD log on at both
"""
import os
import sys

from neo4j import GraphDatabase, RoutingControl

LOGIN = (os.environ["NEO4J_USER"], os.environ["NEO4J_PASSWORD"])
PEOPLE = "MATCH (p:Person) RETURN p.id AS id, p.name AS name, p.city AS city"
KNOWS = "MATCH (p:Person)-[knows:KNOWS]->(other:Person) RETURN p.id AS id, other.id AS other, knows.since AS since"


def read(driver, statement):
    return driver.execute_query(statement, routing_=RoutingControl.READ, database_="neo4j").records


source, target = sys.argv[1:3]
# An empty Neo4j warns that it has no such label.
quiet = {"auth": LOGIN, "notifications_min_severity": "OFF"}
with GraphDatabase.driver(source, **quiet) as sample, GraphDatabase.driver(target, **quiet) as neo4j:
    there = read(neo4j, "MATCH (p:Person) RETURN count(p) AS people")[0]["people"]
    if there > 0:
        print(f"{target} has {there} :Person: nothing is copied")
        sys.exit()
    people = [record.data() for record in read(sample, PEOPLE)]
    knows = [record.data() for record in read(sample, KNOWS)]
    neo4j.execute_query("CREATE INDEX person_id IF NOT EXISTS FOR (p:Person) ON (p.id)")
    neo4j.execute_query("UNWIND $people AS each CREATE (p:Person) SET p = each", people=people)
    neo4j.execute_query(
        """
        UNWIND $knows AS each
        MATCH (p:Person {id: each.id}), (other:Person {id: each.other})
        CREATE (p)-[:KNOWS {since: each.since}]->(other)
        """,
        knows=knows,
    )
    print(f"copied {len(people)} people and {len(knows)} pairs to {target}")
