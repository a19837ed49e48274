// Every case of clients/conformance/cases.json, against the scripted server that MINTLEAF_CONFORMANCE names.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { after, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Client } from "../dist/index.mjs";

const binary = process.env.MINTLEAF_CONFORMANCE;
const list = process.env.MINTLEAF_CASES ?? new URL("../../conformance/cases.json", import.meta.url);
const skip = !binary || !existsSync(list) ? "SKIPPED: MINTLEAF_CONFORMANCE names no binary, or there are no cases" : false;
if (skip) {
  console.error(skip);
  test("conformance", { skip }, () => {});
} else {
  const server = spawn(binary, { stdio: ["pipe", "pipe", "inherit"] });
  const line = await new Promise((resolve) => createInterface({ input: server.stdout }).once("line", resolve));
  const { control } = JSON.parse(line);
  after(() => server.stdin.end());
  for (const one of JSON.parse(readFileSync(list, "utf8")).cases) test(one.name, { timeout: 60_000 }, () => play(control, one));
}

async function ask(url, method = "POST") {
  const answer = await fetch(url, { method, headers: { Connection: "close" } });
  return answer.json();
}

async function play(control, one) {
  const { endpoints } = await ask(`${control}/cases/${one.name}`);
  const { attempt_ms, connect_ms, call_ms, lease_max, zone, token, ...unknown } = one.client ?? {};
  assert.deepEqual(unknown, {}, "a setting that this test does not know");
  const client = new Client({
    endpoints, zone, token, attemptTimeoutMs: attempt_ms, connectTimeoutMs: connect_ms, timeoutMs: call_ms, leaseMax: lease_max,
  });
  const first = new URL(endpoints[0]).host;
  const scene = { control, first, client, leases: new Map(), started: new Map(), seen: new Set() };
  try {
    for (const step of one.steps) await carryOut(scene, step);
    const verdict = await ask(`${control}/verdict`, "GET");
    assert.ok(verdict.ok, JSON.stringify(verdict, null, 1));
  } finally {
    await client.close();
  }
}

async function carryOut(scene, { times = 1, beside = 1, after_ms = 0, within_ms = Infinity, gives, fails, ...step }) {
  if (step.do === "generate") [step.times, times] = [times, 1];
  const began = performance.now();
  const attempt = async () => {
    for (let at = 0; at < times; at++) check(step, gives, await act(scene, step, gives));
  };
  const runs = await Promise.allSettled(Array.from({ length: beside }, attempt));
  const took = performance.now() - began;
  for (const run of runs) {
    if (!fails) assert.equal(run.status, "fulfilled", `${JSON.stringify(step)}: ${run.reason?.stack}`);
    else failed(scene, step, fails, run);
  }
  assert.ok(took >= after_ms - 1 && took <= within_ms, `${JSON.stringify(step)} took ${took} ms`);
}

function failed(scene, step, { code, status, detail, ...unknown }, run) {
  assert.deepEqual(unknown, {});
  assert.equal(run.status, "rejected", `${JSON.stringify(step)} did not fail`);
  const error = run.reason;
  if (code !== undefined) assert.equal(error.code, code, error.stack);
  if (status !== undefined) assert.equal(error.status, status);
  const text = detail?.replace("{endpoint}", scene.first);
  if (text !== undefined) assert.ok(error.message.includes(text), error.message);
}

function check(step, gives, got) {
  if (gives === undefined || step.do === "generate") return;
  if (gives === null || typeof gives !== "object" || Array.isArray(gives)) return assert.deepEqual(got, gives, JSON.stringify(step));
  for (const [name, value] of Object.entries(gives)) assert.equal(got[name] ?? null, value, `${name} of ${JSON.stringify(step)}`);
}

function fresh(scene, line, ids) {
  for (const id of ids) {
    assert.ok(!scene.seen.has(`${line} ${id}`), `${id} of ${line} came twice`);
    scene.seen.add(`${line} ${id}`);
  }
}

async function act(scene, { do: name, ...step }, gives) {
  const { client } = scene;
  const known = new Set(Object.keys(step));
  const use = (...names) => names.map((field) => (known.delete(field), step[field]));
  const done = (value) => (assert.deepEqual([...known], [], `fields of ${name} that this test does not know`), value);
  const kept = (line, id) => (fresh(scene, line, [id]), String(id));
  switch (name) {
    case "next_id": { const [tag] = use("tag"); done(); return kept(tag, await client.nextId(tag)); }
    case "next_text": { const [tag] = use("tag"); done(); return kept(tag, await client.nextText(tag)); }
    case "next_ids": {
      const [tag, count] = use("tag", "count");
      done();
      const ids = await client.nextIds(tag, count);
      fresh(scene, tag, ids);
      assert.equal(ids.length, count);
      return ids.map(String);
    }
    case "next_snowflake": done(); return kept("(snowflakes)", await client.nextSnowflake());
    case "next_number": { const [tag, key] = use("tag", "key"); done(); return kept(`${tag} ${key}`, await client.nextNumber(tag, key)); }
    case "register": {
      const [tag, key] = use("tag", "key");
      done();
      const got = await client.register(tag, key);
      return { ...got, id: String(got.id) };
    }
    case "lease_worker": {
      const [pool, as, seconds] = use("pool", "as", "seconds");
      done();
      const lease = await client.leaseWorker(pool, { seconds });
      scene.leases.set(as, lease);
      return { worker_id: lease.workerId, from_ms: String(lease.fromMs), until_ms: String(lease.untilMs) };
    }
    case "may_stamp": { const [of, ms] = use("of", "ms"); done(); return scene.leases.get(of).mayStamp(Number(ms)); }
    case "is_lost": { const [of] = use("of"); done(); return scene.leases.get(of).isLost; }
    case "close_lease": { const [of] = use("of"); done(); return scene.leases.get(of).close(); }
    case "generate": {
      const [of, times] = use("of", "times");
      done();
      const generator = scene.leases.get(of).generator();
      let last = scene.lastGenerated ?? 0n;
      for (let at = 0; at < times; at++) {
        const id = generator.nextId();
        fresh(scene, "(generated)", [id]);
        if (gives) {
          assert.equal(Number((id >> 12n) & 1023n), gives.worker_id);
          const ms = (id >> 22n) + 1288834974657n;
          assert.ok(ms >= BigInt(gives.from_ms) && ms < BigInt(gives.until_ms), `${ms}`);
        }
        assert.ok(id > last);
        last = id;
      }
      scene.lastGenerated = last;
      return undefined;
    }
    case "close": done(); return client.close();
    case "sleep": { const [ms] = use("ms"); done(); return sleep(ms); }
    case "phase": { const [to] = use("to"); done(); await ask(`${scene.control}/phases/${to}`); return undefined; }
    case "start": {
      const [call, as] = use("call", "as");
      done();
      const running = act(scene, call);
      running.catch(() => {});
      scene.started.set(as, running);
      return undefined;
    }
    case "await": { const [as] = use("as"); done(); return scene.started.get(as); }
    default: assert.fail(`a step that this test does not know: ${name}`);
  }
}
