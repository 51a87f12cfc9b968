package people;

import java.util.Collection;
import java.util.Map;
import org.springframework.http.ResponseEntity;
import org.springframework.web.bind.annotation.DeleteMapping;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.PutMapping;
import org.springframework.web.bind.annotation.RestController;

/**
 * The paths of the service. Neo4j's Java driver does not hand out the summary's raw metadata, so the service cannot say which
 * answers came from the cache.
 */
@RestController
public class PeopleController {
    private final People people;

    public PeopleController(People people) {
        this.people = people;
    }

    @GetMapping("/health")
    public Map<String, String> health() {
        return Map.of("status", "up");
    }

    @GetMapping("/people/{id}")
    public ResponseEntity<Map<String, Object>> person(@PathVariable("id") long id) {
        return ResponseEntity.of(people.person(id));
    }

    @GetMapping("/people/{id}/friends")
    public Collection<Map<String, Object>> friends(@PathVariable("id") long id) {
        return people.friends(id);
    }

    @GetMapping("/people/{id}/suggestions")
    public Collection<Map<String, Object>> suggestions(@PathVariable("id") long id) {
        return people.suggestions(id);
    }

    @PutMapping("/people/{id}/friends/{friend}")
    public ResponseEntity<Map<String, Object>> befriend(@PathVariable("id") long id, @PathVariable("friend") long friend) {
        return ResponseEntity.of(people.befriend(id, friend));
    }

    @DeleteMapping("/people/{id}/friends/{friend}")
    public ResponseEntity<Map<String, Object>> unfriend(@PathVariable("id") long id, @PathVariable("friend") long friend) {
        return ResponseEntity.of(people.unfriend(id, friend));
    }
}
