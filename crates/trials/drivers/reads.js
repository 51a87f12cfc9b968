// Cached reads of Neo4j's JavaScript driver, as reads.py.
// usage: node reads.js URI USER
const neo4j = require('neo4j-driver')
const [uri, user] = process.argv.slice(2)
const text = 'MATCH (k:Key {id: $id}) RETURN k.value AS value'
const driver = neo4j.driver(uri, neo4j.auth.basic(user, 'any'), { disableLosslessIntegers: true })

const valueOf = (result) => result.records[0].get('value')
const one = (runner, id) => runner.run(text, { id: neo4j.int(id) }).then(valueOf)
const query = (routing) => (id) => driver.executeQuery(text, { id: neo4j.int(id) }, { routing }).then(valueOf)
const { READ, WRITE } = neo4j.session
const ways = {
  'managed read': [READ, (session, id) => session.executeRead((tx) => one(tx, id))],
  'managed write': [WRITE, (session, id) => session.executeWrite((tx) => one(tx, id))],
  'auto-commit read': [READ, one],
  'auto-commit write': [WRITE, one]
}
const loops = { 'query read': query('READ'), 'query write': query('WRITE') }
for (const [way, [defaultAccessMode, read]] of Object.entries(ways)) {
  loops[`${way}, new session`] = async (id) => {
    const session = driver.session({ defaultAccessMode })
    return read(session, id).finally(() => session.close())
  }
  const session = driver.session({ defaultAccessMode })
  loops[`${way}, long-lived session`] = (id) => read(session, id)
}

async function loop(way, read) {
  for (let n = 1; ; n++) {
    const said = { at: Date.now(), way, id: n % 10 }
    try {
      said.value = await read(n % 10)
    } catch (error) {
      said.error = `${error.code}: ${error.message.slice(0, 100)}`
    }
    said.took = Date.now() - said.at
    console.log(JSON.stringify(said))
    await new Promise((resolve) => setTimeout(resolve, 1000 - said.took))
  }
}
Object.entries(loops).forEach(([way, read]) => loop(way, read))
