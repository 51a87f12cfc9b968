// Why is a query (not) cached? The node explains; this shows all that it says.

import { el, section } from "../dom.js";
import { bytes, millis, percent, rate } from "../format.js";
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

/** The explanation: first a sentence and what to do, then what an operator asks next, then everything else. */
function told(said) {
  const sentence = said.summary ?? inWords(said);
  const { summary, remedy, hints, class: kind, reason, decided_by: decider, normal_form: normal, owner, failover, query_key: key, ...rest } = said;
  const { entry, proof, flight, lease, held_back_ms: heldBack, is_too_large: isTooLarge, ...internals } = rest;
  const { token, ...stored } = entry ?? {};
  const statement = { kind: `${kind}: ${reason}`, decided_by: decider, normal_form: normal, owner, failover, query_key: key };
  const now = { ...stored, flight, lease, held_back_ms: heldBack, is_too_large: isTooLarge || null };
  return [
    section("Answer",
      el("p", { class: `answer ${entry ? "good" : "bad"}` }, ...withCode(sentence)),
      remedy ? el("p", { class: "remedy" }, ...withCode(remedy)) : null,
      ...(hints ?? []).map((hint) => el("p", { class: "remedy" }, ...withCode(hint)))),
    section("Statement", list(statement)),
    ...(hasAny(now) ? [section("Entry", list(now))] : []),
    ...(proof ? [section("Freshness", list(proof))] : []),
    el("details", {}, el("summary", { text: "Internals: refresh and token" }), list({ token, ...internals })),
  ];
}

/** What stands between backticks is code. */
const withCode = (text) => text.split("`").map((part, place) => (place % 2 === 1 ? el("code", { text: part }) : part));

const isShown = (each) => each !== null && each !== undefined && !(Array.isArray(each) && each.length === 0);
const hasAny = (facts) => Object.values(facts).some(isShown);

/** A sentence, for a node that makes none. */
function inWords({ class: kind, reason, entry, owner, why_no_entry: why }) {
  if (entry) return `Cached: ${entry.state}, ${millis(entry.age_ms)} old. ${owner} owns it.`;
  if (kind === "bypass" || kind === "write") return `Not cached: ${reason}.`;
  return `Not cached now: ${why}.`;
}

const NAMES = {
  decided_by: "decided by",
  normal_form: "normal form (the text that makes the key)",
  query_key: "key",
  failover: "asked next if the owner is gone",
  ttl_ms: "fresh for another",
  cost_ms: "its run took",
  bytes: "size",
  stored_by: "run by",
  held_back_ms: "held back for another",
  is_too_large: "too large to keep",
  flight: "run under way",
  read_at: "read at transaction",
  accounted_to: "all writes are known up to transaction",
  ends_with_a_write_to: "a write to these ends it",
  memory: "copy in the owner's memory",
  refresh_probability: "chance that the next hit refreshes it",
  ahead_ms: "refreshed ahead of its end by",
  scale_ms: "spread of the refresh",
  rate_per_s: "requests per second",
  degree: "relationships of its anchor",
  anchor: "anchor (the node that it starts from)",
};

/** Any JSON as a list of names and values. `unit` is the end of the name that it stands under. */
function list(value, unit = "") {
  const pairs = Object.entries(value).filter(([, each]) => isShown(each));
  return el("dl", { class: "facts" }, ...pairs.flatMap(([name, each]) => [
    el("dt", { text: NAMES[name] ?? name.replace(/_ms$/, "").replaceAll("_", " ") }),
    el("dd", {}, typeof each === "object" && !Array.isArray(each) ? list(each, name.endsWith("_ms") ? "_ms" : "") : el("span", { text: shown(name + unit, each) })),
  ]));
}

function shown(name, value) {
  if (Array.isArray(value)) return value.join(", ");
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value !== "number") return String(value);
  if (name.endsWith("_ms")) return millis(value);
  if (name.endsWith("_per_s")) return rate(value);
  if (name === "bytes") return bytes(value);
  if (name === "refresh_probability" || name === "p") return percent(value);
  return Number.isInteger(value) ? String(value) : value.toPrecision(3);
}

export const inspector = { title: "Key inspector", lead: "Paste a query, and see whether it is cached, why, and what to do.", create };
