// Which node owns which share of the keys, and every change as it happens.

import { bar, el, section, table } from "../dom.js";
import { words } from "../figures.js";
import { clock, epoch, percent } from "../format.js";

function create() {
  const shares = el("div", { class: "shares", role: "img" });
  const agreement = el("p", { class: "note" });
  const nodes = table("Members of the ring", [
    { name: "Node", class: "name", cell: ({ member }) => member.name },
    { name: "State", cell: state },
    { name: "Share of the keys", cell: ({ member }) => bar(member.share, percent(member.share)) },
    { name: "Weight", class: "number", cell: ({ member }) => member.weight },
    { name: "Ready", cell: ({ part, silent }) => (part ? (part.ready ? "yes" : part.reasons.join("; ")) : silent ?? "no answer") },
    { name: "Its ring", class: "code", cell: ({ part }) => epoch(part?.ring.epoch) },
    { name: "Address between nodes", class: "code", cell: ({ member }) => member.peer_addr },
  ], "This node has not told its members yet.");
  const changes = el("ol", { class: "log", "aria-live": "polite", "aria-label": "Changes since this page was opened" });
  const update = (figures) => {
    const { parts, silent } = figures.snapshot;
    const members = figures.members;
    nodes.set(members.map((member) => ({ member, part: parts[member.name], silent: silent[member.name] })));
    const owning = members.filter((member) => member.share > 0);
    shares.setAttribute("aria-label", owning.map((member) => `${member.name} ${percent(member.share)}`).join(", "));
    shares.replaceChildren(...owning.map((member, place) => {
      const part = el("span", { class: `colour-${(place % 4) + 1}`, title: `${member.name}: ${percent(member.share)}` }, el("span", { text: member.name }));
      part.style.flexGrow = String(member.share * 1000);
      return part;
    }));
    const epochs = new Set(Object.values(parts).map((part) => part.ring.epoch));
    agreement.textContent = epochs.size === 1
      ? `All nodes that answer have one ring: ${epoch([...epochs][0])}.`
      : `The nodes have ${epochs.size} different rings. That is usual for a moment while a node joins or leaves.`;
    agreement.classList.toggle("bad", epochs.size !== 1);
    changes.replaceChildren(...(figures.changes.length > 0 ? figures.changes : [{ text: "Nothing has changed since this page was opened." }]).map(({ at, text }) =>
      el("li", {}, at ? el("time", { text: clock(at) }) : null, ` ${text}`)));
  };
  return { element: el("div", {}, shares, agreement, nodes.element, section("Changes", changes)), update };
}

/** A node that was killed a moment ago is a member still: that it does not answer is news. */
function state({ member, silent }) {
  const isWell = member.state === "up" && member.phase === "ready" && !silent;
  return el("span", { class: `pill ${isWell ? "good" : "bad"}`, text: silent ? `${words(member)}, no answer` : words(member) });
}

export const ring = { title: "Ring and nodes", lead: "Each key belongs to one node. The others ask it.", create };
