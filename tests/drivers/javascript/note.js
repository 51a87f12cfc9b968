// Hit or miss, as an application sees it through Neo4j's JavaScript driver: by a notification that it asks for.
// usage: node note.js URI USER PASSWORD STATEMENT
// Prints [way, notifications, result_available_after in ms] for each way to run the statement, each twice.
const neo4j = require('neo4j-driver')
const [uri, user, password, statement] = process.argv.slice(2)
const asked = { metadata: { hopcache: { notify: true } } }

const ways = {
  'session.run': (session, text) => session.run(text, {}, asked),
  executeRead: (session, text) => session.executeRead(async (transaction) => transaction.run(text), asked),
  unasked: (session, text) => session.run(text)
}

async function main() {
  const driver = neo4j.driver(uri, neo4j.auth.basic(user, password))
  for (const [way, run] of Object.entries(ways)) {
    for (let turn = 0; turn < 2; turn++) {
      const session = driver.session({ defaultAccessMode: neo4j.session.READ })
      const { summary } = await run(session, statement.replace('WAY', way))
      const notes = summary.notifications.map((note) => [note.code, note.description])
      console.log(JSON.stringify([way, notes, neo4j.integer.toNumber(summary.resultAvailableAfter)]))
      await session.close()
    }
  }
  await driver.close()
}

main()
