// The frame of the page: session, address, theme, keyboard.

import { element } from "./format.js";
import { begin, cluster, ServerError } from "./session.js";

/** When the list has its rows, and modules that it does without may come, in milliseconds. */
const UNHURRIED = 1000;
const THEME = "traincrew-theme";
const content = /** @type {HTMLElement} */ (document.getElementById("content"));
const connection = /** @type {HTMLElement} */ (document.getElementById("connection"));

let leave = () => {};
/** Counts the addresses, so that what is loaded too late is not shown. */
let turn = 0;
/** @type {Promise<void>} */
let session;

/** @param {string} problem */
function report(problem) {
  connection.textContent = problem;
}

/**
 * Load the modules that an address needs: the list does not wait for those of diagrams.
 * @param {string} hash
 * @returns {Promise<() => () => void>} shows it, and returns how to leave it
 */
async function loaded(hash) {
  if (!isList(hash)) preload();
  const job = /^#\/job\/([^/]+)\/([^/]+)\/([^/]+)$/.exec(hash);
  if (job) {
    const [kind, namespace, name] = job.slice(1).map(decodeURIComponent);
    const { showJob } = await import("./job.js");
    return () => showJob(content, { kind: kind ?? "", namespace: namespace ?? "", name: name ?? "" }, report);
  }
  if (/^#\/compare(\?|$)/.test(hash)) {
    const { showCompare } = await import("./compare.js");
    return () => showCompare(content, report);
  }
  const { showList } = await import("./list.js");
  return () => { document.title = "traincrew"; return showList(content, report); };
}

/** @param {string} hash */
function isList(hash) {
  return !/^#\/(job\/|compare)/.test(hash);
}

/** Load the modules that the list does without, all at once: the server has named them in the page. */
function preload() {
  for (const each of document.querySelectorAll("meta[name=module]")) {
    each.replaceWith(element("link", { rel: "modulepreload", href: each.getAttribute("content") ?? "" }));
  }
}

/** Show what the address names. */
async function show() {
  turn += 1;
  const mine = turn;
  let begun;
  try {
    [begun] = await Promise.all([loaded(location.hash), session]);
  } catch (error) {
    const text = error instanceof ServerError ? error.message : "`traincrew ui` does not answer.";
    begun = () => { content.append(element("p", { class: "problem" }, text)); return () => {}; };
  }
  if (mine !== turn) return;
  leave();
  content.replaceChildren();
  report("");
  leave = begun();
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

const KEYS = /** @type {[string, string][]} */ ([
  ["/", "filter the jobs, search the log"], ["j, k", "next and previous job"], ["Enter", "open it"], ["x", "select it"], ["c", "compare what is selected"], ["Esc", "leave a field; back to all jobs"],
  ["n, N", "next and previous match in the log"], ["1 to 5", "parts of a job"], ["f", "filter the pods"], ["t", "light or dark"], ["?", "these keys"],
]);

function showKeys() {
  const dialog = /** @type {HTMLDialogElement} */ (element("dialog", { "aria-label": "Keys" },
    element("table", {}, element("tbody", {}, ...KEYS.map(([key, what]) =>
      element("tr", {}, element("td", {}, element("kbd", {}, key)), element("td", {}, what))))),
    element("form", { method: "dialog" }, element("button", {}, "Close"))));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

/**
 * Move the focus in the list.
 * @param {number} step
 */
function move(step) {
  const links = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("table.jobs tr:not([hidden]) a")]);
  const now = links.findIndex((link) => link.closest("tr")?.contains(document.activeElement));
  links[Math.min(Math.max(now + step, 0), links.length - 1)]?.focus();
}

/** As the link to all jobs, which knows what was selected there. */
function leaveToList() {
  const link = document.querySelector("main .path a");
  if (link instanceof HTMLElement) link.click(); else location.hash = "#/";
}

/** Select the job of the list that has the focus, or not any more. */
function select() {
  const box = document.activeElement?.closest("tr[data-key]")?.querySelector("input[type=checkbox]");
  if (box instanceof HTMLInputElement) box.click();
}

/** @param {KeyboardEvent} event */
function onKey(event) {
  const target = /** @type {HTMLElement} */ (event.target);
  const typing = target.matches("input:not([type=checkbox]), select, textarea");
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && typing) target.blur();
  if (typing || document.querySelector("dialog")) return;
  if (event.key === "t") switchTheme();
  else if (event.key === "?") showKeys();
  else if (event.key === "j") move(1);
  else if (event.key === "k") move(-1);
  else if (event.key === "x") select();
  else if (event.key === "Escape" && !isList(location.hash)) leaveToList();
  else {
    const wanted = [...document.querySelectorAll("[data-shortcut]")].find((each) =>
      each instanceof HTMLElement && each.dataset["shortcut"] === event.key && each.offsetParent !== null);
    if (!(wanted instanceof HTMLElement)) return;
    event.preventDefault();
    if (wanted.matches("[role=tab], [data-press]")) wanted.click();
    if (!wanted.matches("[data-press]")) wanted.focus();
  }
}

async function start() {
  const theme = localStorage.getItem(THEME);
  if (theme) setTheme(theme);
  document.getElementById("theme")?.addEventListener("click", switchTheme);
  document.getElementById("keys")?.addEventListener("click", showKeys);
  document.addEventListener("keydown", onKey);
  window.addEventListener("hashchange", () => void show());
  // It takes the token out of the address at once, so that what is shown is loaded while the server answers.
  session = begin();
  await show();
  const name = document.getElementById("cluster");
  if (name) name.textContent = cluster();
  setTimeout(preload, UNHURRIED);
}

void start();
