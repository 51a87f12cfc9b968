"""An application on langchain-neo4j: a graph, a store of vectors, a history of messages, without any model.

usage: app.py URL USER PASSWORD [twice]; `twice` reads everything two times, for the trial's second pass.
"""
import sys
import warnings

from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.messages import AIMessage, HumanMessage
from langchain_neo4j import Neo4jChatMessageHistory, Neo4jGraph, Neo4jVector

warnings.simplefilter("ignore")
URL, USER, PASSWORD = sys.argv[1:4]
LOGIN = {"url": URL, "username": USER, "password": PASSWORD}


def show(name, seen):
    print(f"{name}: {seen!r}", flush=True)


def graph():
    graph = Neo4jGraph(**LOGIN, refresh_schema=False)
    graph.query("MATCH (n:HcChunk) DETACH DELETE n")
    graph.query("UNWIND range(1, 3) AS n CREATE (:HcChunk {n: n})")
    for time in ("first", "second"):
        show(f"{time}: graph", graph.query("MATCH (c:HcChunk) RETURN c.n AS n ORDER BY n"))
    graph.query("MATCH (c:HcChunk {n: 1}) SET c.n = $n", {"n": 7})
    show("changed", graph.query("MATCH (c:HcChunk) RETURN c.n AS n ORDER BY n"))
    try:
        graph.query("RETRUN 1")
    except Exception as error:
        show("a syntax error", type(error).__name__)
    try:
        graph.refresh_schema()
        show("schema", "HcChunk" in graph.schema)
    except Exception as error:
        show("schema", [type(error).__name__, str(error)[:160]])
    graph.query("MATCH (n:HcChunk) DETACH DELETE n")
    graph.close()


def vectors():
    documents = [Document(page_content=text, metadata={"place": place}) for place, text in enumerate(["one", "two", "three"])]
    store = Neo4jVector.from_documents(
        documents,
        DeterministicFakeEmbedding(size=16),
        **LOGIN,
        index_name="hcLangchain",
        node_label="HcLangchain",
        pre_delete_collection=True,
        ids=["a", "b", "c"],
    )
    store.query("CALL db.awaitIndexes(60)")
    for text in ("one", "two"):
        found = store.similarity_search_with_score(text, k=1)
        show(f"nearest to {text}", [(document.page_content, document.metadata, round(score, 3)) for document, score in found])
    store.add_texts(["four"], ids=["d"])
    show("added", [document.page_content for document in store.similarity_search("four", k=1)])
    again = Neo4jVector.from_existing_index(DeterministicFakeEmbedding(size=16), **LOGIN, index_name="hcLangchain")
    show("existing", [document.page_content for document in again.similarity_search("three", k=1)])
    store.query("DROP INDEX hcLangchain IF EXISTS")
    store.query("MATCH (n:HcLangchain) DETACH DELETE n")


def history():
    history = Neo4jChatMessageHistory(session_id="hc", **LOGIN)
    history.clear()
    show("no messages", history.messages)
    history.add_message(HumanMessage(content="hello"))
    show("one message", [message.content for message in history.messages])
    history.add_message(AIMessage(content="good day"))
    show("two messages", [message.content for message in history.messages])
    history.clear()
    show("cleared", history.messages)


def reads(name):
    """A start of an application of language models, and what it reads: the schema first, as its graph does unasked."""
    graph = Neo4jGraph(**LOGIN)
    graph.query(f"RETURN 1 AS {name}")
    graph.refresh_schema()
    show(name, "HcLangchain" in graph.schema)
    show(name, graph.query("MATCH (c:HcLangchain) RETURN c.text AS text ORDER BY text"))
    show(name, graph.query("MATCH (c:HcLangchain {id: $id}) RETURN c.text AS text", {"id": "a"}))
    store = Neo4jVector.from_existing_index(DeterministicFakeEmbedding(size=16), **LOGIN, index_name="hcLangchain")
    for text in ("one", "two"):
        show(name, [document.page_content for document in store.similarity_search(text, k=1)])
    kept = Neo4jChatMessageHistory(session_id="hc", **LOGIN)
    show(name, [message.content for message in kept.messages])
    graph.close()


def twice():
    documents = [Document(page_content=text, metadata={"place": place}) for place, text in enumerate(["one", "two"])]
    store = Neo4jVector.from_documents(
        documents,
        DeterministicFakeEmbedding(size=16),
        **LOGIN,
        index_name="hcLangchain",
        node_label="HcLangchain",
        pre_delete_collection=True,
        ids=["a", "b"],
    )
    store.query("CALL db.awaitIndexes(60)")
    history = Neo4jChatMessageHistory(session_id="hc", **LOGIN)
    history.add_message(HumanMessage(content="hello"))
    # The first one sets a property key that no node has: Neo4j makes it in a transaction of its own, which ends all proofs once.
    Neo4jChatMessageHistory(session_id="hc", **LOGIN)
    for name in ("hcFirstPass", "hcSecondPass"):
        reads(name)
    store.query("RETURN 1 AS hcOver")
    store.query("DROP INDEX hcLangchain IF EXISTS")
    store.query("MATCH (n:HcLangchain) DETACH DELETE n")
    history.clear()


if sys.argv[4:] == ["twice"]:
    twice()
else:
    graph()
    vectors()
    history()
