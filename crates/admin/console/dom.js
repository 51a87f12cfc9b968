// Elements of the page. Texts become text nodes only, never markup.

import { pattern } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes and children. `class`, `text` and `on…` are as one expects. */
export function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** The same for a drawing. */
export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "text") element.textContent = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** Sets a text only when it differs, so that a selection in it survives the next second. */
export function setText(element, text) {
  if (element.textContent !== String(text)) element.textContent = text;
}

/** A tile: a figure with its name and a remark. Returns the element and a function that sets both. */
export function tile(name, remark = "") {
  const figure = el("dd", { class: "figure", text: "–" });
  const note = el("dd", { class: "remark", text: remark });
  const element = el("div", { class: "tile" }, el("dt", { text: name }), figure, note);
  const set = (value, words = remark) => {
    setText(figure, value);
    setText(note, words);
  };
  return { element, set };
}

/** Tiles in a row. */
export function tiles(...all) {
  return el("dl", { class: "tiles" }, ...all.map((each) => each.element));
}

/** A section with a heading. */
export function section(title, ...children) {
  return el("section", { "aria-label": title }, el("h2", { text: title }), ...children);
}

/**
 * A table whose cells are set again and again. Columns are { name, class, cell(row) }; a cell is a text or an element.
 * `empty` is said when there are no rows.
 */
export function table(caption, columns, empty) {
  // On a narrow page a row is a card, which is no table to the browser any more: so the roles are said.
  const body = el("tbody", { role: "rowgroup" });
  const head = el("tr", { role: "row" }, ...columns.map(({ name, class: kind }) => el("th", { role: "columnheader", scope: "col", class: kind, text: name })));
  const none = el("p", { class: "note", text: empty });
  const scroll = el("div", { class: "scroll", role: "region", "aria-label": caption, tabindex: "0" },
    el("table", { role: "table" }, el("caption", { text: caption }), el("thead", { role: "rowgroup" }, head), body));
  const set = (rows) => {
    while (body.rows.length > rows.length) body.deleteRow(-1);
    while (body.rows.length < rows.length) {
      body.append(el("tr", { role: "row" }, ...columns.map(({ class: kind, name }) => el("td", { role: "cell", class: kind, "data-name": name }))));
    }
    rows.forEach((row, place) => columns.forEach(({ cell }, column) => fill(body.rows[place].cells[column], cell(row))));
    scroll.hidden = rows.length === 0;
    none.hidden = rows.length > 0;
  };
  set([]);
  return { element: el("div", {}, scroll, none), set };
}

function fill(cell, content) {
  if (content instanceof Node) cell.replaceChildren(content);
  else setText(cell, content ?? "–");
}

/** A statement without its literals. The tip has it as the node sent it. */
export const code = (text) => el("code", { class: "statement", title: text, text: text ? pattern(text) : "–" });

/** A share from 0 to 1 as a bar with its figure. */
export function bar(share, text) {
  const inner = el("span", { class: "bar-inner" });
  inner.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
  return el("span", { class: "bar-cell" }, el("span", { class: "bar", "aria-hidden": "true" }, inner), el("span", { text }));
}
