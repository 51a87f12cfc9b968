// The configuration in force, each value with its source. Secrets are masked by the node.

import { el, table } from "../dom.js";
import { get } from "../stream.js";

function create(onError) {
  const state = el("p", { class: "note", text: "Asking this node …" });
  const filter = el("input", { id: "filter", type: "search", spellcheck: "false" });
  const set = el("input", { id: "set", type: "checkbox" });
  const list = table("Configuration of this node", [
    { name: "Key", class: "code", cell: (row) => row.key },
    { name: "Value", class: "code", cell: (row) => row.value },
    { name: "Source", cell: (row) => row.source },
  ], "No key has this in its name or value.");
  let rows = [];
  const draw = () => {
    const sought = filter.value.toLowerCase();
    const shown = rows.filter((row) => !set.checked || row.source !== "default");
    list.set(shown.filter((row) => `${row.key} ${row.value} ${row.source}`.toLowerCase().includes(sought)));
  };
  filter.addEventListener("input", draw);
  set.addEventListener("change", draw);
  get("/admin/v1/config").then((said) => {
    rows = read(said);
    const changed = rows.filter((row) => row.source !== "default").length;
    state.textContent = `${rows.length} keys. ${changed} are set for this node, the others have their default. Each node has its own: open its page to see them.`;
    draw();
  }).catch((error) => {
    state.textContent = `The configuration cannot be shown: ${error.message}`;
    onError(error);
  });
  const element = el("div", {}, state,
    el("div", { class: "field" }, el("label", { for: "filter", text: "Show keys with" }), filter),
    el("label", { class: "check" }, set, "only those that are set"), list.element);
  return { element };
}

/** `{section: {key: {value, source}}}`; a table in a section is one level more. */
function read(said, above = "") {
  return Object.entries(said).flatMap(([name, inside]) => {
    const key = above ? `${above}.${name}` : name;
    const isLeaf = Object.hasOwn(inside, "source") && typeof inside.source === "string";
    return isLeaf ? [{ key, value: inside.value === null ? "(none)" : JSON.stringify(inside.value), source: inside.source }] : read(inside, key);
  });
}

export const configuration = { title: "Configuration", lead: "The values in force at this node, and where each comes from.", create };
