// The frame of the page: session, address, theme, keyboard.

import { element } from "./format.js";
import { showJob } from "./job.js";
import { showList } from "./list.js";
import { begin, cluster, ServerError } from "./session.js";

const THEME = "traincrew-theme";
const content = /** @type {HTMLElement} */ (document.getElementById("content"));
const connection = /** @type {HTMLElement} */ (document.getElementById("connection"));

/** @type {() => void} */
let leave = () => {};

/** @param {string} problem */
function report(problem) {
  connection.textContent = problem;
}

function show() {
  leave();
  content.replaceChildren();
  report("");
  const job = /^#\/job\/([^/]+)\/([^/]+)\/([^/]+)$/.exec(location.hash);
  if (job) {
    const [kind, namespace, name] = job.slice(1).map(decodeURIComponent);
    leave = showJob(content, { kind: kind ?? "", namespace: namespace ?? "", name: name ?? "" }, report);
  } else {
    document.title = "traincrew";
    leave = showList(content, report);
  }
}

function switchTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = document.documentElement.dataset["theme"] ?? (dark ? "dark" : "light");
  setTheme(now === "dark" ? "light" : "dark");
}

/** @param {string} theme */
function setTheme(theme) {
  document.documentElement.dataset["theme"] = theme;
  localStorage.setItem(THEME, theme);
  window.dispatchEvent(new Event("themechange"));
}

/** @param {KeyboardEvent} event */
function onKey(event) {
  const target = /** @type {HTMLElement} */ (event.target);
  const typing = target.matches("input, select, textarea");
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && typing) target.blur();
  if (typing) return;
  if (event.key === "t") switchTheme();
  else if (event.key === "Escape" && location.hash.startsWith("#/job/")) location.hash = "#/";
  else {
    const wanted = [...document.querySelectorAll("[data-shortcut]")].find((each) =>
      each instanceof HTMLElement && each.dataset["shortcut"] === event.key && each.offsetParent !== null);
    if (wanted instanceof HTMLElement) { event.preventDefault(); wanted.focus(); }
  }
}

async function start() {
  const theme = localStorage.getItem(THEME);
  if (theme) setTheme(theme);
  document.getElementById("theme")?.addEventListener("click", switchTheme);
  document.addEventListener("keydown", onKey);
  try {
    await begin();
  } catch (error) {
    const text = error instanceof ServerError ? error.message : "`traincrew ui` does not answer.";
    content.append(element("p", { class: "problem" }, text));
    return;
  }
  const name = document.getElementById("cluster");
  if (name) name.textContent = cluster();
  window.addEventListener("hashchange", show);
  show();
}

void start();
