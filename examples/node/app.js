// A service about people and whom they know, on Express and Neo4j's JavaScript driver.
//
// It speaks to the database that NEO4J_URI names. Neo4j and Hopcache differ in that variable only. This driver does not
// hand out the summary's raw metadata, so the service cannot say which answers came from the cache.

const express = require('express')
const neo4j = require('neo4j-driver')

const PERSON = 'MATCH (p:Person {id: $id}) RETURN p.id AS id, p.name AS name, p.city AS city'

const FRIENDS = `
MATCH (:Person {id: $id})-[:KNOWS]-(friend:Person)
RETURN friend.id AS id, friend.name AS name, friend.city AS city ORDER BY name`

// Whom a person may know: the friends of friends, first those with the most friends in common.
const SUGGESTIONS = `
MATCH (p:Person {id: $id})-[:KNOWS]-(friend:Person)-[:KNOWS]-(other:Person)
WHERE other.id <> $id AND NOT (p)-[:KNOWS]-(other)
RETURN other.id AS id, other.name AS name, count(DISTINCT friend) AS inCommon
ORDER BY inCommon DESC, name LIMIT 5`

const BEFRIEND = `
MATCH (p:Person {id: $id}), (friend:Person {id: $friend})
MERGE (p)-[knows:KNOWS]-(friend) ON CREATE SET knows.since = 2026
RETURN friend.id AS id, friend.name AS name`

const UNFRIEND = `
MATCH (:Person {id: $id})-[knows:KNOWS]-(friend:Person {id: $friend})
DELETE knows RETURN friend.id AS id, friend.name AS name`

const { NEO4J_URI, NEO4J_USER, NEO4J_PASSWORD, PORT } = process.env
const login = neo4j.auth.basic(NEO4J_USER, NEO4J_PASSWORD)
const driver = neo4j.driver(NEO4J_URI, login, { disableLosslessIntegers: true })

async function read (statement, parameters) {
  const { records } = await driver.executeQuery(statement, parameters, { routing: 'READ', database: 'neo4j' })
  return records.map((record) => record.toObject())
}

// By auto-commit: the sample graph of `hopcache dev` has no explicit transactions that write. Neo4j has them.
// The session shares its bookmarks with the reads, so a read after the write sees it.
async function write (statement, parameters) {
  const session = driver.session({ database: 'neo4j', bookmarkManager: driver.executeQueryBookmarkManager })
  try {
    const { records } = await session.run(statement, parameters)
    return records.map((record) => record.toObject())
  } finally {
    await session.close()
  }
}

// A JavaScript number is a float, and 7.0 is another parameter than 7: `neo4j.int` makes an integer.
function number (text) {
  if (!/^\d{1,9}$/.test(text)) throw Object.assign(new Error(`a number, not ${text}`), { status: 400 })
  return neo4j.int(text)
}

function one (rows, response) {
  if (rows.length === 0) response.status(404).json({ error: 'no such person, or not a friend' })
  else response.json(rows[0])
}

const service = express()

service.get('/health', (request, response) => {
  response.json({ status: 'up' })
})

service.get('/people/:id', async ({ params }, response) => {
  one(await read(PERSON, { id: number(params.id) }), response)
})

service.get('/people/:id/friends', async ({ params }, response) => {
  response.json(await read(FRIENDS, { id: number(params.id) }))
})

service.get('/people/:id/suggestions', async ({ params }, response) => {
  response.json(await read(SUGGESTIONS, { id: number(params.id) }))
})

service.put('/people/:id/friends/:friend', async ({ params }, response) => {
  one(await write(BEFRIEND, { id: number(params.id), friend: number(params.friend) }), response)
})

service.delete('/people/:id/friends/:friend', async ({ params }, response) => {
  one(await write(UNFRIEND, { id: number(params.id), friend: number(params.friend) }), response)
})

const server = service.listen(Number(PORT), '127.0.0.1')

process.once('SIGTERM', () => {
  server.close(() => driver.close())
  server.closeIdleConnections()
})
