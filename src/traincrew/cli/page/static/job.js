// One job: its header, what is wrong with it, and its parts: overview, pods, log, events and manifest.

import { Curves } from "./curves.js";
import { Events } from "./events.js";
import { count, element, paced, throttled } from "./format.js";
import { Head } from "./head.js";
import { knownOf } from "./jobrow.js";
import { Log } from "./log.js";
import { Panel } from "./panel.js";
import { Pods } from "./pods.js";
import { Quiet } from "./quiet.js";
import { byPlace, EXPLAINS, labelOf, prepared, restartsOf } from "./rows.js";
import { send, stream, text } from "./session.js";
import { Squares } from "./squares.js";
import { state } from "./states.js";
import { DELETED } from "./shared.js";
import { Tabs } from "./tabs.js";
import { Timeline } from "./timeline.js";
import { Usage } from "./usage.js";
import { showUsage } from "./usageview.js";

/**
 * @typedef {import("./head.js").JobName} JobName
 * @typedef {import("./rows.js").Row} Row
 * @typedef {{percentage: number | null, remainingSeconds: number | null}} Reported
 * @typedef {import("./events.js").EventRow} EventRow
 */

/** Jobs with these signs need no explanation. */
const WELL = new Set(["run", "good"]);
const FEW_PODS = 8;
const MANY_PODS = 60;
const FEW_CURVES = 4;
const LINES_READ = 60;

/**
 * Show a job; return how to leave it.
 * @param {HTMLElement} place
 * @param {JobName} job
 * @param {(problem: string) => void} report
 */
export function showJob(place, job, report) {
  document.title = `${job.name} · traincrew`;
  const path = `/jobs/${[job.kind, job.namespace, job.name].map(encodeURIComponent).join("/")}`;
  const view = new View(job, path);
  place.append(view.head.place, view.tabs.bar, view.problems, ...view.tabs.parts.map((part) => part.place));
  const ticking = setInterval(() => view.tick(), 1000);
  const end = stream(path, view.handlers(() => clearInterval(ticking)), report);
  return () => { clearInterval(ticking); view.leave(); end(); };
}

class View {
  /**
   * @param {JobName} job
   * @param {string} path of the job on the server
   */
  constructor(job, path) {
    this.path = path;
    /** @type {Map<string, Row>} */
    this.known = new Map();
    /** @type {import("./pods.js").Role[]} */
    this.roles = [];
    this.phase = "";
    /** @type {import("./shared.js").Tone} */
    this.tone = "plain";
    this.quiet = new Quiet();
    this.usage = new Usage();
    this.ended = false;
    /** @type {Reported | null} */
    this.reported = null;
    /** @type {EventRow[]} */
    this.latest = [];

    this.head = new Head(job);
    this.problems = element("div", { class: "problems" });
    this.panel = new Panel((pod) => this.showLog(pod));
    this.curves = new Curves();
    this.timeline = new Timeline();
    this.log = new Log({
      ask: (pod) => void send(`${path}/logs/${encodeURIComponent(pod)}`).catch(() => { /* it is gone */ }),
      previous: async (pod) => JSON.parse(await text(`${path}/logs/${encodeURIComponent(pod)}/previous`)),
    });
    this.pods = new Pods((shown) => this.timeline.draw(shown.length > MANY_PODS ? shown : [...shown].sort(byPlace)), (pod) => this.showLog(pod), this.usage);
    this.squares = new Squares((row) => this.showLog(row.pod.name), this.usage);
    this.together = element("span", { class: "usage" });
    this.all = element("div", { class: "all-pods", hidden: "" }, "All", this.together);
    this.unmeasured = element("p", { class: "faint unmeasured", hidden: "" });
    this.few = element("ul", { class: "few-pods" });
    this.events = new Events();
    this.manifest = element("pre", { class: "manifest", tabindex: "0", role: "region", "aria-label": "Manifest" });
    this.smallLog = card("Log", "log-card");
    this.largeLog = element("div");
    this.main = element("div", { class: "main" });
    this.side = element("div", { class: "side" });
    this.tabs = new Tabs([
      { name: "Overview", place: this.overview(), shown: () => this.putLog(this.smallLog) },
      { name: "Pods", place: element("div", {}, this.pods.place) },
      { name: "Log", place: this.largeLog, shown: () => this.putLog(this.largeLog) },
      { name: "Events", place: element("div", {}, this.events.place) },
      { name: "Manifest", place: element("div", {}, this.manifest), shown: () => void this.showManifest() },
    ]);

    this.explain = paced(() => this.explainNow(), 500);
    this.drawPods = throttled(() => this.drawPodsNow(), 100);
    this.drawEvents = throttled(() => this.drawEventsNow(), 500);
    this.drawProgress = throttled(() => this.drawProgressNow(), 250);
  }

  overview() {
    const pods = card("Pods");
    pods.append(this.all, this.few, this.squares.place, this.unmeasured);
    const timeline = card("Timeline");
    timeline.append(this.timeline.place);
    this.side.append(pods, timeline);
    this.main.append(this.curves.place, this.smallLog);
    return element("div", {}, this.panel.place, element("div", { class: "overview" }, this.main, this.side));
  }

  /** @param {() => void} clusterEnded */
  handlers(clusterEnded) {
    return {
      begin: () => { this.known.clear(); this.curves.clear(); this.log.clear(); this.quiet.clear(Date.now() / 1000); this.usage.clear(); },
      absent: (/** @type {any} */ content) => {
        this.head.show("absent", "plain");
        this.problems.replaceChildren(...problemsOf(content.problems.length ? content.problems : ["There is no such job (any more)."]));
      },
      problems: (/** @type {string[]} */ content) => this.problems.replaceChildren(...problemsOf(content)),
      job: (/** @type {any} */ content) => this.onJob(content),
      pods: (/** @type {{changed: import("./rows.js").PodRow[], removed: string[]}} */ content) => this.onPods(content),
      series: (/** @type {any} */ content) => { this.curves.add(content); this.drawProgress(); },
      marks: (/** @type {[number, string][]} */ content) => this.curves.setMarks(content),
      usage: (/** @type {import("./usage.js").All} */ content) => { this.usage.set(content); this.drawUsage(); },
      used: (/** @type {any} */ content) => { this.usage.add(content); this.drawUsage(); },
      log: (/** @type {{lines: import("./log.js").Line[], missed: number}} */ content) => this.onLog(content),
      events: (/** @type {EventRow[]} */ content) => { this.latest = content; this.drawEvents(); },
      ended: (/** @type {{at: number}} */ content) => { this.timeline.ended = content.at; clusterEnded(); },
    };
  }

  /** @param {any} content */
  onJob(content) {
    this.roles = content.roles;
    this.phase = content.exists ? content.job.phase : DELETED;
    this.ended = Boolean(content.job.endedAt);
    this.reported = content.progress;
    this.tone = content.sign;
    this.head.show(this.phase, this.tone, content.job);
    const behind = content.conditions
      .filter((/** @type {any} */ one) => one.type === "Progressing" && one.status === "False")
      .map((/** @type {any} */ one) => one.message);
    const past = content.exists === false ? [knownOf({ job: content.job, deletedAt: "" })] : [];
    this.problems.replaceChildren(...problemsOf([...past, ...behind, ...content.problems]));
    this.log.setUnfollowed(content.unfollowed);
    this.drawProgress();
    this.drawPods();
    this.explain();
  }

  /** @param {{changed: import("./rows.js").PodRow[], removed: string[]}} content */
  onPods(content) {
    for (const uid of content.removed) this.known.delete(uid);
    for (const row of content.changed) this.known.set(row.pod.uid, prepared(row));
    this.log.offer(content.changed.map((row) => row.pod));
    this.drawPods();
    this.explain();
  }

  /** @param {{lines: import("./log.js").Line[], missed: number}} content */
  onLog({ lines, missed }) {
    this.log.add(lines, missed);
    this.quiet.note(lines.map(([at]) => at), Date.now() / 1000);
    if (this.ended) this.explain();
  }

  drawPodsNow() {
    const rows = [...this.known.values()];
    this.pods.set(rows);
    this.tabs.say("Pods", rows.length ? count(rows.length) : "");
    const few = rows.length < FEW_PODS;
    this.few.hidden = !few;
    this.squares.place.hidden = few;
    if (few) this.few.replaceChildren(...rows.sort(byPlace).map((row) => podOf(row, this.usage)));
    else this.squares.draw(this.roles, rows);
  }

  drawUsage() {
    this.unmeasured.hidden = !this.usage.problem;
    this.unmeasured.textContent = this.usage.problem;
    const pods = [...this.known.keys()];
    showUsage(this.together, this.usage, pods);
    this.all.hidden = this.together.hidden || pods.length < 2; // of one pod its own line says it
    this.pods.drawUsage();
    this.squares.drawUsage();
    if (!this.few.hidden) this.drawPods();
  }

  drawEventsNow() {
    const warnings = this.events.draw(this.latest);
    this.tabs.say("Events", warnings ? count(warnings) : "");
  }

  /** What the program has reported goes before what is read from its lines. */
  drawProgressNow() {
    const read = this.curves.progress();
    // Lines are long: the log is below the curves, where it is wide, unless they fill the screen.
    const beside = this.curves.charts.size > FEW_CURVES ? this.side : this.main;
    if (this.smallLog.parentElement !== beside) {
      beside.append(this.smallLog);
      this.log.draw();
    }
    const percentage = this.reported?.percentage ?? null;
    this.head.showProgress({
      done: percentage === null ? read.done : percentage / 100,
      remaining: percentage === null ? read.remaining : this.reported?.remainingSeconds ?? null,
      latest: read.latest,
    }, this.ended, this.phase === "Running" && this.timeline.ended === null ? this.quiet.since(Date.now() / 1000) : null);
  }

  async explainNow() {
    if (!this.phase || WELL.has(this.tone) || this.phase === DELETED) { this.panel.hide(); return; }
    try {
      const found = JSON.parse(await text(`${this.path}/why`));
      const pod = [...this.known.values()].find(({ level }) => level === EXPLAINS)?.pod.name ?? "";
      this.panel.show(found, this.tone, { pod, lines: pod ? this.log.lastOf(pod, LINES_READ) : [] });
    } catch { /* the job is gone: its state says so */ }
  }

  async showManifest() {
    try {
      this.manifest.textContent = await text(`${this.path}/manifest`);
    } catch (error) {
      this.manifest.textContent = error instanceof Error ? error.message : String(error);
    }
  }

  /**
   * Move the log; a box that was moved is at its beginning.
   * @param {HTMLElement} place
   */
  putLog(place) {
    place.append(this.log.place);
    this.log.draw();
  }

  /** @param {string} pod */
  showLog(pod) {
    this.tabs.choose("Log");
    this.log.show(pod);
  }

  tick() {
    this.timeline.redraw();
    this.head.tick();
    this.drawProgress();
    this.events.tick();
  }

  leave() {
    this.curves.clear();
    this.log.leave();
  }
}

/**
 * @param {string} title
 * @param {string} [name] another class
 */
function card(title, name = "") {
  return element("section", { class: `card ${name}`.trim() }, element("h2", {}, title));
}

/** @param {string[]} texts */
function problemsOf(texts) {
  return texts.map((each) => element("p", { class: "problem" }, each));
}

/**
 * @param {Row} row
 * @param {Usage} usage
 */
function podOf(row, usage) {
  const { pod, life, level, sign } = row;
  const words = [pod.state, pod.behind, restartsOf(pod)].filter(Boolean).join(", ");
  const used = element("span", { class: "usage" });
  showUsage(used, usage, [pod.uid]);
  return element("li", { class: `few-pod${life.goneAt ? " gone" : ""}${level === EXPLAINS ? " explains" : ""}`, title: `${pod.name}${pod.detail ? `: ${pod.detail}` : ""}` },
    element("span", { class: "place" }, labelOf(row)), state(words, sign), element("span", { class: "faint node" }, pod.node || "no node yet"), used);
}
