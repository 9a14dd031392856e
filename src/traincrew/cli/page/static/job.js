// One job: its state, roles, timeline, curves, log, events and manifest.

import { Curves } from "./curves.js";
import { duration, element, number, seconds, state, throttled, toneOf } from "./format.js";
import { Log } from "./log.js";
import { stream, text } from "./session.js";
import { Timeline } from "./timeline.js";

/**
 * @typedef {{kind: string, namespace: string, name: string}} JobName
 * @typedef {{startedAt: string, endedAt: string | null, exitCode: number | null}} Run
 * @typedef {{createdAt: string, scheduledAt: string | null, readyAt: string | null, goneAt: string | null,
 *   runs: Run[]}} Life
 * @typedef {{name: string, uid: string, rank: number, attempt: number, node: string, state: string,
 *   detail: string, tone: string, ready: boolean, restarts: number}} Pod
 * @typedef {{role: string, pod: Pod, life: Life}} PodRow
 * @typedef {{percentage: number | null, remainingSeconds: number | null}} Reported
 */

const MANY_PODS = 60;
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
  /** @type {Map<string, PodRow>} */
  const pods = new Map();
  /** @type {{name: string, desired: number, ready: number}[]} */
  let roles = [];
  const top = element("div");
  const why = element("div");
  const progress = element("div");
  const tiles = element("div");
  const timeline = new Timeline();
  const curves = new Curves();
  const log = new Log();
  const events = element("tbody");
  const manifest = element("pre", { class: "manifest" });
  place.append(
    element("p", {}, element("a", { href: "#/" }, "← All jobs")), top, why, progress,
    element("h2", {}, "Pods"), tiles,
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
  const explain = throttled(async () => {
    if (SELF_EVIDENT.has(phase)) { why.replaceChildren(); return; }
    try {
      why.replaceChildren(...explanation(JSON.parse(await text(`${path}/why`))));
    } catch { /* the job is gone: its state says so */ }
  }, 500);
  const drawPods = throttled(() => {
    tiles.replaceChildren(...groups(roles, [...pods.values()]));
    timeline.draw([...pods.values()]);
  }, 100);
  const redraw = setInterval(() => {
    timeline.draw([...pods.values()]);
    const age = /** @type {HTMLElement | null} */ (top.querySelector("[data-began]"));
    const began = Number(age?.dataset["began"]);
    if (age && began) age.textContent = duration(Date.now() / 1000 - began);
  }, 1000);

  const end = stream(path, {
    begin: () => { pods.clear(); curves.clear(); log.clear(); },
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
      drawPods();
      explain();
    },
    pods: (content) => {
      for (const uid of content.removed) pods.delete(uid);
      for (const row of content.changed) pods.set(row.pod.uid, row);
      drawPods();
      explain();
    },
    series: (content) => { curves.add(content); progress.replaceChildren(...progressOf(curves, reported)); },
    marks: (content) => curves.setMarks(content),
    log: (content) => log.add(content.lines, content.missed),
    events: (content) => events.replaceChildren(...content.slice().reverse().map(eventRow)),
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
  const unfollowed = content.unfollowed ? [`The logs of ${content.unfollowed} containers are not shown: there are too many.`] : [];
  return [
    heading(job, phase, toneOf(phase)),
    element("p", { class: toneOf(phase) === "bad" ? "problem" : "faint" }, why),
    element("dl", { class: "facts" }, ...facts.map(([title, value]) =>
      element("div", {}, element("dt", {}, title),
        element("dd", title === RUNS_FOR ? { "data-began": String(began ?? "") } : {}, value)))),
    ...problemsOf([...content.problems, ...unfollowed]),
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
    const left = remaining === null ? "" : `, about ${duration(remaining)} left`;
    parts.push(element("p", {}, `${Math.round(done * 100)} % done${left}`),
      element("progress", { value: String(done), max: "1", "aria-label": "Progress" }));
  }
  if (latest.length) {
    parts.push(element("dl", { class: "facts" }, ...latest.map(([name, value]) =>
      element("div", {}, element("dt", {}, name), element("dd", {}, number(value))))));
  }
  return parts;
}

/**
 * @param {{name: string, desired: number, ready: number}[]} roles
 * @param {PodRow[]} rows
 */
function groups(roles, rows) {
  const parts = [];
  for (const role of roles) {
    const members = rows.filter((row) => row.role === role.name)
      .sort((a, b) => a.pod.rank - b.pod.rank || a.pod.attempt - b.pod.attempt);
    const many = members.length > MANY_PODS;
    parts.push(
      element("h3", {}, `${role.name} `, element("span", { class: "faint" }, `${role.ready} of ${role.desired} ready`)),
      element("ul", { class: many ? "tiles many" : "tiles" }, ...members.map((row) => tile(row, many))),
    );
  }
  return parts;
}

/**
 * @param {PodRow} row
 * @param {boolean} many
 */
function tile({ pod, life }, many) {
  const attempt = pod.attempt > 1 ? `, attempt ${pod.attempt}` : "";
  const restarts = pod.restarts ? `, ${pod.restarts} restarts` : "";
  const gone = life.goneAt ? " gone" : "";
  const title = `${pod.name}: ${pod.state}${pod.detail ? ` (${pod.detail})` : ""}${pod.node ? ` on ${pod.node}` : ""}`;
  const tone = ["good", "busy", "bad"].includes(pod.tone) ? pod.tone : "plain";
  return element("li", { class: `tile ${tone}${gone}`, title },
    state(many ? String(pod.rank) : `${pod.rank}${attempt}`, tone),
    element("div", { class: "more" }, `${pod.state}${restarts}`),
    element("div", { class: "more faint" }, pod.node || "no node yet"));
}

/** @param {{at: string, kind: string, about: string, reason: string, message: string, count: number}} event */
function eventRow(event) {
  const then = seconds(event.at);
  const ago = then === null ? "" : `${duration(Date.now() / 1000 - then)} ago`;
  const times = event.count > 1 ? ` ×${event.count}` : "";
  return element("tr", {},
    element("td", { class: "number faint" }, ago),
    element("td", {}, state(event.reason + times, event.kind === "Warning" ? "bad" : "plain")),
    element("td", { class: "faint" }, event.about),
    element("td", { class: "why" }, event.message));
}
