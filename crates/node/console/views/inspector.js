// Why is a query (not) cached? The node explains; this shows all that it says.

import { el, section } from "../dom.js";
import { millis } from "../format.js";
import { post } from "../stream.js";

function create(onError) {
  const field = (id, name, input, help) => el("div", { class: "field" },
    el("label", { for: id, text: name }), input, help ? el("p", { class: "remark", text: help }) : null);
  const statement = el("textarea", { id: "statement", rows: "4", spellcheck: "false", required: true });
  const parameters = el("textarea", { id: "parameters", rows: "2", spellcheck: "false" });
  parameters.value = "{}";
  const database = el("input", { id: "database", value: "neo4j", spellcheck: "false" });
  const principal = el("input", { id: "principal", placeholder: "neo4j", spellcheck: "false", autocomplete: "off" });
  const answer = el("div", { "aria-live": "polite" });
  const form = el("form", { class: "ask" },
    field("statement", "Statement", statement),
    field("parameters", "Parameters (JSON)", parameters),
    el("div", { class: "row" },
      field("database", "Database", database),
      field("principal", "User of Neo4j", principal, "Entries belong to a user. Leave it empty for requests without one.")),
    el("button", { type: "submit", text: "Explain" }));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      const question = { statement: statement.value, parameters: JSON.parse(parameters.value || "{}"), database: database.value };
      if (principal.value) question.principal = principal.value;
      answer.replaceChildren(...told(await post("/admin/v1/explain", question)));
    } catch (error) {
      const text = error instanceof SyntaxError ? `The parameters are not JSON: ${error.message}` : error.message;
      answer.replaceChildren(el("p", { class: "note bad", text }));
      onError(error);
    }
  });
  return { element: el("div", {}, form, answer) };
}

/** The explanation: first a sentence and what to do, then everything else. */
function told(said) {
  const sentence = said.summary ?? inWords(said);
  const rest = { ...said };
  delete rest.summary;
  delete rest.remedy;
  return [
    section("Answer",
      el("p", { class: `answer ${said.entry ? "good" : "bad"}`, text: sentence }),
      said.remedy ? el("p", { class: "remedy", text: said.remedy }) : null),
    section("All that the node knows", list(rest)),
  ];
}

/** A sentence, for a node that makes none. */
function inWords({ class: kind, reason, entry, owner, why_no_entry: why }) {
  if (entry) return `Cached: ${entry.state}, ${millis(entry.age_ms)} old. ${owner} owns it.`;
  if (kind === "bypass" || kind === "write") return `Not cached: ${reason}.`;
  return `Not cached now: ${why}.`;
}

const NAMES = { rate_per_s: "requests per second", why_no_entry: "why there is no entry", query_key: "key", memory: "copy in memory" };

/** Any JSON as a list of names and values. `unit` is the end of the name that it stands under. */
function list(value, unit = "") {
  const pairs = Object.entries(value).filter(([, each]) => each !== null && !(Array.isArray(each) && each.length === 0));
  return el("dl", { class: "facts" }, ...pairs.flatMap(([name, each]) => [
    el("dt", { text: NAMES[name] ?? name.replace(/_ms$/, "").replaceAll("_", " ") }),
    el("dd", {}, typeof each === "object" && !Array.isArray(each) ? list(each, name.endsWith("_ms") ? "_ms" : "") : el("span", { text: shown(name + unit, each) })),
  ]));
}

function shown(name, value) {
  if (Array.isArray(value)) return value.join(", ");
  if (typeof value === "number" && name.endsWith("_ms")) return millis(value);
  if (typeof value === "boolean") return value ? "yes" : "no";
  return String(value);
}

export const inspector = { title: "Key inspector", lead: "Paste a query, and see what Hopcache makes of it.", create };
