package app;

import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.neo4j.ogm.annotation.EndNode;
import org.neo4j.ogm.annotation.GeneratedValue;
import org.neo4j.ogm.annotation.Id;
import org.neo4j.ogm.annotation.NodeEntity;
import org.neo4j.ogm.annotation.Property;
import org.neo4j.ogm.annotation.Relationship;
import org.neo4j.ogm.annotation.RelationshipEntity;
import org.neo4j.ogm.annotation.StartNode;
import org.neo4j.ogm.annotation.Version;
import org.neo4j.ogm.config.Configuration;
import org.neo4j.ogm.cypher.ComparisonOperator;
import org.neo4j.ogm.cypher.Filter;
import org.neo4j.ogm.session.Session;
import org.neo4j.ogm.session.SessionFactory;

/**
 * An application on Neo4j-OGM: entities, filters, relationships, versions, transactions. It reads right after it writes.
 *
 * <p>usage: App URL USER PASSWORD
 */
public final class App {
    @NodeEntity("HcOgmTown")
    public static class Town {
        @Id @GeneratedValue public Long id;
        @Property public String name;
        @Relationship(type = "LIVES_IN", direction = Relationship.Direction.INCOMING)
        public Set<Person> people = new HashSet<>();
    }

    @NodeEntity("HcOgmPerson")
    public static class Person {
        @Id @GeneratedValue public Long id;
        @Version public Long version;
        public String name;
        public int age;
        @Relationship(type = "LIVES_IN") public Town town;
        @Relationship(type = "LIKES") public Set<Likes> likes = new HashSet<>();
    }

    @RelationshipEntity(type = "LIKES")
    public static class Likes {
        @Id @GeneratedValue public Long id;
        @StartNode public Person from;
        @EndNode public Person to;
        public int weight;
    }

    private interface Work {
        Object run();
    }

    private static void show(String name, Work work) {
        Object seen;
        try {
            seen = work.run();
        } catch (RuntimeException error) {
            seen = error.getClass().getSimpleName();
        }
        System.out.println(name + ": " + seen);
    }

    private static Object ages(Collection<Person> people) {
        Set<String> shown = new TreeSet<>();
        people.forEach(person -> shown.add(person.name + " " + person.age));
        return shown;
    }

    private static Person named(Session session, String name) {
        session.clear();
        return session.loadAll(Person.class, new Filter("name", ComparisonOperator.EQUALS, name)).iterator().next();
    }

    private static Person saved(Session session, String name, int age) {
        Person person = new Person();
        person.name = name;
        person.age = age;
        session.save(person);
        return person;
    }

    public static void main(String[] args) {
        Configuration configuration =
                new Configuration.Builder().uri(args[0]).credentials(args[1], args[2]).build();
        SessionFactory factory = new SessionFactory(configuration, "app");
        Session session = factory.openSession();
        String clear = "MATCH (n) WHERE n:HcOgmPerson OR n:HcOgmTown DETACH DELETE n";
        session.query(clear, Map.of());
        entities(session);
        relationships(session);
        transactions(session, factory);
        session.query(clear, Map.of());
        session.clear();
        show("cleared", () -> session.countEntitiesOfType(Person.class));
        factory.close();
    }

    private static void entities(Session session) {
        saved(session, "Anna", 30);
        saved(session, "Bo", 20);
        show("by its name", () -> named(session, "Anna").age);
        Person anna = named(session, "Anna");
        anna.age = 31;
        session.save(anna);
        show("changed", () -> named(session, "Anna").age);
        show("version", () -> named(session, "Anna").version);
        show("all", () -> ages(session.loadAll(Person.class)));
        show("count", () -> session.countEntitiesOfType(Person.class));
        show("older", () -> ages(session.loadAll(Person.class, new Filter("age", ComparisonOperator.GREATER_THAN, 25))));
        session.query("MATCH (p:HcOgmPerson {name: 'Anna'}) SET p.age = 32", Map.of());
        show("by a query", () -> session.queryForObject(Integer.class, "MATCH (p:HcOgmPerson {name: $n}) RETURN p.age", Map.of("n", "Anna")));
        show("loaded later", () -> named(session, "Anna").age);
        saved(session, "Cy", 1);
        session.delete(named(session, "Cy"));
        session.clear();
        show("deleted", () -> ages(session.loadAll(Person.class)));
        show("a syntax error", () -> session.query("RETRUN 1", Map.of()));
    }

    private static void relationships(Session session) {
        Person anna = named(session, "Anna");
        Town lund = new Town();
        lund.name = "Lund";
        anna.town = lund;
        session.save(anna);
        Likes likes = new Likes();
        likes.from = named(session, "Anna");
        likes.to = session.loadAll(Person.class, new Filter("name", ComparisonOperator.EQUALS, "Bo")).iterator().next();
        likes.weight = 5;
        likes.from.likes.add(likes);
        session.save(likes.from);
        show("town", () -> named(session, "Anna").town.name);
        show("weight", () -> named(session, "Anna").likes.iterator().next().weight);
        Person later = named(session, "Anna");
        later.likes.iterator().next().weight = 6;
        session.save(later);
        show("weight later", () -> named(session, "Anna").likes.iterator().next().weight);
        session.clear();
        show("people of a town", () -> ages(session.loadAll(Town.class).iterator().next().people));
        Person last = named(session, "Anna");
        last.likes.clear();
        session.save(last);
        show("likes later", () -> named(session, "Anna").likes.size());
    }

    private static void transactions(Session session, SessionFactory factory) {
        try (var tx = session.beginTransaction()) {
            saved(session, "Di", 50);
            show("within", () -> session.countEntitiesOfType(Person.class));
            tx.rollback();
        }
        session.clear();
        show("rolled back", () -> session.countEntitiesOfType(Person.class));
        try (var tx = session.beginTransaction()) {
            saved(session, "Ed", 60);
            tx.commit();
        }
        show("committed", () -> factory.openSession().countEntitiesOfType(Person.class));
        Session first = factory.openSession();
        Session second = factory.openSession();
        Person one = named(first, "Ed");
        Person two = named(second, "Ed");
        one.age = 61;
        first.save(one);
        two.age = 62;
        show("an old version", () -> {
            second.save(two);
            return "saved";
        });
        show("behind it", () -> named(session, "Ed").age);
        for (int n = 0; n < 3; n++) {
            session.query("MATCH (p:HcOgmPerson {name: 'Bo'}) SET p.age = p.age + 1", Map.of());
            show("age " + n, () -> factory.openSession().queryForObject(Integer.class, "MATCH (p:HcOgmPerson {name: 'Bo'}) RETURN p.age", Map.of()));
        }
        show("ages", () -> ages(List.copyOf(factory.openSession().loadAll(Person.class))));
    }
}
