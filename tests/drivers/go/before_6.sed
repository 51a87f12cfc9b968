# answers.go for version 5 of the driver.
s#neo4j-go-driver/v6#neo4j-go-driver/v5#
s/\bneo4j\.NewDriver(/neo4j.NewDriverWithContext(/
s/\bneo4j\.Driver\b/neo4j.DriverWithContext/
s/\bneo4j\.Session\b/neo4j.SessionWithContext/
s/\bneo4j\.Result\b/neo4j.ResultWithContext/
s/\.QueryType()/.StatementType()/
