package people;

import java.util.Collection;
import java.util.Map;
import java.util.Optional;
import org.springframework.data.neo4j.core.Neo4jClient;
import org.springframework.stereotype.Repository;
import org.springframework.transaction.annotation.Transactional;

/**
 * What the service asks the graph.
 *
 * <p>Reads are in transactions that only read: Hopcache answers them from the cache too. Writes are by auto-commit: the sample
 * graph of {@code hopcache dev} has no explicit transactions that write. Neo4j has them.
 */
@Repository
public class People {
    private static final String PERSON = "MATCH (p:Person {id: $id}) RETURN p.id AS id, p.name AS name, p.city AS city";

    private static final String FRIENDS = """
            MATCH (:Person {id: $id})-[:KNOWS]-(friend:Person)
            RETURN friend.id AS id, friend.name AS name, friend.city AS city ORDER BY name""";

    /** Whom a person may know: the friends of friends, first those with the most friends in common. */
    private static final String SUGGESTIONS = """
            MATCH (p:Person {id: $id})-[:KNOWS]-(friend:Person)-[:KNOWS]-(other:Person)
            WHERE other.id <> $id AND NOT (p)-[:KNOWS]-(other)
            RETURN other.id AS id, other.name AS name, count(DISTINCT friend) AS inCommon
            ORDER BY inCommon DESC, name LIMIT 5""";

    private static final String BEFRIEND = """
            MATCH (p:Person {id: $id}), (friend:Person {id: $friend})
            MERGE (p)-[knows:KNOWS]-(friend) ON CREATE SET knows.since = 2026
            RETURN friend.id AS id, friend.name AS name""";

    private static final String UNFRIEND = """
            MATCH (:Person {id: $id})-[knows:KNOWS]-(friend:Person {id: $friend})
            DELETE knows RETURN friend.id AS id, friend.name AS name""";

    private final Neo4jClient graph;

    public People(Neo4jClient graph) {
        this.graph = graph;
    }

    @Transactional(readOnly = true)
    public Optional<Map<String, Object>> person(long id) {
        return graph.query(PERSON).bind(id).to("id").fetch().one();
    }

    @Transactional(readOnly = true)
    public Collection<Map<String, Object>> friends(long id) {
        return graph.query(FRIENDS).bind(id).to("id").fetch().all();
    }

    @Transactional(readOnly = true)
    public Collection<Map<String, Object>> suggestions(long id) {
        return graph.query(SUGGESTIONS).bind(id).to("id").fetch().all();
    }

    public Optional<Map<String, Object>> befriend(long id, long friend) {
        return graph.query(BEFRIEND).bind(id).to("id").bind(friend).to("friend").fetch().one();
    }

    public Optional<Map<String, Object>> unfriend(long id, long friend) {
        return graph.query(UNFRIEND).bind(id).to("id").bind(friend).to("friend").fetch().one();
    }
}
