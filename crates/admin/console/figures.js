// What snapshots mean: rates between two of them, sums over nodes, quantiles. It draws nothing.

const POINTS_MAX = 300;
/** Rates and quantiles in tiles are those of this many snapshots. */
const WINDOW = 10;
const CHANGES_MAX = 50;

/** The series of a part whose name and labels fit, added up. */
export function sum(part, name, labels = "") {
  let total = 0;
  for (const [series, value] of Object.entries(part?.series ?? {})) {
    const brace = series.indexOf("{");
    const own = brace < 0 ? series : series.slice(0, brace);
    if (own === name && series.includes(labels)) total += value;
  }
  return total;
}

const COUNTED = {
  hits: (part) => sum(part, "cache_hit_total"),
  misses: (part) => sum(part, "cache_miss_total"),
  bypasses: (part) => sum(part, "cache_bypass_total"),
  joined: (part) => sum(part, "single_flight_hits_total"),
  runs: (part) => sum(part, "hopcache_origin_runs_total"),
  errors: (part) => sum(part, "hopcache_requests_total", 'status="5'),
  proved: (part) => sum(part, "hopcache_proved_hits_total"),
  ownWrites: (part) => sum(part, "hopcache_invalidations_total", 'cause="own_write"'),
  foreign: (part) => sum(part, "hopcache_watched_total", 'found="foreign"'),
  prefetched: (part) => sum(part, "prefetch_attempts_total"),
  prefetchUsed: (part) => sum(part, "prefetch_hits_total"),
};

function read(part) {
  return Object.fromEntries(Object.entries(COUNTED).map(([name, of]) => [name, of(part)]));
}

function buckets(part) {
  const found = new Map();
  for (const [series, value] of Object.entries(part.series)) {
    if (!series.startsWith("hopcache_request_duration_seconds_bucket")) continue;
    const bound = /le="([^"]+)"/.exec(series)[1];
    found.set(bound, (found.get(bound) ?? 0) + value);
  }
  return found;
}

/** Added to `to`, the growth of each count. A node that restarted counts from zero again. */
function grow(to, before, now) {
  for (const name of Object.keys(now)) {
    const from = before?.[name] ?? 0;
    to[name] = (to[name] ?? 0) + (now[name] >= from ? now[name] - from : now[name]);
  }
}

export class Figures {
  constructor() {
    this.snapshot = null;
    this.points = [];
    this.changes = [];
    this.kept = new Map();
    this.spans = [];
  }

  /** The parts of the nodes that answered, by name. */
  get parts() {
    return Object.values(this.snapshot?.parts ?? {}).sort((one, other) => one.name.localeCompare(other.name));
  }

  push(snapshot) {
    const before = this.snapshot;
    this.snapshot = snapshot;
    const elapsed = before ? Math.max(0.1, (snapshot.at_ms - before.at_ms) / 1000) : null;
    const grown = {};
    const quick = new Map();
    for (const part of this.parts) {
      const now = { counts: read(part), buckets: buckets(part) };
      const last = this.kept.get(part.name);
      if (last) {
        grow(grown, last.counts, now.counts);
        for (const [bound, value] of now.buckets) {
          const from = last.buckets.get(bound) ?? 0;
          quick.set(bound, (quick.get(bound) ?? 0) + (value >= from ? value - from : value));
        }
        const own = {};
        grow(own, last.counts, now.counts);
        now.rates = Object.fromEntries(Object.entries(own).map(([name, value]) => [name, value / (elapsed ?? 1)]));
      }
      this.kept.set(part.name, now);
    }
    if (elapsed) this.#point(snapshot.at_ms, elapsed, grown, quick);
    if (before) this.#changed(before, snapshot);
  }

  #point(at, elapsed, grown, quick) {
    this.spans.push({ elapsed, grown, quick });
    if (this.spans.length > WINDOW) this.spans.shift();
    const per = (name) => (grown[name] ?? 0) / elapsed;
    const point = { at: at / 1000 };
    for (const name of Object.keys(COUNTED)) point[name] = per(name);
    // A request that was answered without a run of its own would have been a run.
    point.without = point.hits + point.misses + point.bypasses;
    point.p50 = this.quantile(0.5);
    point.p99 = this.quantile(0.99);
    this.points.push(point);
    if (this.points.length > POINTS_MAX) this.points.shift();
  }

  /** The mean rate of a count in the window, over all nodes. */
  rate(name) {
    const time = this.spans.reduce((total, span) => total + span.elapsed, 0);
    return time === 0 ? null : this.spans.reduce((total, span) => total + (span.grown[name] ?? 0), 0) / time;
  }

  /** The rate of a count at one node, in the last second. */
  rateOf(node, name) {
    return this.kept.get(node)?.rates?.[name] ?? null;
  }

  total(name) {
    return this.parts.reduce((total, part) => total + COUNTED[name](part), 0);
  }

  /** A series' sum over all nodes. */
  sum(name, labels) {
    return this.parts.reduce((total, part) => total + sum(part, name, labels), 0);
  }

  /** A quantile of the request times in the window, in seconds: the bucket's upper bound, reached in a straight line. */
  quantile(share) {
    const added = new Map();
    for (const { quick } of this.spans) {
      for (const [bound, value] of quick) added.set(bound, (added.get(bound) ?? 0) + value);
    }
    const bound = (text) => (text === "+Inf" ? Infinity : Number(text));
    const sorted = [...added].map(([text, below]) => [bound(text), below]).sort((one, other) => one[0] - other[0]);
    const all = sorted.at(-1)?.[1] ?? 0;
    if (all === 0) return null;
    let [from, before] = [0, 0];
    for (const [upTo, below] of sorted) {
      if (below >= share * all) {
        if (upTo === Infinity) return from;
        return from + ((upTo - from) * (share * all - before)) / Math.max(1, below - before);
      }
      [from, before] = [upTo, below];
    }
    return from;
  }

  /** Rows of all nodes with one identity become one: rates add up, the rest is of the busiest node. */
  merged(of, identity) {
    const rows = new Map();
    for (const part of this.parts) {
      for (const row of of(part)) {
        const known = rows.get(row[identity]);
        if (!known) {
          rows.set(row[identity], { ...row });
          continue;
        }
        const louder = row.rate_per_s > known.rate_per_s ? row : known;
        const missed = (each) => each.rate_per_s - each.hits_per_s - each.bypass_per_s;
        const misses = missed(row) + missed(known);
        const missMs = misses > 0
          ? ((row.miss_ms ?? 0) * missed(row) + (known.miss_ms ?? 0) * missed(known)) / misses
          : louder.miss_ms;
        const added = Object.fromEntries(["rate_per_s", "hits_per_s", "bypass_per_s"].map((name) => [name, row[name] + known[name]]));
        const reads = added.rate_per_s - added.bypass_per_s;
        const ratio = reads > 0 ? added.hits_per_s / reads : null;
        rows.set(row[identity], { ...louder, ...added, hit_ratio: ratio, miss_ms: missMs });
      }
    }
    return [...rows.values()].sort((one, other) => other.rate_per_s - one.rate_per_s);
  }

  /** The members as the node that serves this page sees them. */
  get members() {
    return this.snapshot?.parts[this.snapshot.node]?.ring.members ?? [];
  }

  #changed(before, now) {
    const say = (text) => {
      this.changes.unshift({ at: now.at_ms, text });
      this.changes.length = Math.min(this.changes.length, CHANGES_MAX);
    };
    const of = (snapshot) => new Map((snapshot.parts[snapshot.node]?.ring.members ?? []).map((member) => [member.name, member]));
    const [old, current] = [of(before), of(now)];
    for (const [name, member] of current) {
      const was = old.get(name);
      if (!was) say(`${name} has joined: ${words(member)}`);
      else if (was.life !== member.life) say(`${name} has started again: ${words(member)}`);
      else if (words(was) !== words(member)) say(`${name}: ${words(was)} → ${words(member)}`);
      else if (Math.abs(was.share - member.share) > 0.0005) {
        say(`${name} owns ${(member.share * 100).toFixed(1)} % of the keys, ${(was.share * 100).toFixed(1)} % before`);
      }
    }
    for (const name of old.keys()) if (!current.has(name)) say(`${name} is forgotten`);
    for (const name of Object.keys(now.silent)) if (!before.silent[name]) say(`${name} does not answer`);
    for (const name of Object.keys(before.silent)) if (now.parts[name]) say(`${name} answers again`);
  }
}

/** The state of a member in words. */
export function words(member) {
  if (member.phase !== "ready") return `${member.state}, ${member.phase}`;
  return member.state;
}
