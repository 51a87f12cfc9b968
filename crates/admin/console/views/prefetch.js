// What follows what, as nodes have learned it from sessions, and whether reading ahead paid.

import { bar, code, el, section, svg, table, tile, tiles } from "../dom.js";
import { count, digest, pattern, percent } from "../format.js";
import { get } from "../stream.js";

const EVERY_MS = 5000;
const SOURCES = 12;
const ROWS = 40;
const ROW = 30;
const WIDTH = 1000;
const BOX = 400;
const ENDS = { launched: "Read ahead", used: "Used", late: "Late", wasted: "Wasted" };
const KINDS = ["exact", "template", "overlap"];

function create(onError) {
  const shown = {
    launched: tile("Read ahead"),
    used: tile("Used", "a client asked for it later"),
    late: tile("Late", "a client asked while it ran"),
    wasted: tile("Wasted", "nobody asked for it"),
    pending: tile("Pending", "may still be asked for"),
  };
  const kinds = table("By the kind of candidate", [
    { name: "Kind", cell: (row) => row.kind },
    ...Object.entries(ENDS).map(([end, name]) => ({ name, class: "number", cell: (row) => count(row[end]) })),
    { name: "Clients asked for", cell: (row) => (row.launched > 0 ? bar(asked(row), percent(asked(row))) : "–") },
  ], "Nothing was read ahead yet.");
  const state = el("p", { class: "note", text: "Asking for the patterns …" });
  const graph = el("div", { class: "scroll graph-place", role: "region", "aria-label": "Graph of patterns and their successors", tabindex: "0" });
  const list = table("Patterns and their successors", [
    { name: "After", cell: (row) => code(row.source) },
    { name: "comes", class: "wide", cell: (row) => code(row.statement) },
    { name: "Probability", cell: (row) => bar(row.probability, percent(row.probability)) },
    { name: "Seen", class: "number", cell: (row) => count(row.seen) },
    { name: "Read ahead", class: "number", cell: (row) => count(row.launched) },
    { name: "Asked for", class: "number", cell: (row) => count(row.used) },
    { name: "Its parameters", class: "words", cell: how },
  ], "No pattern is known yet. Sessions teach them: see docs/operating/prefetch.md.");

  const load = async () => {
    try {
      const learned = await get(`/admin/v1/successors?limit=${SOURCES}`);
      const rows = folded(learned.patterns.flatMap((source) => source.successors.map((next) => ({ ...next, source: source.text ?? unseen(source.id) }))));
      state.textContent = learned.is_on
        ? `This node knows ${count(learned.patterns_known)} patterns and ${count(learned.forms_known)} next queries. The most common ones follow. A line is as thick as its probability: blue if clients asked for at least half of what was read ahead, orange if less, grey if nothing was read ahead.`
        : "Prefetch is off (prefetch.enabled).";
      list.set(rows.slice(0, ROWS));
      graph.replaceChildren(...(rows.length > 0 ? [drawn(rows)] : []));
      graph.hidden = rows.length === 0;
    } catch (error) {
      state.textContent = `The patterns cannot be shown: ${error.message}`;
      onError(error);
    }
  };
  load();
  const timer = setInterval(load, EVERY_MS);
  const update = (figures) => {
    const total = (name) => figures.sum(name);
    const launched = total("prefetch_attempts_total");
    const wanted = total("prefetch_hits_total") + total("prefetch_late_total");
    shown.launched.set(count(launched), launched > 0 ? `clients asked for ${percent(wanted / launched)} of them` : "since the nodes started");
    shown.used.set(count(total("prefetch_hits_total")));
    shown.late.set(count(total("prefetch_late_total")));
    shown.wasted.set(count(total("prefetch_waste_total")));
    shown.pending.set(count(total("prefetch_pending")));
    const of = (kind, outcome) => figures.parts.reduce((all, part) => all + Object.entries(part.series)
      .filter(([series]) => series.startsWith("hopcache_prefetch_kinds_total") && series.includes(`kind="${kind}"`) && series.includes(`outcome="${outcome}"`))
      .reduce((sum, [, value]) => sum + value, 0), 0);
    const rows = KINDS.map((kind) => ({ kind, ...Object.fromEntries(Object.keys(ENDS).map((end) => [end, of(kind, end)])) }));
    kinds.set(rows.filter((row) => row.launched > 0));
  };
  const element = el("div", {}, tiles(...Object.values(shown)), section("Kinds", kinds.element),
    section("What follows what", state, graph, list.element));
  return { element, update, remove: () => clearInterval(timer) };
}

/** A statement that other nodes have told of, and whose text this node has not met. */
const unseen = (id) => `a statement of other nodes, ${digest(id).slice(0, 6)}`;

/** Of rows with the same two statements only the most probable one stays, with the figures of all: the others have other values. */
function folded(rows) {
  const groups = new Map();
  for (const row of [...rows].sort((one, other) => other.probability - one.probability)) {
    const id = `${row.source}\n${row.statement}`;
    const first = groups.get(id);
    if (!first) {
      groups.set(id, { ...row, others: 0 });
      continue;
    }
    first.others += 1;
    for (const name of ["seen", "launched", "used"]) first[name] += row[name];
  }
  return [...groups.values()];
}

/** Where the parameters of the next query come from. */
function how(row) {
  const own = (row.bindings ?? []).join("; ") || row.kind || "–";
  return row.others > 0 ? `${own}; ${row.others} more with other values` : own;
}

/** Sources on the left, what follows on the right. A line is as thick as its probability; its colour says whether it paid. */
function drawn(rows) {
  const left = [...new Set(rows.map((row) => row.source))].slice(0, SOURCES);
  const right = [...new Set(rows.filter((row) => left.includes(row.source)).map((row) => row.statement ?? "?"))].slice(0, 24);
  const height = Math.max(left.length, right.length) * ROW + 8;
  const y = (all, place) => (height / all.length) * (place + 0.5);
  const lines = rows.filter((row) => left.includes(row.source) && right.includes(row.statement ?? "?")).map((row) => {
    const [from, to] = [y(left, left.indexOf(row.source)), y(right, right.indexOf(row.statement ?? "?"))];
    const kind = row.launched < 1 ? "unused" : row.used / row.launched >= 0.5 ? "paid" : "wasted";
    return svg("path", { d: `M${BOX},${from} C${BOX + 100},${from} ${WIDTH - BOX - 100},${to} ${WIDTH - BOX},${to}`, class: `edge ${kind}`, "stroke-width": 1 + 5 * row.probability },
      svg("title", { text: `${percent(row.probability)}: read ahead ${count(row.launched)}, paid ${count(row.used)}` }));
  });
  const box = (all, x) => all.flatMap((text, place) => [
    svg("rect", { x, y: y(all, place) - ROW / 2 + 3, width: BOX, height: ROW - 6, rx: 5, class: "box" }),
    svg("text", { x: x + 10, y: y(all, place) + 4, }, shortened(pattern(text)), svg("title", { text })),
  ]);
  const label = `${left.length} patterns and ${right.length} successors; the table below has the same`;
  return svg("svg", { class: "graph", viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": label }, ...lines, ...box(left, 0), ...box(right, WIDTH - BOX));
}

const shortened = (text) => (text.length > 54 ? `${text.slice(0, 53)}…` : text);

/** The share of what was read ahead that clients asked for, in time or while it ran. */
const asked = (row) => (row.used + row.late) / row.launched;

export const prefetch = { title: "Prefetch", lead: "Queries that follow others, read before a client asks.", create };
