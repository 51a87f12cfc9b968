// Lines over time, drawn by uPlot in the colours of the page. A chart has a sentence for those who cannot see it.

import { el, setText } from "./dom.js";

const HEIGHT = 190;

/**
 * A chart. `lines` are { name, key, colour (1 to 4) }; `value` turns a figure to text. Figures come from points, by key.
 */
export function chart(title, lines, value) {
  const place = el("div", { class: "plot", "aria-hidden": "true" });
  const sentence = el("p", { class: "unseen" });
  const figures = lines.map(({ name, colour }) => {
    const figure = el("span", { class: "legend-figure" });
    return { figure, item: el("li", {}, el("span", { class: `swatch colour-${colour}`, "aria-hidden": "true" }), `${name} `, figure) };
  });
  const legend = el("ul", { class: "legend", "aria-hidden": "true" }, ...figures.map(({ item }) => item));
  const element = el("figure", { class: "chart" }, el("figcaption", { text: title }), legend, place, sentence);
  const waiting = el("p", { class: "note", text: "Collecting the first seconds …" });
  place.append(waiting);
  let plot = null;
  let data = [[], ...lines.map(() => [])];

  const draw = () => {
    plot?.destroy();
    waiting.remove();
    plot = new uPlot(options(lines, value, place.clientWidth || 400), data, place);
  };
  const resized = new ResizeObserver(() => {
    if (plot && place.clientWidth > 0) plot.setSize({ width: place.clientWidth, height: HEIGHT });
  });
  resized.observe(place);
  const onTheme = () => plot && draw();
  document.addEventListener("themechange", onTheme);

  const set = (points) => {
    data = [points.map((point) => point.at), ...lines.map(({ key }) => points.map((point) => point[key]))];
    // One point is no line, and gives the axis no span of time.
    if (plot) plot.setData(data);
    else if (points.length > 1) draw();
    place.dataset.points = points.length;
    const last = points.at(-1);
    lines.forEach(({ key }, place) => setText(figures[place].figure, last ? value(last[key]) : "–"));
    setText(sentence, last ? `${title}, now: ${lines.map(({ name, key }) => `${name} ${value(last[key])}`).join(", ")}.` : "");
  };
  const remove = () => {
    resized.disconnect();
    document.removeEventListener("themechange", onTheme);
    plot?.destroy();
  };
  return { element, set, remove };
}

function options(lines, value, width) {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    cursor: { y: false, points: { show: true } },
    scales: { y: { range: (_, __, max) => [0, max > 0 ? max * 1.1 : 1] } },
    axes: [
      { ...axis, size: 30, space: 70, incrs: [1, 2, 5, 10, 15, 30, 60, 120, 300], values: (_, ticks) => ticks.map((at) => new Date(at * 1000).toLocaleTimeString("en-GB")) },
      { ...axis, size: 54, values: (_, ticks) => ticks.map((tick) => value(tick)) },
    ],
    series: [{}, ...lines.map((line) => ({
      label: line.name,
      stroke: colour(`--colour-${line.colour}`),
      width: 2,
      points: { show: false },
    }))],
  };
}
