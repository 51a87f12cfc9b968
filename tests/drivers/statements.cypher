RETURN null, true, 1, -9223372036854775808, 1.5, 'aé😀', [1, [2, 'x']], {a: {b: 1}} AS map
RETURN $byte AS byte, $text AS text, $list AS list, $map AS map, $none AS none, $float AS float
RETURN date('2024-02-29'), time('12:00:00.5+02:00'), localtime('12:00'), localdatetime('2024-02-29T12:00:00.5')
RETURN datetime('2024-07-01T12:34:56[Europe/Stockholm]') AS zone, datetime('2024-07-01T12:34:56+02:00') AS offset
RETURN duration('P1Y2M10DT2H30M5.25S'), point({x: 1.5, y: 2}), point({longitude: 1, latitude: 2, height: 3})
MATCH (n:LABEL) RETURN n ORDER BY n.n
MATCH p = (:LABEL {n: 1})-[r:NEXT]->(m) RETURN p, r, m
MATCH (n:LABEL) WHERE n.n > 100 RETURN n.n AS none
UNWIND range(1, 2500) AS n RETURN n, 'row ' + n AS text
UNWIND [] AS n RETURN n AS zero, 1 AS one
MATCH (a:LABEL), (b:LABEL) RETURN count(*) AS cartesian
MATCH (n:NoSuchLabelAtAll) RETURN n
RETURN 1 / 0
UNWIND [1, 2, 0] AS n RETURN 2 / n
RETURN $missing
RETRUN 1
RETURN nosuch(1)
RETURN date('not a date')
MATCH (n:LABEL {n: 1}) SET n.seen = 1
CREATE (n:LABELExtra {n: 1})-[:NEXT]->(m:LABELExtra) RETURN n.n AS n
MATCH (n:LABELExtra) DETACH DELETE n
EXPLAIN MATCH (n:LABEL) RETURN n.n
CALL db.labels() YIELD label RETURN count(label) > 0 AS some
SHOW DATABASES YIELD name, currentStatus ORDER BY name
