"""An application on neo4j-graphrag: an index of vectors, a full-text index, and retrievers, without any model.

usage: app.py URL USER PASSWORD [twice]; `twice` reads everything two times, for the trial's second pass.
"""
import sys

from neo4j import GraphDatabase
from neo4j_graphrag.embeddings.base import Embedder
from neo4j_graphrag.indexes import create_fulltext_index, create_vector_index, drop_index_if_exists, upsert_vectors
from neo4j_graphrag.retrievers import HybridRetriever, VectorCypherRetriever, VectorRetriever
from neo4j_graphrag.schema import get_structured_schema
from neo4j_graphrag.types import EntityType

URL, USER, PASSWORD = sys.argv[1:4]
DIMENSIONS = 8


def show(name, seen):
    print(f"{name}: {seen!r}", flush=True)


class Letters(Embedder):
    """A vector of how often letters stand in a text."""

    def embed_query(self, text):
        vector = [1.0] * DIMENSIONS
        for letter in text:
            vector[ord(letter) % DIMENSIONS] += 1.0
        return vector


def told(result):
    return sorted(str(item.content).split("'id'")[0][:200] for item in result.items)


def reads(driver, name):
    """A start of an application: its retrievers ask for the server's version and their indexes."""
    letters = Letters()
    driver.execute_query(f"RETURN 1 AS {name}")
    nearest = VectorRetriever(driver, "hcVectors", letters, return_properties=["text"])
    cypher = VectorCypherRetriever(driver, "hcVectors", "RETURN node.text AS text", letters)
    hybrid = HybridRetriever(driver, "hcVectors", "hcTexts", letters, return_properties=["text"])
    for text in ("caches and graphs", "zebra"):
        show(name, [told(retriever.search(query_text=text, top_k=2)) for retriever in (nearest, cypher, hybrid)])
    filtered = nearest.search(query_text="zebra", top_k=1, filters={"text": {"$ne": "a zebra"}})
    show(name, told(filtered))
    schema = get_structured_schema(driver)
    show(name, sorted(name for name in schema["node_props"] if name == "HcDocument"))


with GraphDatabase.driver(URL, auth=(USER, PASSWORD)) as driver:
    for name in ("hcVectors", "hcTexts"):
        drop_index_if_exists(driver, name)
    driver.execute_query("MATCH (n:HcDocument) DETACH DELETE n")
    create_vector_index(driver, "hcVectors", "HcDocument", "vector", DIMENSIONS, "cosine")
    create_fulltext_index(driver, "hcTexts", "HcDocument", ["text"])
    driver.execute_query("CALL db.awaitIndexes(60)")
    texts = ["graphs and caches", "caches and nodes", "a zebra"]
    for text in texts:
        driver.execute_query("CREATE (:HcDocument {text: $text})", text=text)
    rows = driver.execute_query("MATCH (d:HcDocument) RETURN elementId(d) AS id, d.text AS text ORDER BY text").records
    show("documents", [row["text"] for row in rows])
    letters = Letters()
    upsert_vectors(
        driver,
        ids=[row["id"] for row in rows],
        embedding_property="vector",
        embeddings=[letters.embed_query(row["text"]) for row in rows],
        entity_type=EntityType.NODE,
    )
    show("with vectors", driver.execute_query("MATCH (d:HcDocument) RETURN count(d.vector) AS n").records[0]["n"])
    driver.execute_query("CALL db.awaitIndexes(60)")
    if sys.argv[4:] == ["twice"]:
        for name in ("hcFirstPass", "hcSecondPass"):
            reads(driver, name)
        driver.execute_query("RETURN 1 AS hcOver")
        for name in ("hcVectors", "hcTexts"):
            drop_index_if_exists(driver, name)
        driver.execute_query("MATCH (n:HcDocument) DETACH DELETE n")
        sys.exit()
    nearest = VectorRetriever(driver, "hcVectors", letters, return_properties=["text"])
    for time in ("first", "second"):
        show(f"{time}: nearest", told(nearest.search(query_text="caches and graphs", top_k=2)))
    cypher = VectorCypherRetriever(driver, "hcVectors", "RETURN node.text AS text", letters)
    show("by cypher", told(cypher.search(query_text="zebra", top_k=1)))
    hybrid = HybridRetriever(driver, "hcVectors", "hcTexts", letters, return_properties=["text"])
    show("hybrid", told(hybrid.search(query_text="zebra", top_k=2)))
    driver.execute_query("MATCH (d:HcDocument {text: 'a zebra'}) DETACH DELETE d")
    show("deleted", told(nearest.search(query_text="zebra", top_k=3)))
    try:
        schema = get_structured_schema(driver)
        show("schema", sorted(name for name in schema["node_props"] if name == "HcDocument"))
    except Exception as error:
        show("schema", [type(error).__name__, str(error)[:120]])
    for name in ("hcVectors", "hcTexts"):
        drop_index_if_exists(driver, name)
    driver.execute_query("MATCH (n:HcDocument) DETACH DELETE n")
    show("cleared", driver.execute_query("MATCH (n:HcDocument) RETURN count(n) AS n").records[0]["n"])
