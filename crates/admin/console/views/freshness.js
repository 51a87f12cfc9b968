// How far each database has been written, what that ended, and which hits are proved.

import { chart } from "../chart.js";
import { el, section, table, tile, tiles } from "../dom.js";
import { count, percent, rate } from "../format.js";

function create() {
  const shown = {
    proved: tile("Hits that are proved", "no transaction since their run has touched them"),
    kept: tile("Kept past their TTL", "by a proof, without a run"),
    writes: tile("Writes that ended entries", "through these nodes"),
    foreign: tile("Writes past Hopcache", "looks that found some"),
    purges: tile("Purges", "ordered by an operator"),
    emptied: tile("Emptied", "after a change of rights, or a restore"),
    stale: tile("Stale answers", "while a refresh ran, or Neo4j failed"),
  };
  const lines = chart("Per second", [
    { name: "proved hits", key: "proved", colour: 1 },
    { name: "writes", key: "ownWrites", colour: 2 },
    { name: "looks that found writes past Hopcache", key: "foreign", colour: 3 },
  ], rate);
  const databases = table("Databases", [
    { name: "Database", cell: (row) => row.database ?? "written at other nodes" },
    { name: "Written up to transaction", class: "number", cell: (row) => row.newest ?? "not known yet" },
    { name: "Restores noticed", class: "number", cell: (row) => row.epoch },
    { name: "Tags that were written", class: "number", cell: (row) => count(row.tags.length) },
  ], "No database has been written since the nodes started.");
  const tags = table("The last writes, by what they touched", [
    { name: "Touched", class: "words", cell: (row) => row.word ?? "something that no hot pattern reads" },
    { name: "Database", cell: (row) => row.database ?? "–" },
    { name: "At transaction", class: "number", cell: (row) => row.at ?? "not known yet" },
    { name: "Hot patterns that depend on it", class: "number", cell: (row) => count(row.patterns) },
  ], "No write has left a mark yet.");
  const update = (figures) => {
    const hits = figures.total("hits");
    shown.proved.set(hits > 0 ? percent(figures.total("proved") / hits) : "–", `${count(figures.total("proved"))} of ${count(hits)} hits`);
    shown.kept.set(count(figures.sum("hopcache_revalidated_total")));
    shown.writes.set(count(figures.total("ownWrites")));
    shown.foreign.set(count(figures.total("foreign")));
    shown.purges.set(count(figures.sum("hopcache_invalidations_total", 'cause="purge"')));
    shown.emptied.set(count(figures.sum("hopcache_invalidations_total", 'cause="emptied"')));
    shown.stale.set(count(figures.sum("xfetch_stale_served_total") + figures.sum("hopcache_stale_if_error_total")));
    lines.set(figures.points);
    const written = merged(figures.parts);
    databases.set(written);
    const touched = written.flatMap(({ database, tags: all }) => all.map((tag) => ({ ...tag, database })));
    tags.set(known(touched).slice(0, 30));
  };
  const element = el("div", {}, tiles(...Object.values(shown)), el("div", { class: "charts" }, lines.element),
    section("Databases", databases.element), section("Writes by tag", tags.element));
  return { element, update, remove: () => lines.remove() };
}

/** Nodes tell each other their marks, so the furthest view of a database is the cluster's. A name is known where a write came. */
function merged(parts) {
  const furthest = new Map();
  for (const row of parts.flatMap((part) => part.written)) {
    const id = row.database ?? `${row.epoch} ${row.newest}`;
    const before = furthest.get(id);
    if (!before || (row.newest ?? Infinity) > (before.newest ?? Infinity) || row.tags.length > before.tags.length) furthest.set(id, row);
  }
  const named = new Set([...furthest.values()].filter((row) => row.database).map((row) => `${row.epoch} ${row.newest}`));
  return [...furthest.values()].filter((row) => row.database || !named.has(`${row.epoch} ${row.newest}`));
}

/** Marks without a word become one row for each transaction. */
function known(rows) {
  const shown = new Set();
  return rows.filter((row) => {
    if (row.word) return true;
    const id = `${row.database} ${row.at}`;
    const isFirst = !shown.has(id);
    shown.add(id);
    return isFirst;
  });
}

export const freshness = { title: "Freshness", lead: "Writes end what they touch. A proof keeps the rest.", create };
