# answers.go for version 4 of the driver, behind before_6.sed.
/\/\/ since 5$/d
s#// before 5: ##
s#neo4j-go-driver/v5#neo4j-go-driver/v4#
/^\t"context"$/d
/^\tctx  *= context\./d
s/\bctx, //g
s/(ctx)/()/g
s/WithContext\b//g
s/\bneo4j\.ManagedTransaction\b/neo4j.Transaction/
s/\bExecuteRead(/ReadTransaction(/
s/\bExecuteWrite(/WriteTransaction(/
s/\bneo4j\.IsRetryable(err)/neo4j.IsNeo4jError(err)/
