// The keys and patterns that clients ask for most.

import { code, el, section, table } from "../dom.js";
import { digest, millis, percent, rate } from "../format.js";

const text = (row) => code(row.pattern);

const figures = [
  { name: "Requests/s", class: "number", cell: (row) => rate(row.rate_per_s) },
  { name: "Hit ratio", class: "number", cell: (row) => percent(row.hit_ratio) },
  { name: "Mean miss", class: "number", cell: (row) => millis(row.miss_ms) },
];

function create() {
  const keys = table("Hot keys", [
    { name: "Statement", cell: text },
    ...figures,
    { name: "Owner", class: "name", cell: (row) => row.owner ?? "–" },
    { name: "Remark", class: "words", cell: (row) => remark(row.note) },
    { name: "Database", cell: (row) => row.database },
    { name: "Key", class: "code", cell: (row) => digest(row.key) },
  ], "No read has come yet.");
  const patterns = table("Hot patterns", [
    { name: "Statement", cell: text },
    ...figures,
    { name: "Past the cache/s", class: "number", cell: (row) => rate(row.bypass_per_s) },
    { name: "Remark", class: "words", cell: (row) => remark(row.note) },
    { name: "A write to these ends it", class: "words", cell: (row) => (row.tags.length > 0 ? row.tags.join(", ") : "–") },
  ], "No statement has come yet.");
  const sampled = el("p", { class: "note" });
  const update = (all) => {
    keys.set(all.merged((part) => part.hot.keys, "key").slice(0, 20));
    patterns.set(all.merged((part) => part.hot.patterns, "id").slice(0, 20));
    const every = Math.max(1, ...all.parts.map((part) => part.hot.every));
    sampled.textContent = every === 1
      ? "Every request is counted. Rates are those of about the last half minute."
      : `One request in ${every} is counted at the busiest node. Rates are estimates of about the last half minute.`;
  };
  const element = el("div", {}, sampled, section("Patterns", patterns.element), section("Keys", keys.element));
  return { element, update };
}

const REMARKS = {
  "stale": "stale, while it is read anew",
  "stale-if-error": "stale: Neo4j failed",
  "degraded": "not stored: the store is away",
  "busy": "not stored: another run had the lease",
  "direct": "run directly at present: such reads hardly ever hit",
  "too-large": "not cached: its result is too large",
  "fenced": "not stored: a newer run was first",
  "updates": "not cached: it changed something",
  "off": "not cached: the TTL is 0",
  "write": "not cached: it writes",
  "volatile-function": "not cached: a function in it changes by itself",
  "unknown-function": "not cached: a function in it is on no list",
  "procedure": "not cached: a procedure in it is on no list",
  "uncacheable": "not cached: a procedure in it is on no list",
  "transaction": "not cached: in a transaction that Neo4j has begun",
  "no-store": "not cached: the client said no-store",
  "unknown": "not cached: Neo4j did not explain it",
};

/** Why the last answer was not kept or not fresh. A word without a sentence is shown as it is. */
function remark(note) {
  if (!note) return "cached";
  return REMARKS[note] ?? `not cached: ${note}`;
}

export const hot = { title: "Hot keys", lead: "What clients ask for most. Literals and parameters are never shown.", create };
