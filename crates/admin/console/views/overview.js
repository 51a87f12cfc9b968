// The cluster at a glance.

import { chart } from "../chart.js";
import { el, section, setText, table, tile, tiles } from "../dom.js";
import { sum } from "../figures.js";
import { bytes, count, percent, rate, seconds } from "../format.js";

/** Rows of faults that are over. */
const LATELY_MAX = 8;

function create() {
  const shown = {
    requests: tile("Requests per second"),
    ratio: tile("Hit ratio", "of reads, last 10 s"),
    median: tile("P50", "half of the requests are faster"),
    tail: tile("P99", "one in a hundred is slower"),
    runs: tile("Runs at Neo4j per second"),
    saved: tile("Runs saved"),
    errors: tile("Errors per second", "answers with 5xx"),
    pace: tile("Neo4j's pace", "time of a run beside what is usual for its pattern"),
  };
  const health = el("ul", { class: "health" });
  const requests = chart("Requests per second", [
    { name: "hits", key: "hits", colour: 1 },
    { name: "misses", key: "misses", colour: 2 },
    { name: "bypasses", key: "bypasses", colour: 3 },
  ], rate);
  const load = chart("Runs at Neo4j per second", [
    { name: "with Hopcache", key: "runs", colour: 1 },
    { name: "without it", key: "without", colour: 2 },
  ], rate);
  const times = chart("Time to the answer", [
    { name: "P50", key: "p50", colour: 1 },
    { name: "P99", key: "p99", colour: 2 },
  ], seconds);
  const nodes = table("Nodes", [
    { name: "Node", class: "name", cell: ({ part }) => part.name },
    { name: "Requests/s", class: "number", cell: ({ rates }) => rate(rates("hits") + rates("misses") + rates("bypasses")) },
    { name: "Hit ratio", class: "number", cell: ({ rates }) => percent(rates("hits") / (rates("hits") + rates("misses"))) },
    { name: "Runs/s", class: "number", cell: ({ rates }) => rate(rates("runs")) },
    { name: "Under way at Neo4j", class: "number", cell: ({ part }) => count(sum(part, "hopcache_origin_in_flight")) },
    { name: "Copies in memory", class: "number", cell: ({ part }) => count(sum(part, "hopcache_entries")) },
    { name: "Their size", class: "number", cell: ({ part }) => bytes(sum(part, "hopcache_entry_bytes")) },
    { name: "Release", cell: ({ part }) => part.version },
  ], "No node has answered yet.");
  const over = table("Lately", [
    { name: "Seen by", class: "name", cell: ({ node }) => node },
    { name: "Part", cell: ({ trouble }) => trouble.part },
    { name: "When", cell: ({ trouble }) => trouble.when },
    { name: "What it said then", cell: ({ trouble }) => trouble.why },
  ], "No node remembers a fault that is over.");

  const earlier = el("p", { class: "note" });

  const update = (figures) => {
    const [hits, misses, bypasses] = ["hits", "misses", "bypasses"].map((name) => figures.rate(name) ?? 0);
    const known = figures.points.length > 0;
    shown.requests.set(known ? rate(hits + misses + bypasses) : "–", `${count(figures.total("hits") + figures.total("misses") + figures.total("bypasses"))} since the nodes started`);
    shown.ratio.set(percent(hits / (hits + misses)));
    shown.median.set(seconds(figures.quantile(0.5)));
    shown.tail.set(seconds(figures.quantile(0.99)));
    shown.errors.set(known ? rate(figures.rate("errors") ?? 0) : "–", `${count(figures.total("errors"))} since the nodes started`);
    const pace = Math.max(0, ...figures.parts.map((part) => sum(part, "hopcache_origin_slowdown")));
    const runs = figures.rate("runs") ?? 0;
    const slowness = pace === 0 ? "–" : pace < 1.5 ? "as usual" : `${pace.toFixed(1)} times slower`;
    shown.pace.set(known && runs === 0 && pace < 1.5 ? "no runs" : slowness, pace === 0 ? "too few runs in the last minute" : undefined);
    shown.runs.set(known ? rate(runs) : "–", `${count(figures.total("runs"))} since the nodes started`);
    const [without, did] = [figures.total("hits") + figures.total("misses") + figures.total("bypasses"), figures.total("runs")];
    shown.saved.set(without > 0 ? percent(Math.max(0, 1 - did / without)) : "–", `${count(did)} runs for ${count(without)} requests`);
    for (const each of [requests, load, times]) each.set(figures.points);
    nodes.set(figures.parts.map((part) => ({ part, rates: (name) => figures.rateOf(part.name, name) ?? 0 })));
    const lately = figures.parts.flatMap((part) => (part.troubles ?? []).filter((trouble) => trouble.until_ms !== null)
      .map((trouble) => ({ node: part.name, trouble })));
    over.set(lately.sort((one, other) => other.trouble.until_ms - one.trouble.until_ms).slice(0, LATELY_MAX));
    setText(earlier, lately.length > LATELY_MAX ? `${lately.length - LATELY_MAX} earlier ones: hopcache status --json at each node.` : "");
    const said = complaints(figures);
    health.replaceChildren(...(said.length > 0 ? said : ["Everything works as it should."]).map((text) =>
      el("li", { class: said.length > 0 ? "bad" : "good", text })));
  };
  const element = el("div", {},
    tiles(...Object.values(shown)),
    section("Health", health),
    over.element, earlier,
    el("div", { class: "charts" }, requests.element, load.element, times.element),
    nodes.element);
  return { element, update, remove: () => [requests, load, times].forEach((each) => each.remove()) };
}

/** What does not work as it should, in sentences. */
function complaints(figures) {
  const silent = Object.entries(figures.snapshot.silent).map(([name, why]) => `${name} does not answer: ${why}.`);
  const down = figures.members.filter((member) => member.state === "down" && !figures.snapshot.silent[member.name])
    .map((member) => `${member.name} is down.`);
  const ofParts = figures.parts.flatMap((part) => [
    ...part.reasons.map((reason) => `${part.name} is not ready: ${reason}.`),
    ...Object.entries(part.degraded).map(([what, why]) => `${part.name}, ${what}, since ${part.since?.[what] ?? "now"}: ${why}. ${part.effects?.[what] ?? ""}`),
  ]);
  return [...silent, ...down, ...ofParts];
}

export const overview = { title: "Overview", lead: "What clients get, and what Neo4j is spared.", create };
