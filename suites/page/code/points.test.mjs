// The numbers behind the curves: run by suites/page/test_code.py.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { withoutColours } from "./static/ansi.js";
import { matchesIn, nextMatch, piecesOf, Wrapped } from "./static/loglines.js";
import { anyCounts, comparedOf, labelsOf, metricsOf, valueAt } from "./static/comparing.js";
import { dotsOf, knownOf, phaseOf, pointsOf } from "./static/jobrow.js";
import { summaryOf } from "./static/events.js";
import { endOf } from "./static/panel.js";
import { Quiet } from "./static/quiet.js";
import { bestOf, counterOf, csvOf, isCounted, labelled, lineOf, smoothed, stepAt } from "./static/points.js";

const series = (metric, source, at, value) => ({ metric, source, at, value });

test("a value belongs to the last step that was counted until then", () => {
  const counter = series("step", "a", [10, 20, 30], [100, 200, 300]);
  assert.equal(stepAt(counter, 9.9), undefined);
  assert.equal(stepAt(counter, 10), 100);
  assert.equal(stepAt(counter, 29.9), 200);
  assert.equal(stepAt(counter, 99), 300);
});

test("steps are counted by the finest counter of the same source", () => {
  const all = [series("epoch", "a", [1], [1]), series("step", "a", [1], [7]), series("epoch", "b", [1], [3])];
  assert.equal(counterOf(all, "a").metric, "step");
  assert.equal(counterOf(all, "b").metric, "epoch");
  assert.equal(counterOf(all, "c"), undefined);
});

test("each axis has its places", () => {
  const loss = series("loss", "a", [100, 110, 120], [3, 2, 1]);
  const counter = series("step", "a", [100, 110, 120], [5, 10, 15]);
  assert.deepEqual(lineOf(loss, "clock", 90, counter).x, [100, 110, 120]);
  assert.deepEqual(lineOf(loss, "time", 90, counter).x, [10, 20, 30]);
  assert.deepEqual(lineOf(loss, "step", 90, counter).x, [5, 10, 15]);
  assert.deepEqual(lineOf(loss, "step", 90, undefined).x, [10, 20, 30]);
});

test("what an attempt repeats replaces what there was", () => {
  const counter = series("step", "a", [1, 2, 3, 4, 5], [10, 20, 30, 20, 30]);
  const loss = series("loss", "a", [1, 2, 3, 4, 5], [5, 4, 3, 4.5, 3.5]);
  assert.deepEqual(lineOf(loss, "step", 0, counter), { source: "a", x: [10, 20, 30], y: [5, 4.5, 3.5] });
});

test("steps are an axis if most values have one of their own", () => {
  const loss = series("loss", "a", [1, 2, 3, 4], [4, 3, 2, 1]);
  assert.equal(isCounted([loss], new Map([["a", series("step", "a", [1, 2, 3, 4], [1, 2, 3, 4])]])), true);
  assert.equal(isCounted([loss], new Map([["a", series("epoch", "a", [1], [1])]])), false);
  assert.equal(isCounted([loss], new Map([["a", undefined]])), false);
  assert.equal(isCounted([], new Map()), false);
});

test("smoothing begins at the first value and ends at a constant one", () => {
  const [first, second] = smoothed([4, 0], 0.6);
  assert.equal(first, 4);
  assert.ok(Math.abs(second - (0.6 * 0.4 * 4) / (0.6 * 0.4 + 0.4)) < 1e-12);
  assert.ok(smoothed(Array(50).fill(7), 0.6).every((each) => Math.abs(each - 7) < 1e-9));
});

test("the best value is the smallest of a loss, the largest of an accuracy, none of others", () => {
  const lines = [{ source: "a", x: [1, 2], y: [3, 1] }, { source: "b", x: [1, 2], y: [0.5, 4] }];
  assert.deepEqual(bestOf("validation loss", lines), { value: 0.5, x: 1 });
  assert.deepEqual(bestOf("accuracy", lines), { value: 4, x: 2 });
  assert.equal(bestOf("learning rate", lines), null);
});

test("a table has a row for each place and a column for each source", () => {
  const lines = [{ source: "worker-0", x: [1, 2], y: [0.5, 0.25] }, { source: "=a,b", x: [2, 3], y: [9, 8] }];
  assert.equal(csvOf("step", lines), 'step,worker-0,"=a,b"\n1,0.5,\n2,0.25,9\n3,,8\n');
});

const every = (seconds, from, count) => Array.from({ length: count }, (_, index) => from + seconds * index);

test("a program is quiet if it says nothing for much longer than usual", () => {
  const quiet = new Quiet();
  quiet.clear(1000);
  quiet.note(every(1, 1000, 20), 1019);
  assert.equal(quiet.since(1040), null);
  assert.deepEqual(quiet.since(1064), { seconds: 45, usual: 1 });
  quiet.note([1065], 1065);
  assert.equal(quiet.since(1066), null);
});

test("what is rarely said is not missed soon, and little says nothing about what is usual", () => {
  const quiet = new Quiet();
  quiet.clear(0);
  quiet.note(every(60, 0, 20), 1140);
  assert.equal(quiet.since(1140 + 300), null);
  assert.deepEqual(quiet.since(1140 + 700), { seconds: 700, usual: 60 });
  quiet.clear(0);
  quiet.note(every(1, 0, 5), 4);
  assert.equal(quiet.since(500), null);
});

for (const { name, starts, gaps, seconds, usual } of JSON.parse(readFileSync("quiet.json", "utf8"))) {
  test(`as in a terminal: ${name}`, () => {
    const times = gaps.reduce((all, gap) => [...all, all[all.length - 1] + gap], [starts]);
    const quiet = new Quiet();
    quiet.clear(starts);
    quiet.note(times, times[times.length - 1]);
    const found = quiet.since(times[times.length - 1] + seconds);
    assert.equal(found === null ? null : Math.round(found.usual), usual);
  });
}

test("clocks of cluster and browser may differ; the history of a log says nothing about that", () => {
  const quiet = new Quiet();
  quiet.clear(5000);
  quiet.note(every(1, 1000, 20), 5000); // the program hung long before
  assert.deepEqual(quiet.since(5000), { seconds: 3981, usual: 1 });
  quiet.note(every(1, 1020, 3), 5010); // it did not: its clock is behind
  assert.equal(quiet.since(5011), null);
});

test("the end of a log is its last traceback, also where the lines of two streams are mixed", () => {
  const traceback = ["Traceback (most recent call last):", '  File "a.py", line 1, in <module>', "KeyError: 'label'"];
  const [head, file, raised] = traceback;
  assert.deepEqual(endOf(["step 1", ...traceback]), traceback);
  assert.deepEqual(endOf([head, "step 1", file, "step 2/9 loss 1", raised, "step 3"]), traceback);
  assert.deepEqual(endOf([head, file, "KeyboardInterrupt"]), [head, file, "KeyboardInterrupt"]);
  assert.deepEqual(endOf(["one", "two"]), ["one", "two"]);
});

test("a small curve fills its place, the highest value on top", () => {
  assert.equal(pointsOf([99, 0]), "0,1 72,17");
  assert.equal(pointsOf([0, 99, 0]), "0,17 36,1 72,17");
});

test("each pod is a dot; of many pods each state has its share, and at least one", () => {
  const few = { ready: 3, failed: 1, finished: 0, waiting: 2 };
  assert.deepEqual(dotsOf(few), few);
  assert.deepEqual(dotsOf({ ready: 997, failed: 1, finished: 0, waiting: 2 }), { ready: 8, failed: 1, finished: 0, waiting: 1 });
  assert.deepEqual(dotsOf({ ready: 20, failed: 0, finished: 20, waiting: 0 }), { ready: 5, failed: 0, finished: 5, waiting: 0 });
});

test("a row says what does not speak for itself, and what a deleted job was before", () => {
  const job = { phase: "Failed", reason: "ExitCode", message: "KeyError: 'label'", warning: "" };
  assert.equal(knownOf({ job, deletedAt: null }), "ExitCode: KeyError: 'label'");
  assert.equal(knownOf({ job: { ...job, phase: "Running" }, deletedAt: null }), "");
  assert.equal(knownOf({ job: { ...job, phase: "Running", warning: "Stalled: no progress" }, deletedAt: null }), "Stalled: no progress");
  assert.equal(knownOf({ job, deletedAt: "2026-01-01T00:00:00Z" }), "It was Failed before it was deleted. KeyError: 'label'");
  assert.equal(phaseOf({ job, deletedAt: "2026-01-01T00:00:00Z" }), "Deleted");
});

test("the metric is first that most jobs have", () => {
  const a = [series("step", "a", [1], [1]), series("lr", "a", [1], [1]), series("loss", "a", [1], [1])];
  const b = [series("loss", "b", [1], [1]), series("empty", "b", [], [])];
  assert.deepEqual(metricsOf([a, b]), ["loss", "lr"]);
  assert.equal(anyCounts([b]), false);
  assert.equal(anyCounts([a, b]), true);
});

test("each job is one line, that of the pod with the most values, by step or since its first value", () => {
  const job = [series("step", "p1", [100, 110, 120], [5, 10, 15]), series("loss", "p0", [100], [9]), series("loss", "p1", [100, 110, 120], [3, 2, 1])];
  assert.deepEqual(comparedOf(job, "loss", "step", "digits"), { line: { source: "digits", x: [5, 10, 15], y: [3, 2, 1] }, pod: "p1", others: 1, why: "" });
  assert.deepEqual(comparedOf(job, "loss", "time", "digits").line, { source: "digits", x: [0, 10, 20], y: [3, 2, 1] });
  assert.equal(comparedOf(job.slice(2), "loss", "step", "x").why, "counts no steps");
  assert.equal(comparedOf(job, "accuracy", "step", "x").why, "has no accuracy");
  assert.equal(comparedOf([], "loss", "step", "x").why, "no metrics yet");
});

test("the value at a place is the last one until there, and none beyond the ends", () => {
  const line = { source: "a", x: [10, 20, 30], y: [3, 2, 1] };
  assert.deepEqual([9, 10, 19, 20, 30, 31].map((x) => valueAt(line, x)), [null, 3, 3, 2, 1, null]);
  assert.equal(valueAt({ source: "a", x: [], y: [] }, 1), null);
});

test("jobs are named as shortly as they can be told apart", () => {
  assert.deepEqual(labelsOf(["K.g/a/x", "K.g/a/y"]), ["x", "y"]);
  assert.deepEqual(labelsOf(["K.g/a/x", "K.g/b/x"]), ["a/x", "b/x"]);
  assert.deepEqual(labelsOf(["K.g/a/x", "L.g/a/x"]), ["K.g/a/x", "L.g/a/x"]);
});

test("what is compared is a table as well", () => {
  const jobs = [[series("step", "p", [1, 2], [10, 20]), series("loss", "p", [1, 2], [4, 2])], [series("step", "q", [5, 6], [20, 30]), series("loss", "q", [5, 6], [8, 6])]];
  const lines = (axis) => jobs.map((job, index) => comparedOf(job, "loss", axis, `job-${index}`).line);
  assert.equal(csvOf("step", lines("step")), "step,job-0,job-1\n10,4,\n20,2,8\n30,,6\n");
  assert.equal(csvOf("time", lines("time")), "time,job-0,job-1\n0,4,8\n1,2,6\n");
});

test("colours are parts of a text, and nothing else of a sequence is left", () => {
  assert.deepEqual(withoutColours("plain"), { text: "plain", styles: [] });
  assert.deepEqual(withoutColours("a \x1b[1;31mred\x1b[0m b"), { text: "a red b", styles: [[2, 5, "ansi-red ansi-bold"]] });
  assert.deepEqual(withoutColours("\x1b[32mg\x1b[39mx\x1b[94mb\x1b[m"), { text: "gxb", styles: [[0, 1, "ansi-green"], [2, 3, "ansi-blue"]] });
  assert.deepEqual(withoutColours("\x1b[4mu\x1b[24mv"), { text: "uv", styles: [[0, 1, "ansi-underline"]] });
  // Backgrounds have colours that would be mistaken for others.
  assert.deepEqual(withoutColours("\x1b[48;5;31mx\x1b[48;2;1;31;4my"), { text: "xy", styles: [] });
  assert.deepEqual(withoutColours("\x1b[38;5;196mx\x1b[38;2;0;200;10my\x1b[38:2::0:0:250mz").styles.map(([, , name]) => name), ["ansi-red", "ansi-green", "ansi-blue"]);
});

test("lines are wrapped into rows of one height", () => {
  const wrapped = new Wrapped(10);
  for (const length of [0, 10, 25]) wrapped.add(length);
  assert.equal(wrapped.count, 5);
  assert.deepEqual([0, 1, 2, 4].map((row) => wrapped.at(row)), [
    { line: 0, from: 0, to: 10 }, { line: 1, from: 0, to: 10 }, { line: 2, from: 0, to: 10 }, { line: 2, from: 20, to: 30 }]);
  const whole = new Wrapped(0);
  whole.add(1000);
  assert.deepEqual([whole.count, whole.at(0)], [1, { line: 0, from: 0, to: Infinity }]);
});

test("a text is cut where its style changes, or what is searched for begins", () => {
  assert.deepEqual(matchesIn("Ab ab", "ab"), [[0, 2], [3, 5]]);
  assert.deepEqual(matchesIn("ab", ""), []);
  const pieces = piecesOf("abcdef", [[1, 3, "ansi-red"]], [[2, 4]], 0, Infinity);
  assert.deepEqual(pieces.map(({ text, classes, marked }) => [text, classes, marked]), [["a", "", false], ["b", "ansi-red", false], ["c", "ansi-red", true], ["d", "", true], ["ef", "", false]]);
  assert.deepEqual(piecesOf("abcdef", [], [], 2, 4).map(({ text }) => text), ["cd"]);
  assert.deepEqual(piecesOf("", [], [], 0, 9), []);
});

test("matches follow each other in both directions, and go on at the other end", () => {
  const matches = (index) => [2, 5].includes(index);
  assert.deepEqual([-1, 2, 5].map((current) => nextMatch(8, matches, current, 1)), [2, 5, 2]);
  assert.deepEqual([-1, 5, 2].map((current) => nextMatch(8, matches, current, -1)), [5, 2, 5]);
  assert.equal(nextMatch(8, () => false, -1, 1), -1);
  assert.equal(nextMatch(0, matches, -1, 1), -1);
});

test("what is no warning is said in one line", () => {
  const event = (second, reason, about) => ({ at: `2026-01-01T00:00:${String(second).padStart(2, "0")}Z`, kind: "Normal", about, reason, message: "", count: 1 });
  const pods = Array.from({ length: 40 }, (_, index) => event(3 + Math.floor(index / 5), "Started", `Pod p-${index}`));
  assert.equal(summaryOf([...pods, event(15, "Started", "Pod p-0"), event(5, "Created", "Job j")]), "40 pods started, 1 Job created, in 12s");
  assert.equal(summaryOf([event(1, "JobRunning", "MxJob m")]), "JobRunning of 1 MxJob");
  assert.equal(summaryOf(["Aed", "Bed", "Ced", "Ded", "Eed", "Fed"].map((reason) => event(1, reason, "Pod p"))).split(", ").at(-1), "2 more kinds of events");
});

test("texts of marks cover no other, and are not cut", () => {
  const room = { left: 0, right: 100, gap: 2 };
  const marks = [10, 12, 14, 16, 60, 90].map((x) => ({ x, width: 30, text: String(x) }));
  assert.deepEqual(labelled(marks, room, 3), [
    { x: 12, line: 0, text: "10" }, { x: 14, line: 1, text: "12" }, { x: 16, line: 2, text: "14" },
    { x: 62, line: 0, text: "60" }, { x: 58, line: 1, text: "90" },
  ]);
});
