// Loads an application's data into Neo4j, or replays its trace through Neo4j's JavaScript driver (`hopcache-bench apps`).
// usage: HOPCACHE_BENCH_DRIVER=FOLDER node replay.mjs; FOLDER/node_modules holds neo4j-driver.
// The first line of stdin is the job, as JSON. A replay prints `"ready"`, waits for a second line, and prints what it measured;
// a load prints how many statements it ran. `crates/bench/src/apps/replay.rs` starts this program and says what a job holds.
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'

const neo4j = createRequire(`${process.env.HOPCACHE_BENCH_DRIVER}/`)('neo4j-driver')
const { READ, WRITE } = neo4j.session
// Writes of the traces, in percent of all statements.
const TRACED = 5
// Messages of errors that the result keeps.
const MESSAGES = 5

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]()
const nextLine = async () => (await lines.next()).value
const print = (value) => process.stdout.write(`${JSON.stringify(value)}\n`)
const entriesOf = (file) => readFileSync(file, 'utf8').split('\n').filter(Boolean).map((line) => JSON.parse(line))

// Numbers of the traces are whole: the driver would send a JavaScript number as a float.
function parameter(value) {
  if (typeof value === 'number') return Number.isInteger(value) ? neo4j.int(value) : value
  if (Array.isArray(value)) return value.map(parameter)
  if (value === null || typeof value !== 'object') return value
  return Object.fromEntries(Object.entries(value).map(([key, field]) => [key, parameter(field)]))
}

// ---- load

async function load(job) {
  const driver = neo4j.driver(job.uris[0], neo4j.auth.basic(job.user, job.password))
  const session = driver.session({ database: job.database })
  const run = async (text, parameters) => (await session.run(text, parameters)).records
  const names = async (text) => (await run(text)).map((record) => record.get('name'))
  const held = (await run('MATCH (n) RETURN count(n) AS held'))[0].get('held').toInt()
  const constraints = await names('SHOW CONSTRAINTS YIELD name RETURN name')
  if (!job.wipe && (held > 0 || constraints.length > 0)) {
    throw new Error(`the Neo4j at ${job.uris[0]} holds ${held} nodes and ${constraints.length} constraints, and this
benchmark deletes all that a database holds: name an empty Neo4j, or allow the deletion with --wipe`)
  }
  for (const name of constraints) await run(`DROP CONSTRAINT \`${name}\``)
  const indexes = await names("SHOW INDEXES YIELD name, type WHERE type <> 'LOOKUP' RETURN name")
  for (const name of indexes) await run(`DROP INDEX \`${name}\``)
  await run('MATCH (n) CALL { WITH n DETACH DELETE n } IN TRANSACTIONS OF 5000 ROWS')
  const statements = job.load === null ? [] : entriesOf(job.load)
  for (const { statement, parameters } of statements) await run(statement, parameter(parameters))
  await session.close()
  await driver.close()
  print({ loaded: statements.length })
}

// ---- trace

// Pages of the trace with this share of writes. Statements keep their places: a write that is left out is `null`.
function pagesOf(job) {
  const isWriteKept = (number) => job.writes > 0 && number % Math.round(TRACED / job.writes) === 0
  const pages = []
  let [writes, number] = [0, null]
  for (const [line, entry] of entriesOf(job.trace).entries()) {
    if (entry.page !== number) {
      number = entry.page
      pages.push({ session: entry.session, entries: [] })
    }
    const isKept = entry.mode !== 'w' || isWriteKept(writes++)
    pages.at(-1).entries.push(isKept ? { ...entry, line } : null)
  }
  const kept = pages.filter((page) => page.entries.some(Boolean)).slice(0, job.pages ?? undefined)
  const sessions = new Map()
  for (const page of kept) {
    if (!sessions.has(page.session)) sessions.set(page.session, sessions.size)
    page.turn = sessions.get(page.session)
  }
  return kept
}

// ---- parameters that an earlier result of the page gives

// Thrown where the row or the value that a parameter names is missing.
class Missing extends Error {}

function step(value, name) {
  if (neo4j.isNode(value) || neo4j.isRelationship(value)) {
    return name === 'elementId' ? value.elementId : value.properties[name]
  }
  return Array.isArray(value) ? value[Number(name)] : value?.[name]
}

function follow(record, [column, ...steps]) {
  const value = steps.reduce(step, record?.has(column) ? record.get(column) : undefined)
  if (value === undefined || value === null) throw new Missing()
  return value
}

function rowsAt(results, place) {
  const rows = results[Number(place)]
  if (rows === undefined) throw new Missing()
  return rows
}

function resolve(value, results, fresh) {
  if (Array.isArray(value)) return value.map((each) => resolve(each, results, fresh))
  if (value === null || typeof value !== 'object') return parameter(value)
  if ('$new' in value) return `${value.$new}-${fresh()}`
  if ('$from' in value || '$each' in value) {
    const [place, ...path] = (value.$from ?? value.$each).split('.')
    const rows = rowsAt(results, place)
    return '$from' in value ? follow(rows[0], path) : rows.map((row) => follow(row, path))
  }
  return Object.fromEntries(Object.entries(value).map(([key, field]) => [key, resolve(field, results, fresh)]))
}

// ---- replay

const accessOf = (entry) => (/^w/i.test(entry.access ?? entry.mode) ? WRITE : READ)

function ask(session, entry, parameters) {
  if (entry.tx === 'auto') return session.run(entry.statement, parameters)
  const work = (tx) => tx.run(entry.statement, parameters)
  return entry.mode === 'w' ? session.executeWrite(work) : session.executeRead(work)
}

class Replay {
  constructor(job) {
    this.job = job
    const config = { maxConnectionPoolSize: job.pool }
    this.drivers = job.uris.map((uri) => neo4j.driver(uri, neo4j.auth.basic(job.user, job.password), config))
    this.begin()
  }

  // Counts from here on.
  begin() {
    this.seen = { statements: 0, writes: 0, left_out: 0, errors: 0, messages: [], times_us: [] }
    this.results = new Map()
  }

  // One page in one driver session. A `session.run` with another access mode goes on in a new one, with the bookmarks so far.
  async page({ turn, entries }, pass, from = performance.now()) {
    const driver = this.drivers[turn % this.drivers.length]
    const database = this.job.database
    let access = accessOf(entries.find((entry) => entry?.tx === 'auto') ?? { mode: 'w' })
    let session = driver.session({ database, defaultAccessMode: access })
    const results = []
    for (const [place, entry] of entries.entries()) {
      if (entry === null) continue
      if (entry.tx === 'auto' && accessOf(entry) !== access) {
        access = accessOf(entry)
        const bookmarks = session.lastBookmarks()
        await session.close()
        session = driver.session({ database, defaultAccessMode: access, bookmarks })
      }
      results[place] = await this.statement(session, entry, results, pass)
    }
    await session.close()
    // A timer may fire a little early, and a page may have nothing to ask.
    this.seen.times_us.push(Math.max(0, Math.round((performance.now() - from) * 1000)))
  }

  async statement(session, entry, results, pass) {
    let [parameters, count] = [null, 0]
    const fresh = () => `${pass}-${entry.line}-${count++}`
    try {
      parameters = resolve(entry.parameters, results, fresh)
    } catch (error) {
      if (!(error instanceof Missing)) throw error
      this.seen.left_out += 1
      return undefined
    }
    this.seen.statements += 1
    if (entry.mode === 'w') this.seen.writes += 1
    try {
      const { records } = await ask(session, entry, parameters)
      if (this.job.digest && pass === 0 && entry.mode === 'r') this.results.set(entry.line, records)
      return records
    } catch (error) {
      this.seen.errors += 1
      if (this.seen.messages.length < MESSAGES) this.seen.messages.push(`${error.code}: ${error.message}`)
      return undefined
    }
  }

  // Sessions go to the clients in turn; each client runs one page after the other.
  async closed(pages, pass) {
    const { clients } = this.job
    const client = async (number) => {
      for (const page of pages) if (page.turn % clients === number) await this.page(page, pass)
    }
    await Promise.all(Array.from({ length: clients }, (_, number) => client(number)))
  }

  // Each page starts when it is due.
  async open(pages, pass) {
    const start = performance.now()
    const under_way = []
    for (const [number, page] of pages.entries()) {
      const due = start + (number * 1000) / this.job.rate
      const wait = due - performance.now()
      if (wait > 0) await sleep(wait)
      under_way.push(this.page(page, pass, due))
    }
    await Promise.all(under_way)
  }

  async run(pages, pass) {
    await (this.job.rate === null ? this.closed(pages, pass) : this.open(pages, pass))
  }
}

// ---- digests

// A value without ids, in one order: Neo4j gives reloaded nodes other ids, and rows without ORDER BY another order. Sums of floats
// differ in their last digits with the order of rows.
function plain(value) {
  if (neo4j.isInt(value)) return `i${value}`
  if (typeof value === 'number') return `f${value.toPrecision(12)}`
  if (neo4j.isNode(value)) return ['node', [...value.labels].sort(), plain(value.properties)]
  if (neo4j.isRelationship(value)) return ['relationship', value.type, plain(value.properties)]
  if (neo4j.isPath(value)) return value.segments.map((part) => [part.start, part.relationship, part.end].map(plain))
  if (Array.isArray(value)) return sorted(value.map(plain))
  if (value !== null && typeof value === 'object' && value.constructor === Object) {
    return sorted(Object.entries(value).map(([key, field]) => [key, plain(field)]))
  }
  return `${typeof value} ${value}`
}
const sorted = (values) => values.map((value) => JSON.stringify(value)).sort()

function digestOf(records) {
  const rows = sorted(records.map((record) => record.keys.map((key) => [key, plain(record.get(key))])))
  return createHash('sha256').update(JSON.stringify(rows)).digest('hex').slice(0, 16)
}

// ----

async function replay(job) {
  const pages = pagesOf(job)
  const replay = new Replay(job)
  for (const driver of replay.drivers) await driver.verifyConnectivity({ database: job.database })
  const warm = pages.slice(0, job.warm)
  if (warm.length > 0) await replay.closed(warm, 'warm')
  print('ready')
  if ((await nextLine()) === undefined) return
  replay.begin()
  const start = performance.now()
  for (let pass = 0; pass < job.passes; pass++) await replay.run(pages.slice(job.warm), pass)
  const seconds = (performance.now() - start) / 1000
  const digests = [...replay.results].map(([line, records]) => [line, digestOf(records)])
  print({ ...replay.seen, seconds, digests })
  for (const driver of replay.drivers) await driver.close()
}

const job = JSON.parse(await nextLine())
try {
  await (job.action === 'load' ? load(job) : replay(job))
  process.exit(0)
} catch (error) {
  console.error(error.message)
  process.exit(1)
}
