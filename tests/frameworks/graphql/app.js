// An application on @neo4j/graphql: mutations, queries, filters, nested writes, aggregations.
// usage: node app.js URL USER PASSWORD [twice]; `twice` reads everything two times, for the trial's second pass.
const { Neo4jGraphQL } = require('@neo4j/graphql')
const { graphql } = require('graphql')
const neo4j = require('neo4j-driver')
const [url, user, password, mode] = process.argv.slice(2)

const show = (name, seen) => console.log(`${name}: ${JSON.stringify(seen)}`)

const typeDefs = `
  type HcMovie @node {
    title: String!
    year: Int
    seen: DateTime
    at: Point
    actors: [HcActor!]! @relationship(type: "ACTED_IN", direction: IN, properties: "HcActedIn")
    titleLength: Int @cypher(statement: "RETURN size(this.title) AS n", columnName: "n")
  }
  type HcActor @node {
    name: String!
    movies: [HcMovie!]! @relationship(type: "ACTED_IN", direction: OUT, properties: "HcActedIn")
  }
  type HcActedIn @relationshipProperties { role: String }
`

const steps = {
  create: `mutation { createHcMovies(input: [
    { title: "One", year: 2001, seen: "2024-02-29T12:00:00Z", at: { longitude: 1.5, latitude: 2 },
      actors: { create: [{ node: { name: "Anna" }, edge: { role: "A" } }, { node: { name: "Bo" } }] } },
    { title: "Two", year: 2002 }
  ]) { info { nodesCreated relationshipsCreated } hcMovies { title year actors(sort: [{ name: ASC }]) { name } } } }`,
  all: '{ hcMovies(sort: [{ year: ASC }]) { title year seen at { longitude latitude } titleLength actors(sort: [{ name: ASC }]) { name } } }',
  'all again': '{ hcMovies(sort: [{ year: ASC }]) { title year actors(sort: [{ name: ASC }]) { name } } }',
  filtered: '{ hcMovies(where: { year: { gt: 2001 } }) { title } }',
  'by its actor': '{ hcMovies(where: { actors: { some: { name: { eq: "Anna" } } } }) { title } }',
  connection: '{ hcMoviesConnection(sort: [{ title: ASC }], first: 1) { totalCount pageInfo { hasNextPage } edges { node { title } } } }',
  properties: '{ hcMovies(where: { title: { eq: "One" } }) { actorsConnection(sort: [{ node: { name: ASC } }]) { edges { properties { role } node { name } } } } }',
  aggregate: '{ hcMoviesConnection { aggregate { count { nodes } node { year { min max } } } } }',
  update: 'mutation { updateHcMovies(where: { title: { eq: "Two" } }, update: { year: { set: 2010 } }) { info { nodesCreated } hcMovies { title year } } }',
  'after the update': '{ hcMovies(where: { title: { eq: "Two" } }) { title year } }',
  connect: `mutation { updateHcMovies(where: { title: { eq: "Two" } },
    update: { actors: { connect: [{ where: { node: { name: { eq: "Bo" } } }, edge: { role: "B" } }] } }) { hcMovies { actors { name } } } }`,
  'after the connect': '{ hcActors(where: { name: { eq: "Bo" } }) { movies(sort: [{ title: ASC }]) { title } } }',
  disconnect: `mutation { updateHcMovies(where: { title: { eq: "One" } },
    update: { actors: { disconnect: [{ where: { node: { name: { eq: "Bo" } } } }] } }) { hcMovies { title } } }`,
  'after the disconnect': '{ hcActors(where: { name: { eq: "Bo" } }) { movies { title } } }',
  delete: 'mutation { deleteHcMovies(where: { title: { eq: "One" } }, delete: { actors: { where: {} } }) { nodesDeleted relationshipsDeleted } }',
  'after the delete': '{ hcMovies { title } hcActors { name } }',
  wrong: '{ hcMovies { nosuch } }'
}

const reads = [
  ...['all', 'all again', 'filtered', 'by its actor', 'connection', 'properties', 'aggregate'].map((name) => steps[name]),
  '{ hcActors(where: { name: { in: ["Anna", "Bo"] } }, sort: [{ name: ASC }]) { name movies { title year } } }',
  '{ hcActors(where: { movies: { all: { year: { gte: 2001 } } } }) { name } }',
  '{ hcMovies(where: { OR: [{ title: { contains: "w" } }, { year: { lt: 2002 } }] }, sort: [{ title: ASC }], limit: 1, offset: 1) { title } }',
  '{ hcMovies(sort: [{ title: ASC }]) { title actorsConnection { aggregate { count { nodes } } } } }'
]

// Each pass is a start of the application: the schema is made anew.
async function twice(driver) {
  for (const pass of ['hcFirstPass', 'hcSecondPass']) {
    await driver.executeQuery(`RETURN 1 AS ${pass}`)
    const neoSchema = new Neo4jGraphQL({ typeDefs, driver })
    const schema = await neoSchema.getSchema()
    await neoSchema.assertIndexesAndConstraints()
    for (const source of reads) {
      const { data, errors } = await graphql({ schema, source, contextValue: {} })
      show(pass, [data, (errors || []).map((error) => error.message)])
    }
  }
  await driver.executeQuery('RETURN 1 AS hcOver')
}

async function main() {
  const driver = neo4j.driver(url, neo4j.auth.basic(user, password))
  const clear = () => driver.executeQuery('MATCH (n) WHERE n:HcMovie OR n:HcActor DETACH DELETE n')
  await clear()
  const neoSchema = new Neo4jGraphQL({ typeDefs, driver })
  const schema = await neoSchema.getSchema()
  await neoSchema.assertIndexesAndConstraints()
  if (mode === 'twice') {
    await graphql({ schema, source: steps.create, contextValue: {} })
    await twice(driver)
  }
  for (const [name, source] of mode === 'twice' ? [] : Object.entries(steps)) {
    const { data, errors } = await graphql({ schema, source, contextValue: {} })
    show(name, [data, (errors || []).map((error) => error.message)])
  }
  await clear()
  await driver.close()
}

main().catch((error) => {
  console.error(error)
  process.exit(1)
})
