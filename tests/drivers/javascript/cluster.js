// Transactions while nodes leave, die and come: what the driver's own retries did not absorb is an error. As python/cluster.py.
// usage: node cluster.js URI USER PASSWORD LABEL
const neo4j = require('neo4j-driver')
const [uri, user, password, label] = process.argv.slice(2)
const half = Number(process.env.HOPCACHE_TEST_TRANSACTIONS ?? 60)
const clients = Number(process.env.HOPCACHE_TEST_DRIVER_THREADS ?? 4)

const driver = neo4j.driver(uri, neo4j.auth.basic(user, password))
const errors = []
const servers = new Set()
let done = 0
let over = false
let target = half
let reached

async function work(who) {
  for (let n = 1; !over; n++) {
    const session = driver.session()
    try {
      const read = await session.executeRead((tx) => tx.run(`RETURN 'read ${n % 7}'`))
      const write = await session.executeWrite((tx) => tx.run(`MERGE (n:${label} {who: ${who}}) SET n.n = ${n}`))
      done += 2
      for (const result of [read, write]) servers.add(String(result.summary.server.address))
    } catch (error) {
      errors.push(`${error.code}: ${error.message}`)
      if (errors.length > 20) over = true
    } finally {
      await session.close()
    }
    if ((done >= target || over) && reached) reached()
  }
}

const until = (count) =>
  new Promise((resolve) => {
    target = count
    reached = resolve
  })

async function main() {
  const ended = new Promise((resolve) => process.stdin.on('end', resolve).resume())
  const began = process.hrtime.bigint()
  const working = Array.from({ length: clients }, (_, who) => work(who))
  await until(half)
  console.log('begun')
  await ended
  await until(done + half)
  over = true
  await Promise.all(working)
  const seconds = Number(process.hrtime.bigint() - began) / 1e9
  await driver.close()
  console.log(JSON.stringify({ done, per_s: done / seconds, clients, errors, servers: [...servers].sort() }))
}

main()
