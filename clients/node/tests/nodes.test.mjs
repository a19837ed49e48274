// The client with three real nodes, which are killed, hung and rolled under 16 callers. MINTLEAF_SECONDS says how long (15);
// three minutes are more than 10^8 ids. The memory of this process is read after each turn, and must not grow.
import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { Client } from "../dist/index.mjs";
import { Nodes, skip } from "./nodes.mjs";

const SECONDS = Number(process.env.MINTLEAF_SECONDS ?? 15);
/** What memory may grow by, beside the ids that the test keeps. 10^8 ids that a client kept would be many times more. */
const GROWTH_MAX_MIB = 64;
/** The memory of an id in a set. */
const KEPT_BYTES = 100;

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc");
function residentMib() {
  collect();
  return process.memoryUsage().rss / 2 ** 20;
}

test("nodes that are killed, hung and rolled fail no call and repeat no id", { skip, timeout: (SECONDS + 600) * 1_000 }, async () => {
  const nodes = await Nodes.start();
  try {
    await nodes.post("/v1/tags", { tag: "orders" });
    await nodes.post("/v1/tags", { tag: "many" });
    await nodes.post("/v1/tags", { tag: "strict", order: "strict" });
    await nodes.post("/v1/pools/shops", { workers: "0-1023" }, "PUT");
    const client = new Client({ endpoints: nodes.endpoints, tokenFile: nodes.tokenFile, timeoutMs: 60_000 });
    const lease = await client.leaseWorker("shops", { seconds: 60 }); // it outlives a hang and what follows
    const generator = lease.generator();
    const [seen, strict, flakes] = [new Set(), new Set(), new Set()];
    let isOver = false;
    const call = async (of, take) => {
      const id = await take();
      assert.equal(typeof id, "bigint");
      assert.ok(!of.has(id), `${id} came twice`);
      of.add(id);
    };
    const caller = async (number) => {
      while (!isOver) {
        if (number < 12) await call(seen, () => client.nextId("orders"));
        else if (number < 14) await call(strict, () => client.nextId("strict"));
        else await call(flakes, () => (number === 14 ? client.nextSnowflake() : generator.nextId()));
        await sleep(5);
      }
    };
    const runs = []; // of consecutive ids: [first, last]
    let many = 0;
    const takeMany = async () => {
      while (!isOver) {
        const ids = await client.nextIds("many", 10_000);
        many += ids.length;
        for (const id of ids) {
          const last = runs.at(-1);
          if (last !== undefined && last[1] + 1n === id) last[1] = id;
          else runs.push([id, id]);
        }
        await sleep(1);
      }
    };
    const callers = Promise.all([takeMany(), ...Array.from({ length: 16 }, (_, number) => caller(number))]);
    callers.catch(() => {});
    const kept = () => seen.size + strict.size + flakes.size;
    const looks = [];
    const until = performance.now() + SECONDS * 1_000;
    for (let turn = 0; performance.now() < until || turn < 3; turn++) {
      const node = (turn + Math.floor(turn / 3)) % 3;
      if (turn % 3 === 1) await nodes.hang(node);
      else {
        await nodes.stop(node, turn % 3 === 0 ? "SIGKILL" : "SIGTERM");
        nodes.run(node);
      }
      await nodes.ready(node);
      await nodes.changeToken();
      looks.push([many + kept(), residentMib()]);
    }
    isOver = true;
    await callers;
    assert.ok(seen.size > 500 && strict.size > 50 && flakes.size > 100, `${seen.size} ${strict.size} ${flakes.size}`);
    assert.equal(lease.isLost, false);
    runs.sort(([one], [other]) => (one < other ? -1 : 1));
    const again = runs.find(([first], at) => at > 0 && first <= runs[at - 1][1]);
    assert.equal(again, undefined, `${again} came twice`);
    console.log(`${many} ids in ${runs.length} runs, ${seen.size} by ones, ${strict.size} in strict order, ${flakes.size} snowflakes`);
    const [start, middle, end] = [0, looks.length >> 1, looks.length - 1].map((at) => looks[at]);
    for (const [count, mib] of [start, middle, end]) console.log(`after ${count} ids: ${mib.toFixed()} MiB`);
    assert.ok(end[1] - start[1] < GROWTH_MAX_MIB + (KEPT_BYTES * kept()) / 2 ** 20, `${looks}`);
    await client.close();
  } finally {
    await nodes.end();
  }
});

test("memory stays flat over 10^7 ids", { skip, timeout: 180_000 }, async () => {
  const nodes = await Nodes.start(1);
  try {
    await nodes.post("/v1/tags", { tag: "orders", step: 100_000 });
    const client = new Client({ endpoints: nodes.endpoints });
    let last = 0n;
    const take = async (count) => {
      for (let at = 0; at < count; at++) {
        const id = client.tryNextId("orders") ?? (await client.nextId("orders"));
        assert.ok(id > last);
        last = id;
      }
    };
    await take(2_000_000);
    const before = residentMib();
    await take(10_000_000);
    const grown = residentMib() - before;
    assert.ok(grown < 64, `it grew by ${grown} MiB`);
    await client.close();
  } finally {
    await nodes.end();
  }
});
