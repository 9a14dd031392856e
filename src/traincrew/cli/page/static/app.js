// The frame of the page: session, address, theme, keyboard.

import { showCompare } from "./compare.js";
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
  } else if (/^#\/compare(\?|$)/.test(location.hash)) {
    leave = showCompare(content, report);
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
  else if (event.key === "Escape" && /^#\/(job\/|compare)/.test(location.hash)) leaveToList();
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
