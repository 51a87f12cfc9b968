"""An application on neomodel: classes, queries, relationships, transactions. It reads right after it writes.

usage: app.py URL USER PASSWORD [twice]; `twice` reads everything two times, for the trial's second pass.
"""
import sys

from neomodel import (
    DateTimeProperty,
    IntegerProperty,
    Q,
    RelationshipFrom,
    RelationshipTo,
    StringProperty,
    StructuredNode,
    StructuredRel,
    config,
    db,
)
from neomodel.exceptions import DoesNotExist, UniqueProperty

URL, USER, PASSWORD = sys.argv[1:4]
scheme, address = URL.split("://")
config.DATABASE_URL = f"{scheme}://{USER}:{PASSWORD}@{address}"


def show(name, seen):
    print(f"{name}: {seen!r}", flush=True)


class HcLikes(StructuredRel):
    weight = IntegerProperty(default=1)


class HcTown(StructuredNode):
    name = StringProperty(unique_index=True, required=True)
    people = RelationshipFrom("HcPerson", "LIVES_IN")


class HcPerson(StructuredNode):
    name = StringProperty(unique_index=True, required=True)
    age = IntegerProperty(index=True, default=0)
    born = DateTimeProperty(default_now=True)
    town = RelationshipTo(HcTown, "LIVES_IN")
    likes = RelationshipTo("HcPerson", "LIKES", model=HcLikes)


def clear():
    db.cypher_query("MATCH (n) WHERE n:HcPerson OR n:HcTown DETACH DELETE n")


def ages(nodes):
    return sorted((node.name, node.age) for node in nodes)


def people():
    return HcPerson.nodes


def write_and_read():
    anna = HcPerson(name="Anna", age=30).save()
    show("by its name", HcPerson.nodes.get(name="Anna").age)
    anna.age = 31
    anna.save()
    show("changed", HcPerson.nodes.get(name="Anna").age)
    db.cypher_query("MATCH (p:HcPerson {name: 'Anna'}) SET p.age = 32")
    anna.refresh()
    show("refreshed", anna.age)
    HcPerson.create({"name": "Bo", "age": 20}, {"name": "Cy", "age": 40})
    show("all", ages(people().all()))
    show("count", len(HcPerson.nodes))
    HcPerson.get_or_create({"name": "Bo"}, {"name": "Di"})
    show("got or created", sorted(person.name for person in people().all()))
    HcPerson.create_or_update({"name": "Bo", "age": 21})
    show("created or updated", ages(people().filter(name="Bo")))
    try:
        HcPerson(name="Anna").save()
    except UniqueProperty:
        show("a second Anna", "refused")
    show("behind a refusal", len(HcPerson.nodes))
    show("older", ages(people().filter(age__gt=25)))
    show("one or other", ages(people().filter(Q(name="Bo") | Q(age__gte=40))))
    show("ordered", [person.name for person in people().order_by("-age")])
    show("first", people().first_or_none(name="Nobody"))
    HcPerson.nodes.get(name="Di").delete()
    show("deleted", sorted(person.name for person in people().all()))
    try:
        HcPerson.nodes.get(name="Di")
    except DoesNotExist:
        show("a deleted one", "not found")


def relationships():
    anna, bo, cy = (HcPerson.nodes.get(name=name) for name in ("Anna", "Bo", "Cy"))
    lund = HcTown(name="Lund").save()
    anna.town.connect(lund)
    show("connected", anna.town.is_connected(lund))
    bo.town.connect(lund)
    show("people of a town", ages(lund.people.all()))
    anna.likes.connect(bo, {"weight": 5})
    show("weight", anna.likes.relationship(bo).weight)
    weighed = anna.likes.relationship(bo)
    weighed.weight = 6
    weighed.save()
    show("weight later", anna.likes.relationship(bo).weight)
    anna.likes.connect(cy)
    show("liked", ages(anna.likes.all()))
    anna.likes.disconnect(bo)
    show("liked later", ages(anna.likes.all()))
    bo.town.disconnect_all()
    show("people of a town later", ages(lund.people.all()))


def transactions():
    with db.transaction:
        HcPerson(name="Ed").save()
        show("within", len(people().filter(name="Ed")))
    show("committed", len(people().filter(name="Ed")))
    try:
        with db.transaction:
            HcPerson(name="Flo").save()
            show("within the failing", len(people().filter(name="Flo")))
            raise KeyError("of the application")
    except KeyError:
        show("rolled back", len(people().filter(name="Flo")))
    with db.read_transaction:
        show("within a read", len(HcPerson.nodes))
    for _ in range(3):
        db.cypher_query("MERGE (p:HcPerson {name: 'Bo'}) SET p.age = p.age + 1")
        show(f"age {_}", db.cypher_query("MATCH (p:HcPerson {name: 'Bo'}) RETURN p.age")[0][0][0])
    try:
        db.cypher_query("RETRUN 1")
    except Exception as error:
        show("a syntax error", [type(error).__name__, getattr(error, "code", None)])


def reads(name):
    anna = HcPerson.nodes.get(name="Anna")
    lund = HcTown.nodes.get(name="Lund")
    show(name, [anna.age, ages(people().all()), len(HcPerson.nodes)])
    show(name, [ages(people().filter(age__gt=25)), ages(people().filter(Q(name="Bo") | Q(age__gte=40)))])
    show(name, [person.name for person in people().order_by("-age")])
    show(name, [people().first_or_none(name="Nobody"), ages(people().filter(name__startswith="A"))])
    show(name, [ages(people().exclude(name="Anna")), ages(people().filter(name__in=["Bo", "Cy"]))])
    show(name, [ages(lund.people.all()), len(lund.people), anna.town.is_connected(lund), anna.town.single().name])
    show(name, [anna.likes.relationship(HcPerson.nodes.get(name="Bo")).weight, ages(anna.likes.all())])
    show(name, sorted(person.name for person in lund.people.filter(age__gt=25)))
    show(name, ages(people()[0:2]))
    with db.read_transaction:
        show(name, len(HcPerson.nodes))
    show(name, db.cypher_query("MATCH (p:HcPerson)-[:LIVES_IN]->(t) RETURN t.name, count(p) AS n ORDER BY n")[0])


def twice():
    HcPerson.create({"name": "Anna", "age": 30}, {"name": "Bo", "age": 20}, {"name": "Cy", "age": 40})
    anna, bo = HcPerson.nodes.get(name="Anna"), HcPerson.nodes.get(name="Bo")
    lund = HcTown(name="Lund").save()
    anna.town.connect(lund)
    bo.town.connect(lund)
    anna.likes.connect(bo, {"weight": 5})
    for name in ("hcFirstPass", "hcSecondPass"):
        db.cypher_query(f"RETURN 1 AS {name}")
        reads(name)
    db.cypher_query("RETURN 1 AS hcOver")


clear()
db.install_all_labels(stdout=open("/dev/null", "w"))
if sys.argv[4:] == ["twice"]:
    twice()
    clear()
    db.close_connection()
    sys.exit()
write_and_read()
relationships()
transactions()
clear()
show("cleared", len(HcPerson.nodes))
db.close_connection()
