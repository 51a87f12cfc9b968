// What an application sees through Neo4j's JavaScript driver, as lines of JSON: the same from Neo4j and from Hopcache.
// usage: node answers.js URI USER PASSWORD LABEL STATEMENTS
const fs = require('fs')
const neo4j = require('neo4j-driver')
const [uri, user, password, label, file] = process.argv.slice(2)

const show = (name, seen) =>
  console.log(JSON.stringify([name, seen], (_, value) => (typeof value === 'bigint' ? `${value}n` : value)))
// A value with everything that a driver shows of it, but ids.
function plainValue(value) {
  if (neo4j.isNode(value)) return ['node', [...value.labels].sort(), plainValue(value.properties)]
  if (neo4j.isRelationship(value)) return ['relationship', value.type, plainValue(value.properties)]
  if (neo4j.isPath(value)) return value.segments.map((part) => [part.start, part.relationship, part.end].map(plainValue))
  if (Array.isArray(value)) return value.map(plainValue)
  if (value !== null && typeof value === 'object' && value.constructor === Object) {
    return Object.entries(value).map(([key, field]) => [key, plainValue(field)])
  }
  return [typeof value, String(value), neo4j.isInt(value)]
}
const plain = (record) => record.keys.map((key) => [key, plainValue(record.get(key))])
const summaryOf = (summary) => [
  summary.queryType,
  summary.database.name,
  summary.counters.updates(),
  summary.notifications.map((note) => [note.code, note.description]),
  summary.gqlStatusObjects.map((status) => [status.gqlStatus, status.statusDescription]), // since 5
  summary.plan && summary.plan.operatorType
]

async function attempt(name, work) {
  try {
    show(name, await work())
  } catch (error) {
    // A failed discovery tells the time.
    const message = error.message.replace(/currentTime=\d+/, '')
    show(name, [error.code, message, error.gqlStatus, error.retriable])
  }
}

const statements = fs.readFileSync(file, 'utf8').trim().replaceAll('LABEL', label).split('\n')
const parameters = {
  byte: new Int8Array([0, 1, -1]),
  text: 'é',
  list: [neo4j.int(1), 'x', null],
  map: { a: 1.5 },
  none: null,
  float: 1e300
}

const sessions = {
  'the database by its name': { database: 'neo4j' },
  'no such database': { database: 'nosuchdatabase' },
  'as another user': { impersonatedUser: 'somebody' },
  'a garbage bookmark': { bookmarks: ['garbage'] }
}

async function main() {
  const driver = neo4j.driver(uri, neo4j.auth.basic(user, password), { fetchSize: 100 })
  const session = driver.session()
  const { summary } = await session.run(`UNWIND range(1, 4) AS i CREATE (:${label} {n: i})`)
  show('agent', summary.server.agent.startsWith('Neo4j/5'))
  show('protocol', summary.server.protocolVersion)
  for (const text of statements) {
    for (const time of ['first', 'second']) {
      await attempt(`${time}: ${text}`, async () => {
        // A session of its own: bookmarks of the reads before would pass the cache by.
        const own = driver.session()
        const result = await own.run(text, parameters).finally(() => own.close())
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
  for (const [name, config] of Object.entries(sessions)) {
    const own = driver.session(config)
    await attempt(name, () => own.executeRead(count))
    await own.close()
  }
  const text = `MATCH (n:${label}) RETURN count(n) AS n`
  const eager = await driver.executeQuery(text, {}, { routing: 'READ' }) // since 5
  show('executeQuery', [eager.keys, eager.records.map(plain), summaryOf(eager.summary)]) // since 5
  const last = driver.session()
  await last.run(`MATCH (n:${label}) DETACH DELETE n`)
  await last.close()
  await driver.close()
  const wrong = neo4j.driver(uri, neo4j.auth.basic(user, 'not the password'))
  await attempt('a wrong password', () => wrong.verifyConnectivity())
  await wrong.close()
}

main().catch((error) => {
  console.error(error)
  process.exit(1)
})
