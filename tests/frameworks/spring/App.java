package app;

import java.time.LocalDate;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Optional;
import java.util.TreeSet;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.data.annotation.Version;
import org.springframework.data.domain.PageRequest;
import org.springframework.data.domain.Sort;
import org.springframework.data.neo4j.core.Neo4jClient;
import org.springframework.data.neo4j.core.Neo4jTemplate;
import org.springframework.data.neo4j.core.schema.GeneratedValue;
import org.springframework.data.neo4j.core.schema.Id;
import org.springframework.data.neo4j.core.schema.Node;
import org.springframework.data.neo4j.core.schema.Relationship;
import org.springframework.data.neo4j.core.schema.RelationshipId;
import org.springframework.data.neo4j.core.schema.RelationshipProperties;
import org.springframework.data.neo4j.core.schema.TargetNode;
import org.springframework.data.neo4j.repository.Neo4jRepository;
import org.springframework.data.neo4j.repository.config.EnableNeo4jRepositories;
import org.springframework.data.neo4j.repository.query.Query;
import org.springframework.transaction.PlatformTransactionManager;
import org.springframework.transaction.support.TransactionTemplate;

/**
 * An application on Spring Boot and Spring Data Neo4j: repositories, derived and own queries, relationships, versions,
 * transactions. It reads right after it writes.
 *
 * <p>usage: App URL USER PASSWORD [twice]; `twice` reads everything two times, for the trial's second pass.
 */
@SpringBootApplication
@EnableNeo4jRepositories(considerNestedRepositories = true)
public class App {
    @Node("HcSpringTown")
    public static class Town {
        @Id public String name;
        @Version public Long version;

        public Town(String name) {
            this.name = name;
        }
    }

    @RelationshipProperties
    public static class Likes {
        @RelationshipId public String id;
        public int weight;
        @TargetNode public Person to;

        public Likes(int weight, Person to) {
            this.weight = weight;
            this.to = to;
        }
    }

    @Node("HcSpringPerson")
    public static class Person {
        @Id @GeneratedValue public String id;
        @Version public Long version;
        public String name;
        public int age;
        public LocalDate born;
        @Relationship("LIVES_IN") public Town town;
        @Relationship("LIKES") public List<Likes> likes = new ArrayList<>();

        public Person(String name, int age) {
            this.name = name;
            this.age = age;
        }
    }

    public interface People extends Neo4jRepository<Person, String> {
        Optional<Person> findByName(String name);

        List<Person> findByAgeGreaterThanOrderByAge(int age);

        List<Person> findByTownName(String name);

        long countByAgeLessThan(int age);

        boolean existsByName(String name);

        long deleteByName(String name);

        @Query("MATCH (p:HcSpringPerson) WHERE p.age > $age RETURN p ORDER BY p.name")
        List<Person> older(int age);

        @Query("MATCH (p:HcSpringPerson {name: $name}) SET p.age = p.age + 1 RETURN p.age")
        int birthday(String name);
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
        TreeSet<String> shown = new TreeSet<>();
        people.forEach(person -> shown.add(person.name + " " + person.age));
        return shown;
    }

    public static void main(String[] args) {
        SpringApplication application =
                new SpringApplicationBuilder(App.class).web(WebApplicationType.NONE).bannerMode(org.springframework.boot.Banner.Mode.OFF).build();
        try (ConfigurableApplicationContext context = application.run(
                "--spring.neo4j.uri=" + args[0],
                "--spring.neo4j.authentication.username=" + args[1],
                "--spring.neo4j.authentication.password=" + args[2],
                "--logging.level.root=ERROR")) {
            People people = context.getBean(People.class);
            Neo4jClient client = context.getBean(Neo4jClient.class);
            var transactions = new TransactionTemplate(context.getBean(PlatformTransactionManager.class));
            String clear = "MATCH (n) WHERE n:HcSpringPerson OR n:HcSpringTown DETACH DELETE n";
            client.query(clear).run();
            if (args.length > 3 && args[3].equals("twice")) {
                twice(people, client, context.getBean(Neo4jTemplate.class));
                client.query(clear).run();
                return;
            }
            repositories(people);
            relationships(people, context.getBean(Neo4jTemplate.class));
            transactions(people, client, transactions);
            client.query(clear).run();
            show("cleared", people::count);
        }
    }

    private static void twice(People people, Neo4jClient client, Neo4jTemplate template) {
        Person anna = new Person("Anna", 30);
        Person bo = people.save(new Person("Bo", 20));
        anna.born = LocalDate.of(1990, 2, 28);
        anna.town = new Town("Lund");
        anna.likes.add(new Likes(5, bo));
        people.save(anna);
        people.save(new Person("Cy", 40));
        for (String pass : List.of("hcFirstPass", "hcSecondPass")) {
            client.query("RETURN 1 AS " + pass).run();
            reads(pass, people, client, template);
        }
        client.query("RETURN 1 AS hcOver").run();
    }

    private static void reads(String pass, People people, Neo4jClient client, Neo4jTemplate template) {
        show(pass, () -> people.findByName("Anna").orElseThrow().likes.get(0).weight);
        show(pass, () -> people.findById(people.findByName("Bo").orElseThrow().id).orElseThrow().name);
        show(pass, () -> ages(people.findAll()));
        show(pass, people::count);
        show(pass, () -> ages(people.findByAgeGreaterThanOrderByAge(25)));
        show(pass, () -> ages(people.findByTownName("Lund")));
        show(pass, () -> people.countByAgeLessThan(25));
        show(pass, () -> people.existsByName("Cy"));
        show(pass, () -> ages(people.older(25)));
        show(pass, () -> ages(people.findAll(PageRequest.of(0, 2, Sort.by("name"))).getContent()));
        show(pass, () -> ages(people.findAll(Sort.by("age"))));
        show(pass, () -> template.count(Town.class));
        show(pass, () -> template.findById("Lund", Town.class).orElseThrow().name);
        show(pass, () -> client.query("MATCH (p:HcSpringPerson {name: $name}) RETURN p.age").bind("Bo").to("name").fetchAs(Long.class).one().orElseThrow());
    }

    private static void repositories(People people) {
        Person anna = new Person("Anna", 30);
        anna.born = LocalDate.of(1990, 2, 28);
        people.save(anna);
        people.saveAll(List.of(new Person("Bo", 20), new Person("Cy", 40)));
        show("by its name", () -> people.findByName("Anna").orElseThrow().born);
        Person again = people.findByName("Anna").orElseThrow();
        again.age = 31;
        people.save(again);
        show("changed", () -> people.findByName("Anna").orElseThrow().age);
        show("version", () -> people.findByName("Anna").orElseThrow().version);
        show("all", () -> ages(people.findAll()));
        show("count", people::count);
        show("by id", () -> people.findById(people.findByName("Bo").orElseThrow().id).orElseThrow().name);
        show("older", () -> ages(people.findByAgeGreaterThanOrderByAge(25)));
        show("older by a query", () -> ages(people.older(25)));
        show("younger", () -> people.countByAgeLessThan(25));
        show("a page", () -> ages(people.findAll(PageRequest.of(0, 2, Sort.by("name"))).getContent()));
        show("birthday", () -> people.birthday("Bo"));
        show("behind a birthday", () -> people.findByName("Bo").orElseThrow().age);
        people.save(new Person("Di", 50));
        show("exists", () -> people.existsByName("Di"));
        show("deleted", () -> people.deleteByName("Di"));
        show("exists later", () -> people.existsByName("Di"));
        show("an old version", () -> {
            Person one = people.findByName("Cy").orElseThrow();
            Person two = people.findByName("Cy").orElseThrow();
            one.age = 41;
            people.save(one);
            two.age = 42;
            return people.save(two).age;
        });
        show("behind it", () -> people.findByName("Cy").orElseThrow().age);
    }

    private static void relationships(People people, Neo4jTemplate template) {
        Person anna = people.findByName("Anna").orElseThrow();
        anna.town = new Town("Lund");
        anna.likes.add(new Likes(5, people.findByName("Bo").orElseThrow()));
        people.save(anna);
        show("town", () -> people.findByName("Anna").orElseThrow().town.name);
        show("weight", () -> people.findByName("Anna").orElseThrow().likes.get(0).weight);
        show("by its town", () -> ages(people.findByTownName("Lund")));
        Person later = people.findByName("Anna").orElseThrow();
        later.likes.get(0).weight = 6;
        people.save(later);
        show("weight later", () -> people.findByName("Anna").orElseThrow().likes.get(0).weight);
        Person last = people.findByName("Anna").orElseThrow();
        last.likes.clear();
        last.town = null;
        people.save(last);
        show("likes later", () -> people.findByName("Anna").orElseThrow().likes.size());
        show("by its town later", () -> ages(people.findByTownName("Lund")));
        show("towns", () -> template.count(Town.class));
    }

    private static void transactions(People people, Neo4jClient client, TransactionTemplate transactions) {
        show("within and rolled back", () -> transactions.execute(status -> {
            people.save(new Person("Ed", 60));
            long within = people.count();
            status.setRollbackOnly();
            return within;
        }));
        show("rolled back", people::count);
        show("within and committed", () -> transactions.execute(status -> {
            people.save(new Person("Ed", 60));
            return people.count();
        }));
        show("committed", people::count);
        for (int n = 0; n < 3; n++) {
            client.query("MATCH (p:HcSpringPerson {name: 'Ed'}) SET p.age = p.age + 1").run();
            show("age " + n, () -> client.query("MATCH (p:HcSpringPerson {name: 'Ed'}) RETURN p.age").fetchAs(Long.class).one().orElseThrow());
        }
        show("a syntax error", () -> client.query("RETRUN 1").run());
    }
}
