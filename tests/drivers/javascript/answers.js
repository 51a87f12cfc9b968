// What an application sees through Neo4j's JavaScript driver, as lines of JSON: the same from Neo4j and from Hopcache.
// usage: node answers.js URI USER PASSWORD LABEL
const neo4j = require('neo4j-driver')
const [uri, user, password, label] = process.argv.slice(2)

const show = (name, seen) =>
  console.log(JSON.stringify([name, seen], (_, value) => (typeof value === 'bigint' ? `${value}n` : value)))
const plain = (record) => record.keys.map((key) => [key, String(record.get(key)), neo4j.isInt(record.get(key))])
const summaryOf = (summary) => [
  summary.queryType,
  summary.database.name,
  summary.counters.updates(),
  summary.notifications.map((note) => note.code)
]

async function attempt(name, work) {
  try {
    show(name, await work())
  } catch (error) {
    show(name, [error.code, error.message, error.gqlStatus, error.retriable])
  }
}

const statements = [
  "RETURN null, 1, 1.5, 'é', [1, 2], {a: 1} AS map, date('2024-02-29'), datetime('2024-07-01T12:00:00[Europe/Stockholm]')",
  'UNWIND range(1, 3000) AS n RETURN n',
  `MATCH (n:${label}) RETURN n.n AS n ORDER BY n`,
  'RETURN 1 / 0',
  'RETRUN 1',
  'RETURN $missing',
  'MATCH (n:NoSuchLabelAtAll) RETURN n'
]

async function main() {
  const driver = neo4j.driver(uri, neo4j.auth.basic(user, password), { fetchSize: 100 })
  const info = await driver.getServerInfo()
  show('agent', info.agent.startsWith('Neo4j/5'))
  await driver.executeQuery(`UNWIND range(1, 4) AS i CREATE (:${label} {n: i})`)
  const session = driver.session()
  for (const text of statements) {
    for (const time of ['first', 'second']) {
      await attempt(`${time}: ${text}`, async () => {
        // A session of its own: bookmarks of the reads before would pass the cache by.
        const own = driver.session()
        const result = await own.run(text).finally(() => own.close())
        const rows = result.records.map(plain)
        return [rows.length, rows.slice(-3), summaryOf(result.summary)]
      })
    }
  }
  const count = (tx) => tx.run(`MATCH (n:${label}) RETURN count(n) AS n`).then((r) => r.records[0].get('n').toInt())
  show('executeRead', await session.executeRead(count))
  await session.executeWrite((tx) => tx.run(`CREATE (:${label} {n: 5})`))
  show('executeRead behind a write', await session.executeRead(count))
  const tx = session.beginTransaction()
  await tx.run(`CREATE (:${label} {n: 6})`)
  show('in the transaction', await count(tx))
  await tx.rollback()
  show('rolled back', await session.executeRead(count))
  await session.close()
  const reader = driver.session({ defaultAccessMode: neo4j.session.READ })
  await attempt('a write in a read session', () => reader.run(`CREATE (:${label})`))
  await reader.close()
  await driver.executeQuery(`MATCH (n:${label}) DETACH DELETE n`)
  await driver.close()
}

main().catch((error) => {
  console.error(error)
  process.exit(1)
})
