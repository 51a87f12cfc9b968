// The page: views, theme, token, and the stream that feeds them.

import { el, setText } from "./dom.js";
import { Figures } from "./figures.js";
import { follow, token, TokenNeeded } from "./stream.js";
import { configuration } from "./views/configuration.js";
import { freshness } from "./views/freshness.js";
import { hot } from "./views/hot.js";
import { inspector } from "./views/inspector.js";
import { overview } from "./views/overview.js";
import { prefetch } from "./views/prefetch.js";
import { ring } from "./views/ring.js";
import { stampedes } from "./views/stampedes.js";

const VIEWS = { overview, ring, hot, inspector, stampedes, prefetch, freshness, configuration };
const THEMES = ["system", "light", "dark"];

const by = (id) => document.getElementById(id);
const figures = new Figures();
let shown = null;
let isFollowing = false;

/** Opens the view that the address names. A view is { title, create() → { element, update?, remove? } }. */
function show() {
  const name = VIEWS[location.hash.slice(2)] ? location.hash.slice(2) : "overview";
  shown?.remove?.();
  const view = VIEWS[name];
  const made = view.create(onError);
  shown = made;
  by("view").replaceChildren(el("h1", { text: view.title }), el("p", { class: "lead", text: view.lead }), made.element);
  document.title = `${view.title} – Hopcache`;
  for (const link of by("views").querySelectorAll("a")) {
    if (link.dataset.view === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  update();
}

function update() {
  if (figures.snapshot) shown?.update?.(figures);
}

function onSnapshot(snapshot) {
  figures.push(snapshot);
  setText(by("node"), `at ${snapshot.node}`);
  const [answered, silent] = [Object.keys(snapshot.parts).length, Object.keys(snapshot.silent)];
  const missing = figures.members.filter((member) => member.state === "down").map((member) => member.name);
  const gone = [...new Set([...silent, ...missing])];
  const isWell = gone.length === 0 && figures.parts.every((part) => part.ready && Object.keys(part.degraded).length === 0);
  const nodes = `${answered} ${answered === 1 ? "node" : "nodes"}`;
  setState(isWell ? "well" : "ill", isWell ? `${nodes}, all well` : gone.length > 0 ? `${nodes}; no answer: ${gone.join(", ")}` : `${nodes}; something is degraded`);
  update();
}

function setState(kind, text) {
  by("state").className = kind;
  setText(by("state"), text);
}

function onState(kind, why) {
  if (kind === "lost") setState("lost", `This node does not answer (${why}). Trying again …`);
}

/** A request of a view failed. */
function onError(error) {
  if (error instanceof TokenNeeded) askForToken(error.message);
}

async function start() {
  by("login").hidden = true;
  by("view").hidden = false;
  by("forget").hidden = token.get() === null;
  show();
  if (isFollowing) return;
  isFollowing = true;
  try {
    await follow(onSnapshot, onState);
  } catch (error) {
    isFollowing = false;
    askForToken(error.message);
  }
}

function askForToken(why) {
  const had = token.get() !== null;
  token.forget();
  by("forget").hidden = true;
  by("view").hidden = true;
  by("login").hidden = false;
  // Several requests may be refused for one token.
  if (had) setText(by("refused"), `The node refused the token: ${why}.`);
  setState("ill", "A token is needed");
  by("token").focus();
}

by("login").addEventListener("submit", (event) => {
  event.preventDefault();
  token.set(by("token").value.trim());
  by("token").value = "";
  setText(by("refused"), "");
  start();
});
by("forget").addEventListener("click", () => {
  token.forget();
  location.reload();
});

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  setText(by("theme"), `Theme: ${theme}`);
  localStorage.setItem("hopcache-theme", theme);
  document.dispatchEvent(new Event("themechange"));
}
by("theme").addEventListener("click", () => {
  const at = THEMES.indexOf(document.documentElement.dataset.theme);
  setTheme(THEMES[(at + 1) % THEMES.length]);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => document.dispatchEvent(new Event("themechange")));
setTheme(THEMES.includes(localStorage.getItem("hopcache-theme")) ? localStorage.getItem("hopcache-theme") : "system");

by("views").append(...Object.entries(VIEWS).map(([name, { title }]) =>
  el("li", {}, el("a", { href: `#/${name}`, "data-view": name, text: title }))));
addEventListener("hashchange", () => {
  show();
  by("main").focus({ preventScroll: true });
});
start();
