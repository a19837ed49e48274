// The client on a clock that the test steps, against a scripted transport.
import assert from "node:assert/strict";
import { test } from "node:test";
import { inspect } from "node:util";
import { Client } from "../dist/index.mjs";
import sizing from "../dist/sizing.js";
import endpoints from "../dist/endpoints.js";

class SteppedClock {
  time = 1_000;
  timers = new Set();
  now = () => this.time;
  timer(at, callback) {
    const timer = { at, callback, clear: () => this.timers.delete(timer) };
    this.timers.add(timer);
    return timer;
  }
  async advance(ms) {
    const end = this.time + ms;
    for (;;) {
      await settled();
      const due = [...this.timers].filter(({ at }) => at <= end).sort((one, other) => one.at - other.at)[0];
      if (due === undefined) break;
      this.timers.delete(due);
      this.time = Math.max(this.time, due.at);
      due.callback();
    }
    this.time = end;
    await settled();
  }
}

const settled = async () => { for (let at = 0; at < 3; at++) await new Promise((resolve) => setImmediate(resolve)); };

/** A client over `act(endpoint, path)`, which returns an answer, an error, or undefined for silence. */
function scripted(act, options = {}, count = 1) {
  const clock = new SteppedClock();
  const asked = [];
  let closed = 0;
  const transport = {
    address: (endpoint) => `n${endpoint}`,
    send(endpoint, { path }, stop) {
      asked.push([endpoint, path, clock.time]);
      const act1 = act(endpoint, path);
      return new Promise((resolve, reject) => {
        stop.onStop(() => reject(new Error("given up")));
        if (act1 instanceof Error) reject(act1);
        else if (act1 !== undefined) resolve(act1);
      });
    },
    close: () => void closed++,
  };
  const names = Array.from({ length: count }, (_, at) => `http://n${at}`);
  const client = new Client({ endpoints: names, ...options }, { clock, transport, random: () => 0.5 });
  return { client, clock, asked, closed: () => closed };
}

function counting() {
  let next = 1n;
  return (_, path) => {
    const count = Number(/count=(\d+)/.exec(path)[1]);
    const start = next;
    next += BigInt(count);
    const ids = Array.from({ length: path.includes("ranges") ? 0 : count }, (_, at) => `${start + BigInt(at)}`);
    return { status: 200, body: JSON.stringify({ ids, ranges: [{ start: `${start}`, end: `${next}` }] }) };
  };
}

test("all_nodes_are_away: calls fail at their deadline, and held ids are handed out first", async () => {
  let act = counting();
  const { client, clock, asked } = scripted((...of) => act(...of), {}, 3);
  assert.deepEqual([await client.nextId("orders"), await client.nextId("orders")], [1n, 2n]);
  act = () => new Error("refused");
  for (let at = 0; at < 100; at++) assert.equal(client.tryNextId("orders"), BigInt(at + 3));
  await clock.advance(60_000);
  asked.length = 0;
  const began = clock.time;
  let ended;
  const call = client.nextId("orders").catch((error) => ((ended = clock.time), error));
  await clock.advance(20_000);
  assert.equal((await call).code, "unavailable");
  assert.equal(ended - began, 10_000);
  assert.ok(asked.length >= 4 && asked.length <= 40, `${asked.length} requests`);
  await client.close();
});

test("old_snowflakes_are_thrown_away, to the millisecond", async () => {
  const { client, clock } = scripted(counting());
  for (let at = 1; at <= 50; at++) await client.nextSnowflake();
  assert.ok(client.stats().held > 0);
  await clock.advance(1_000);
  assert.equal(client.tryNextSnowflake(), undefined);
  assert.equal(client.stats().held, 0);
  await client.close();
});

test("at most 64 requests are under way, and 10,000 calls wait on a line", async () => {
  const { client, clock, asked } = scripted(() => undefined);
  const calls = Array.from({ length: 100 }, (_, at) => client.nextNumber("chat", `${at}`).catch((error) => error.code));
  await settled();
  assert.equal(asked.length, 64);
  const waiting = Array.from({ length: 10_001 }, () => client.nextId("orders").catch((error) => error.code));
  assert.equal(await waiting[10_000], "overloaded");
  const closed = client.close();
  assert.deepEqual(new Set(await Promise.all([...calls, ...waiting.slice(0, 10_000)])), new Set(["closed"]));
  await closed;
  await settled();
  assert.equal(clock.timers.size, 0, "no timer is left");
});

test("sizes_follow_use", () => {
  const rules = { first: 100, min: 10, max: 1_000_000, lastsMs: 10_000 };
  const sizes = (steps) => {
    const sizer = new sizing.Sizing(rules);
    let now = 77_000;
    return [sizer.next(now, 0, 0), ...steps.map(([ms, used]) => sizer.next((now += ms), used, 0))];
  };
  assert.deepEqual(sizes([[1_000, 30], [5_000, 150], [5_000, 150]]), [100, 300, 300, 300]);
  assert.deepEqual(sizes([[0, 50], [1, 400], [1, 1_600], [1, 6_400]]), [100, 400, 1_600, 6_400, 25_600]);
  assert.deepEqual(sizes([[60_000, 50], [60_000, 13], [3_600_000, 5]]), [100, 25, 10, 10]);
});

test("own_zone_first: a zone stays as last known until an answer is about the node itself", async () => {
  let cluster;
  const ids = counting();
  const act = (endpoint, path) =>
    path === "/v1/cluster" ? cluster(endpoint) : { ...ids(endpoint, path.replace("sequence", "segment")) };
  const body = (own, nodes) => ({ status: 200, body: JSON.stringify({ node_id: own, nodes }) });
  cluster = (endpoint) => body(1, [{ id: 1, zone: endpoint === 1 ? "b" : "a" }]);
  const { client, clock, asked } = scripted(act, { zone: "b" }, 3);
  const asks = async () => {
    await settled();
    asked.length = 0;
    await client.nextNumber("chat", "room");
    return asked[0][0];
  };
  assert.equal(await asks(), 1);
  for (const unclear of ["<html>", "{}", body(3, [{ id: 2, zone: "a" }]).body]) {
    cluster = () => ({ status: 200, body: unclear });
    await clock.advance(70_000);
    assert.equal(await asks(), 1, unclear);
  }
  cluster = (endpoint) => body(1, [{ id: 1, zone: endpoint === 2 ? "b" : "a" }]);
  await clock.advance(70_000);
  assert.equal(await asks(), 2);
  await client.close();
});

test("rests_grow_and_end", () => {
  const all = new endpoints.Endpoints(1, Math.random);
  let now = 1_000;
  for (const longest of [50, 100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]) {
    all.failed(0, now);
    const rest = all.pick(now).restsUntil - now;
    assert.ok(rest >= longest / 2 && rest <= longest, `${rest} of ${longest}`);
    now += rest;
  }
  all.answered(0);
  all.failed(0, now);
  assert.ok(all.pick(now).restsUntil - now <= 50);
});

test("a call that is aborted leaves the line, and its ids go to the next", async () => {
  let act = () => undefined;
  const { client, clock } = scripted((...of) => act(...of));
  const controller = new AbortController();
  const first = client.nextId("orders", { signal: controller.signal });
  const second = client.nextId("orders");
  controller.abort(new Error("enough"));
  await assert.rejects(first, /enough/);
  assert.equal(client.stats().waitingCalls, 1);
  act = counting();
  await clock.advance(3_000);
  assert.equal(await second, 1n);
  await client.close();
});

test("an option that does not exist is an error that names it and those that do", async () => {
  const unknown = (name, known) => ({ name: "TypeError", message: `unknown option "${name}" (known: ${known})` });
  const all =
    "endpoints, token, tokenFile, zone, ca, caFile, cert, key, timeoutMs, attemptTimeoutMs, connectTimeoutMs, leaseMax, logger";
  assert.throws(() => new Client({ endpoint: "http://a:8080" }), unknown("endpoint", all));
  assert.throws(() => new Client({ endpoints: ["http://a:8080"], timeoutMS: 500 }), unknown("timeoutMS", all));
  for (const options of ["http://a:8080", ["http://a:8080"], null, undefined]) {
    assert.throws(() => new Client(options), { name: "TypeError", message: `options must be an object (known: ${all})` });
  }
  const act = () => ({ status: 200, body: '{"worker_id":7,"lease":"7-secret","from_ms":"1800000000000","until_ms":"1800000060000"}' });
  const { client, asked } = scripted(act);
  const timed = { timeoutMs: 500 };
  for (const call of [
    client.nextId("orders", timed),
    client.nextIds("orders", 2, timed),
    client.nextText("orders", timed),
    client.nextSnowflake(timed),
    client.nextNumber("chat", "room", timed),
    client.register("receipts", "key", timed),
  ]) {
    await assert.rejects(call, unknown("timeoutMs", "signal"));
  }
  await assert.rejects(client.leaseWorker("shops", { second: 30 }), unknown("second", "seconds, holder, signal"));
  assert.deepEqual(asked, []);
  const lease = await client.leaseWorker("shops", { seconds: 30, holder: "shop-7" });
  assert.throws(() => lease.generator({ epoch: 0 }), unknown("epoch", "epochMs, workerBits, sequenceBits"));
  await client.close();
});

test("a lease has one generator, in one layout", async () => {
  const act = () => ({ status: 200, body: '{"worker_id":7,"lease":"7-1","from_ms":"1800000000000","until_ms":"1800000060000"}' });
  const { client } = scripted(act);
  const lease = await client.leaseWorker("shops");
  assert.throws(() => lease.generator({ workerBits: 2 }), /worker id 7 does not fit 2 bits/);
  assert.equal(lease.mayStamp(1800000000000), true, "it has no generator yet");
  const generator = lease.generator();
  assert.equal(lease.generator({ workerBits: 10, epochMs: undefined }), generator);
  assert.throws(() => lease.generator({ epochMs: 0 }), { code: "invalid_argument" });
  assert.equal(lease.mayStamp(1800000000000), false);
  await client.close();
});

test("what is printed of a lease and of a client has neither the name of the lease nor the token", async () => {
  const act = () => ({ status: 200, body: '{"worker_id":7,"lease":"7-secret","from_ms":"1800000000000","until_ms":"1800000060000"}' });
  const { client } = scripted(act);
  const lease = await client.leaseWorker("shops");
  const generator = lease.generator();
  const withToken = new Client({ endpoints: ["http://a:8080"], token: "mlt_secret" });
  const shown = (value) => inspect(value, { depth: Infinity, showHidden: true, getters: true });
  for (const text of [lease, generator, client, withToken].map(shown)) assert.doesNotMatch(text, /secret/);
  assert.match(inspect(lease), /workerId: 7/);
  assert.match(inspect(lease), /until: 1800000060000/);
  assert.match(JSON.stringify(lease), /^(?!.*secret).*"workerId":7/);
  await Promise.all([client.close(), withToken.close()]);
});

test("a lost lease is not given back", async () => {
  const granted = { status: 200, body: '{"worker_id":7,"lease":"7-1","from_ms":"1800000000000","until_ms":"1800000060000"}' };
  const over = { status: 409, body: '{"code":"conflict","detail":"the lease is over"}' };
  const { client, clock, asked } = scripted((_, path) => (path.endsWith("/leases") ? granted : over));
  const lease = await client.leaseWorker("shops");
  await clock.advance(30_000);
  assert.equal(lease.isLost, true);
  await client.close();
  const paths = asked.map(([, path]) => path);
  assert.deepEqual(paths, ["/v1/pools/shops/leases", "/v1/pools/shops/leases/7-1"]);
});

test("what is no node is named with its status and a short first line", async () => {
  for (const [status, body, why] of [
    [404, "\r\n\u0007one\ttwo\r\nthree", "answered 404: one two"],
    [403, "\u{1F33F}".repeat(100_000), `answered 403: ${"\u{1F33F}".repeat(200)}`],
    [422, '{"count_max":1}', "answered 422"],
    [409, '{"code":"","detail":"why"}', "answered 409: why"],
    [500, "", "answered 500"],
  ]) {
    const { client, clock } = scripted(() => ({ status, body }));
    const error = client.nextId("orders").catch((met) => met.message);
    await clock.advance(10_000);
    assert.equal(await error, `no node answered in time: n0: ${why}`);
    await client.close();
  }
});

test("an error names what is wrong with a malformed answer", async () => {
  for (const [body, why, call] of [
    ["[]", "it is not an object", (client) => client.nextId("orders")],
    ['{"ids":["x"]}', "it has a number that is not 1 to 19 digits", (client) => client.nextId("orders")],
    ['{"ids":["0"]}', "it has an id that is not a number from 1 to 2^63-1", (client) => client.nextId("orders")],
    ['{"ranges":[{"start":"2","end":"1"}]}', "it has a range that is empty or out of bounds", (client) => client.nextSnowflake()],
    ['{"id":"1","text":1,"new":true}', "its text is not a string", (client) => client.register("receipts", "key")],
  ]) {
    const { client, clock } = scripted(() => ({ status: 200, body }));
    const error = call(client).catch((met) => met.message);
    await clock.advance(10_000);
    assert.equal(await error, `no node answered in time: n0: the answer is malformed: ${why}`);
    await client.close();
  }
});
