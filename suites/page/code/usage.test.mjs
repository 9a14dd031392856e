// What pods use: numbers and words. Run by suites/page/test_code.py.

import assert from "node:assert/strict";
import { test } from "node:test";
import { coresOf, memoryOf, piecesOfCourse, Usage } from "./static/usage.js";

const GIB = 1024 * 1024;

test("amounts are written as people say them", () => {
  assert.equal(coresOf(1900, null), "1.9 cores");
  assert.equal(coresOf(1000, null), "1 core");
  assert.equal(coresOf(4, null), "0 cores");
  assert.equal(coresOf(50, 2000), "0.05 of 2 cores");
  assert.equal(coresOf(64_200, 1000), "64 of 1 core");
  assert.equal(memoryOf(1.2 * GIB, 4 * GIB), "1.2 GiB of 4 GiB");
  assert.equal(memoryOf(300 * 1024, null), "300 MiB");
  assert.equal(memoryOf(1010 * 1024, null), "0.99 GiB");
  assert.equal(memoryOf(12, null), "12 KiB");
});

function measured() {
  const usage = new Usage();
  usage.set({
    times: [10, 20], pods: { a: [[100, 200], [10, 20]], b: [[-1, 50], [-1, 5]] },
    latest: { a: [200, 20], b: [50, 5] }, limits: { a: [1000, 100], b: [null, 100] }, problem: "",
  });
  return usage;
}

test("the last value has its limit, and a sum has one if each pod has", () => {
  const usage = measured();
  assert.deepEqual(usage.wordsOf(["a"]), { cpu: "0.2 of 1 core", memory: "20 KiB of 100 KiB" });
  assert.deepEqual(usage.wordsOf(["a", "b"]), { cpu: "0.25 cores", memory: "25 KiB of 200 KiB" });
  assert.deepEqual(usage.wordsOf(["c"]), null);
});

test("a measurement is added, and pods that come and go have gaps", () => {
  const usage = measured();
  usage.add({ at: 30, kept: true, latest: { b: [60, 6], c: [1, 1] } });
  assert.deepEqual(usage.pods.a, [[100, 200, -1], [10, 20, -1]]);
  assert.deepEqual(usage.pods.c, [[-1, -1, 1], [-1, -1, 1]]);
  usage.add({ at: 35, kept: false, latest: { b: [70, 7] } });
  assert.equal(usage.times.length, 3);
  assert.deepEqual(usage.wordsOf(["b"]), { cpu: "0.07 cores", memory: "7 KiB of 100 KiB" });
  assert.deepEqual(usage.courseOf(["a", "b"]).cpu, { at: [10, 20, 30], value: [100, 250, 60] });
  assert.deepEqual(usage.courseOf(["a"]).memory, { at: [10, 20], value: [10, 20] });
  assert.equal(usage.courseOf(["d"]), null);
});

test("a curve has its highest value on top, and gaps as gaps", () => {
  const course = { at: [0, 1, 2, 4], value: [0, 10, null, 5] };
  assert.deepEqual(piecesOfCourse(course, 10, 100, 20), [[[0, 20], [25, 0]], [[100, 10]]]);
});
