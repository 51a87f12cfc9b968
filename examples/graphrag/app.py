"""A GraphRAG loop: texts of the folder `documents`, entities in them, and what the graph knows about those.

For each question of questions.txt it
1. finds the two texts that fit best, by tf-idf (no model is asked, so this runs offline),
2. finds the entities of the graph in the question and in these texts: people, tags and cities,
3. reads the surroundings of each entity from the graph, and
4. prints the context that a program would now give to a model.

It goes through the questions twice, as two workers would. Questions share entities, so the graph is asked the same again and
again: the last lines count how many of the reads came from the cache.
"""
import math
import os
import re
import sys
from collections import Counter
from pathlib import Path

from neo4j import GraphDatabase, Query, RoutingControl

FOLDER = Path(__file__).parent
ROUNDS = 2
TEXTS_EACH = 2
STOPWORDS = set(
    "a after an and are by does for from he in is it of off on one or the they to was what when where which who".split()
)

TAGS = "MATCH (t:Tag) RETURN t.name AS name ORDER BY name"
CITIES = "MATCH (p:Person) RETURN DISTINCT p.city AS name ORDER BY name"
# Texts are constant and what varies is a parameter: text and parameters make the key of an entry.
PERSON = """
MATCH (p:Person {name: $name}) OPTIONAL MATCH (p)-[:KNOWS]-(friend:Person)
RETURN p.city AS city, count(friend) AS friends
"""
POSTS = """
MATCH (p:Person {name: $name})-[:POSTED]->(:Post)-[:TAGGED]->(tag:Tag)
RETURN tag.name AS tag, count(*) AS posts ORDER BY posts DESC, tag LIMIT 3
"""
TAG = """
MATCH (tag:Tag {name: $name})<-[:TAGGED]-(post:Post)<-[:POSTED]-(p:Person)
RETURN p.name AS person, count(post) AS posts ORDER BY posts DESC, person LIMIT 3
"""
CITY = """
MATCH (:Person {city: $name})-[:LIKES]->(:Post)-[:TAGGED]->(tag:Tag)
RETURN tag.name AS tag, count(*) AS likes ORDER BY likes DESC, tag LIMIT 3
"""


def words(text):
    return [word for word in re.findall(r"\w+", text.lower()) if word not in STOPWORDS]


class Texts:
    """The texts of a folder, and which of them fit a question."""

    def __init__(self, folder):
        self.texts = {path.stem: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.txt"))}
        self.counts = {name: Counter(words(text)) for name, text in self.texts.items()}
        self.with_word = Counter(word for counts in self.counts.values() for word in counts)

    def weight(self, word):
        return math.log((1 + len(self.texts)) / (1 + self.with_word[word])) + 1

    def vector(self, counts):
        vector = {word: count * self.weight(word) for word, count in counts.items()}
        length = math.sqrt(sum(value * value for value in vector.values())) or 1.0
        return {word: value / length for word, value in vector.items()}

    def nearest(self, question):
        """The names of the best texts with their scores: cosines between 0 and 1."""
        asked = self.vector(Counter(words(question)))
        scores = []
        for name, counts in self.counts.items():
            vector = self.vector(counts)
            scores.append((sum(value * vector.get(word, 0.0) for word, value in asked.items()), name))
        best = sorted(scores, key=lambda scored: (-scored[0], scored[1]))[:TEXTS_EACH]
        return [(name, score) for score, name in best if score > 0]


class Graph:
    """Reads of the graph, counted."""

    def __init__(self, driver):
        self.driver = driver
        self.reads = self.hits = 0

    def read(self, session, statement, **parameters):
        # The session names the conversation: Hopcache learns from it which read follows which.
        query = Query(statement, metadata={"hopcache": {"session": session}})
        records, summary, _ = self.driver.execute_query(
            query, parameters, routing_=RoutingControl.READ, database_="neo4j"
        )
        self.reads += 1
        self.hits += "; hit" in summary.metadata.get("hopcache", "")
        return records

    def entities(self, session, text):
        """People, tags and cities that the text names."""
        named = set(re.findall(r"\w+", text))
        tags = [row["name"] for row in self.read(session, TAGS) if row["name"] in named | set(words(text))]
        cities = [row["name"] for row in self.read(session, CITIES) if row["name"] in named]
        people = sorted(set(re.findall(r"\b[A-Z]\w+ [A-Z]\w+\b", text)))
        return people, tags, cities

    def facts(self, session, people, tags, cities):
        """A sentence for each thing that the graph knows."""
        for name in people:
            for row in self.read(session, PERSON, name=name):
                yield f"{name} lives in {row['city']} and knows {row['friends']} people."
            for row in self.read(session, POSTS, name=name):
                yield f"{name} wrote {row['posts']} posts about {row['tag']}."
        for name in tags:
            for row in self.read(session, TAG, name=name):
                yield f"{row['person']} wrote {row['posts']} posts about {name}."
        for name in cities:
            liked = ", ".join(row["tag"] for row in self.read(session, CITY, name=name))
            yield f"People in {name} like posts about {liked}."


def answer(texts, graph, session, question):
    """The context for one question."""
    found = texts.nearest(question)
    passages = [texts.texts[name].strip() for name, _ in found]
    people, tags, cities = graph.entities(session, "\n".join([question, *passages]))
    # The same fact may be reached from a person and from a tag.
    facts = list(dict.fromkeys(graph.facts(session, people, tags, cities)))
    return found, people + tags + cities, passages, facts


def main():
    texts = Texts(FOLDER / "documents")
    questions = (FOLDER / "questions.txt").read_text(encoding="utf-8").split("\n")
    login = (os.environ["NEO4J_USER"], os.environ["NEO4J_PASSWORD"])
    counted = []
    with GraphDatabase.driver(os.environ["NEO4J_URI"], auth=login) as driver:
        for turn in range(ROUNDS):
            graph = Graph(driver)
            for number, question in enumerate(filter(None, questions)):
                reads, hits = graph.reads, graph.hits
                found, entities, passages, facts = answer(texts, graph, f"question-{turn}-{number}", question)
                print(f"\n{question}")
                print(f"  texts: {', '.join(f'{name} {score:.2f}' for name, score in found)}")
                print(f"  entities: {', '.join(entities)}")
                print(f"  graph reads: {graph.reads - reads}, from the cache: {graph.hits - hits}")
                # The context is the same in each round.
                if turn == 0:
                    for line in [*"\n".join(passages).split("\n"), *facts]:
                        print(f"  | {line}")
            counted.append((graph.reads, graph.hits))
    print()
    for turn, (reads, hits) in enumerate(counted):
        print(f"round {turn + 1}: {reads} graph reads, {hits} from the cache")
    # Questions share entities, so the first round has hits too. Nothing was written, so the second round has nothing else.
    (_, hits_first), (reads_last, hits_last) = counted[0], counted[-1]
    if hits_first == 0 or hits_last != reads_last:
        sys.exit("graphrag: the cache answered less than expected")
    print("graphrag: all as expected")


main()
