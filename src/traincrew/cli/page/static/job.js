// One job: its state, roles, timeline, curves, log, events and manifest.

import { Curves } from "./curves.js";
import { duration, element, number, paced, seconds, state, throttled, toneOf } from "./format.js";
import { Log } from "./log.js";
import { Pods } from "./pods.js";
import { prepared } from "./rows.js";
import { send, stream, text } from "./session.js";
import { Timeline } from "./timeline.js";

/**
 * @typedef {{kind: string, namespace: string, name: string}} JobName
 * @typedef {{percentage: number | null, remainingSeconds: number | null}} Reported
 */

const RUNS_FOR = "Runs for";
const SELF_EVIDENT = new Set(["", "Running", "Succeeded"]);

/**
 * Show a job; return how to leave it.
 * @param {HTMLElement} place
 * @param {JobName} job
 * @param {(problem: string) => void} report
 */
export function showJob(place, job, report) {
  document.title = `${job.name} · traincrew`;
  const path = `/jobs/${[job.kind, job.namespace, job.name].map(encodeURIComponent).join("/")}`;
  /** @type {Map<string, import("./rows.js").Row>} */
  const known = new Map();
  /** @type {import("./pods.js").Role[]} */
  let roles = [];
  const top = element("div");
  const why = element("div");
  const progress = element("div");
  const timeline = new Timeline();
  const curves = new Curves();
  const log = new Log((pod) => void send(`${path}/logs/${encodeURIComponent(pod)}`).catch(() => { /* it is gone */ }));
  const pods = new Pods((shown) => timeline.draw(shown), (pod) => log.show(pod));
  const events = element("tbody");
  const manifest = element("pre", { class: "manifest" });
  place.append(
    element("p", {}, element("a", { href: "#/" }, "← All jobs")), top, why, progress,
    element("h2", {}, "Pods"), pods.place,
    element("h2", {}, "Timeline"), timeline.place,
    element("h2", {}, "Metrics"), curves.place,
    element("h2", {}, "Log"), log.place,
    element("h2", {}, "Events"),
    element("div", { class: "scroll" }, element("table", { class: "events" }, events)),
    element("details", { ontoggle: () => void showManifest() }, element("summary", {}, "Manifest"), manifest),
  );

  async function showManifest() {
    try {
      manifest.textContent = await text(`${path}/manifest`);
    } catch (error) {
      manifest.textContent = error instanceof Error ? error.message : String(error);
    }
  }

  let phase = "";
  /** @type {Reported | null} */
  let reported = null;
  const explain = paced(async () => {
    if (SELF_EVIDENT.has(phase)) { why.replaceChildren(); return; }
    try {
      why.replaceChildren(...explanation(JSON.parse(await text(`${path}/why`))));
    } catch { /* the job is gone: its state says so */ }
  }, 500);
  const drawPods = throttled(() => pods.set(roles, [...known.values()]), 100);
  /** @type {any[]} */
  let latest = [];
  const drawEvents = throttled(() => events.replaceChildren(...latest.slice().reverse().map(eventRow)), 500);
  const redraw = setInterval(() => {
    timeline.redraw();
    const age = /** @type {HTMLElement | null} */ (top.querySelector("[data-began]"));
    const began = Number(age?.dataset["began"]);
    if (age && began) age.textContent = duration(Date.now() / 1000 - began);
    for (const each of /** @type {NodeListOf<HTMLElement>} */ (events.querySelectorAll("[data-at]"))) {
      each.textContent = ago(Number(each.dataset["at"]));
    }
  }, 1000);

  const end = stream(path, {
    begin: () => { known.clear(); curves.clear(); log.clear(); },
    absent: (content) => {
      top.replaceChildren(heading(job, "absent", "plain"),
        ...problemsOf(content.problems.length ? content.problems : ["There is no such job (any more)."]));
    },
    problems: (content) => top.replaceChildren(heading(job, "…", "plain"), ...problemsOf(content)),
    job: (content) => {
      roles = content.roles;
      phase = content.exists ? content.job.phase : "";
      reported = content.progress;
      progress.replaceChildren(...progressOf(curves, reported));
      top.replaceChildren(...headOf(job, content));
      log.setUnfollowed(content.unfollowed);
      drawPods();
      explain();
    },
    pods: (content) => {
      for (const uid of content.removed) known.delete(uid);
      for (const row of content.changed) known.set(row.pod.uid, prepared(row));
      log.offer(content.changed.map((/** @type {import("./rows.js").PodRow} */ row) => row.pod.name));
      drawPods();
      explain();
    },
    series: (content) => { curves.add(content); progress.replaceChildren(...progressOf(curves, reported)); },
    marks: (content) => curves.setMarks(content),
    log: (content) => log.add(content.lines, content.missed),
    events: (content) => { latest = content; drawEvents(); },
    ended: (content) => { timeline.ended = content.at; clearInterval(redraw); },
  }, report);
  return () => { clearInterval(redraw); curves.clear(); log.leave(); end(); };
}

/**
 * @param {JobName} job
 * @param {string} word
 * @param {string} tone
 */
function heading(job, word, tone) {
  return element("h1", {}, job.name, " ", state(word, tone));
}

/** @param {string[]} texts */
function problemsOf(texts) {
  return texts.map((each) => element("p", { class: "problem" }, each));
}

/**
 * What the job waits for, or why it failed, in plain words.
 * @param {{text: string, evidence: string[], fix: string}} found
 */
function explanation({ text: words, evidence, fix }) {
  return [element("section", { class: "why-box" },
    element("p", {}, words),
    element("ul", { class: "faint" }, ...evidence.map((each) => element("li", {}, each))),
    fix && element("p", {}, element("strong", {}, "What to do: "), fix))];
}

/**
 * @param {JobName} job
 * @param {any} content
 */
function headOf(job, content) {
  const summary = content.job;
  const phase = content.exists ? summary.phase : "Deleted";
  const began = seconds(summary.startedAt ?? summary.createdAt);
  const ended = seconds(summary.endedAt) ?? Date.now() / 1000;
  const facts = /** @type {[string, string | number][]} */ ([
    ["Kind", summary.kind], ["Namespace", summary.namespace], ["Ready", summary.endedAt ? "–" : `${summary.ready} of ${summary.desired}`],
    ["Restarts", summary.restarts], [summary.endedAt ? "Took" : RUNS_FOR, began === null ? "" : duration(ended - began)],
  ]);
  const why = toneOf(phase) === "good" ? summary.message : [summary.reason, summary.message].filter(Boolean).join(": ");
  const behind = content.conditions
    .filter((/** @type {any} */ one) => one.type === "Progressing" && one.status === "False")
    .map((/** @type {any} */ one) => one.message);
  return [
    heading(job, phase, toneOf(phase)),
    element("p", { class: toneOf(phase) === "bad" ? "problem" : "faint" }, why),
    element("dl", { class: "facts" }, ...facts.map(([title, value]) =>
      element("div", {}, element("dt", {}, title),
        element("dd", title === RUNS_FOR ? { "data-began": String(began ?? "") } : {}, value)))),
    ...problemsOf([...behind, ...content.problems]),
  ];
}

/**
 * What the program has reported goes before what is read from its lines.
 * @param {Curves} curves
 * @param {Reported | null} reported
 */
function progressOf(curves, reported) {
  const read = curves.progress();
  const percentage = reported?.percentage ?? null;
  const done = percentage === null ? read.done : percentage / 100;
  const remaining = percentage === null ? read.remaining : reported?.remainingSeconds ?? null;
  const latest = read.latest;
  const parts = [];
  if (done !== null) {
    const left = remaining === null || done >= 1 ? "" : `, about ${duration(remaining)} left`;
    parts.push(element("p", {}, `${Math.round(done * 100)} % done${left}`),
      element("progress", { value: String(done), max: "1", "aria-label": "Progress" }));
  }
  if (latest.length) {
    parts.push(element("dl", { class: "facts" }, ...latest.map(([name, value]) =>
      element("div", {}, element("dt", {}, name), element("dd", {}, number(value))))));
  }
  return parts;
}

/** @param {number} at */
function ago(at) {
  return `${duration(Date.now() / 1000 - at)} ago`;
}

/** @param {{at: string, kind: string, about: string, reason: string, message: string, count: number}} event */
function eventRow(event) {
  const then = seconds(event.at);
  const times = event.count > 1 ? ` ×${event.count}` : "";
  return element("tr", {},
    then === null ? element("td") : element("td", { class: "number faint", "data-at": String(then) }, ago(then)),
    element("td", {}, state(event.reason + times, event.kind === "Warning" ? "bad" : "plain")),
    element("td", { class: "faint" }, event.about),
    element("td", { class: "why" }, event.message));
}
