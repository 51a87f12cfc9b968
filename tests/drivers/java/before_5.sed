# Answers.java for drivers before 5.
/\/\/ since 5$/d
s/\bexecuteRead(/readTransaction(/
s/\bexecuteWrite(/writeTransaction(/
s/\bSimpleQueryRunner\b/QueryRunner/
s/session\.lastBookmarks()/List.of(session.lastBookmark())/
s/import org\.neo4j\.driver\.exceptions\.RetryableException;/import org.neo4j.driver.exceptions.TransientException;/
s/error instanceof RetryableException/error instanceof TransientException/
s/Bookmark\.from("garbage")/Bookmark.from(java.util.Set.of("garbage"))/
