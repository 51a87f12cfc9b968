// Flights with followers: many clients wanted one result, and one run answered them all.

import { code, el, section, svg, table, tile, tiles } from "../dom.js";
import { clock, count, digest, millis, pattern, rate } from "../format.js";

const SPAN_MS = 5 * 60 * 1000;
const LANE = 16;
const WIDTH_MIN = 300;
const ROWS = 20;

function create() {
  const shown = {
    joined: tile("Requests that joined a run", "since the nodes started"),
    now: tile("Waiting now", "requests that wait for another's run"),
    large: tile("Stampedes", "runs that many requests waited for"),
  };
  const line = el("div", { class: "scroll timeline-place", role: "region", "aria-label": "Time line of flights with followers", tabindex: "0" });
  const list = table("Flights with followers", [
    { name: "Statement", cell: (crowd) => code(crowd.pattern) },
    { name: "Followers", class: "number", cell: (crowd) => count(crowd.followers) },
    { name: "Run took", class: "number", cell: (crowd) => millis(crowd.took_ms) },
    { name: "Ended", cell: (crowd) => (crowd.at ? clock(crowd.at) : "under way") },
    { name: "Node", class: "name", cell: (crowd) => crowd.node },
    { name: "Key", class: "code", cell: (crowd) => digest(crowd.key) },
  ], "No request has waited for another's run yet.");
  const seen = new Map();
  let [crowds, at] = [[], 0];
  const draw = () => line.replaceChildren(drawn(crowds, at, Math.max(WIDTH_MIN, line.clientWidth - 24)));
  const resized = new ResizeObserver(draw);
  resized.observe(line);
  const update = (figures) => {
    at = figures.snapshot.at_ms;
    crowds = read(figures, seen);
    shown.joined.set(count(figures.total("joined")), `${rate(figures.rate("joined") ?? 0)} per second now`);
    shown.now.set(count(crowds.filter((crowd) => !crowd.at).reduce((all, crowd) => all + crowd.followers, 0)));
    shown.large.set(count(figures.sum("stampede_events_total")));
    list.set(crowds.slice(0, ROWS));
    draw();
  };
  const element = el("div", {}, tiles(...Object.values(shown)), section("The last five minutes", line), section("Flights, the largest first", list.element));
  return { element, update, remove: () => resized.disconnect() };
}

/** Crowds of all nodes: those under way first, then the largest. `seen` has the time at which each one under way was first seen. */
function read(figures, seen) {
  const at = figures.snapshot.at_ms;
  const patterns = new Map(figures.parts.flatMap((part) => part.hot.keys.map((row) => [row.key, row.pattern])));
  const open = figures.parts.flatMap((part) => part.crowds.under_way.map((crowd) => ({ ...crowd, node: part.name, id: `${part.name} ${crowd.key}` })));
  for (const id of seen.keys()) if (!open.some((crowd) => crowd.id === id)) seen.delete(id);
  for (const crowd of open) {
    if (!seen.has(crowd.id)) seen.set(crowd.id, at);
    crowd.took_ms = at - seen.get(crowd.id);
    crowd.pattern = patterns.get(crowd.key);
  }
  const ended = figures.parts.flatMap((part) => part.crowds.ended.map((crowd) => ({ ...crowd, node: part.name, at: at - crowd.ended_ms_ago })));
  return [...open, ...ended.sort((one, other) => other.followers - one.followers || other.at - one.at)];
}

/** Bars from the beginning of a run to its end, as thick as the crowd; each in the first lane that is free. */
function drawn(crowds, now, width) {
  const from = now - SPAN_MS;
  const x = (at) => Math.max(0, ((at - from) / SPAN_MS) * width);
  const lanes = [];
  const young = crowds.filter((crowd) => (crowd.at ?? now) > from).sort((one, other) => (one.at ?? now) - (other.at ?? now));
  const bars = young.map((crowd) => {
    const end = crowd.at ?? now;
    const [left, right] = [x(end - (crowd.took_ms ?? 0)), Math.max(x(end), x(end - (crowd.took_ms ?? 0)) + 3)];
    let lane = lanes.findIndex((until) => until + 4 < left);
    if (lane < 0) lane = lanes.length < 12 ? lanes.push(0) - 1 : 11;
    lanes[lane] = right;
    const height = Math.min(LANE - 2, 4 + 2 * Math.log2(1 + crowd.followers));
    return svg("rect", { x: left, width: right - left, y: lane * LANE + (LANE - height) / 2 + 4, height, rx: 2, class: crowd.at ? "ended" : "open" },
      svg("title", { text: `${crowd.followers} followers at ${crowd.node}, ${millis(crowd.took_ms)}: ${crowd.pattern ? pattern(crowd.pattern) : digest(crowd.key)}` }));
  });
  const height = Math.max(3, lanes.length) * LANE + 24;
  const minutes = width < 500 ? [1, 3, 5] : [0, 1, 2, 3, 4, 5];
  const ticks = minutes.flatMap((minute) => {
    const at = (minute / 5) * width;
    const anchor = minute === 0 ? "start" : minute === 5 ? "end" : "middle";
    return [
      svg("line", { x1: at, x2: at, y1: 0, y2: height - 18, class: "grid" }),
      svg("text", { x: at, y: height - 4, "text-anchor": anchor, text: minute === 5 ? "now" : `−${5 - minute} min` }),
    ];
  });
  const label = `${young.length} flights with followers in the last five minutes`;
  return svg("svg", { class: "timeline", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, ...ticks, ...bars);
}

export const stampedes = { title: "Stampedes", lead: "Many clients want one result: one run answers them all.", create };
