// The client with three real nodes, which are killed and rolled under 16 callers. MINTLEAF_SECONDS says how long (15).
import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Client } from "../dist/index.mjs";
import { Nodes, skip } from "./nodes.mjs";

const SECONDS = Number(process.env.MINTLEAF_SECONDS ?? 15);

test("nodes that are killed and rolled fail no call and repeat no id", { skip, timeout: (SECONDS + 180) * 1_000 }, async () => {
  const nodes = await Nodes.start();
  try {
    await nodes.post("/v1/tags", { tag: "orders" });
    await nodes.post("/v1/tags", { tag: "strict", order: "strict" });
    await nodes.post("/v1/pools/shops", { workers: "0-1023" }, "PUT");
    const client = new Client({ endpoints: nodes.endpoints, leaseMax: 1_000 });
    const lease = await client.leaseWorker("shops", { seconds: 5 });
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
    const callers = Promise.all(Array.from({ length: 16 }, (_, number) => caller(number)));
    callers.catch(() => {});
    const until = performance.now() + SECONDS * 1_000;
    for (let round = 0; performance.now() < until || round < 6; round++) {
      await nodes.stop(round % 3, round % 6 < 3 ? "SIGKILL" : "SIGTERM");
      await sleep(1_000);
      nodes.run(round % 3);
      await nodes.ready(round % 3);
      await sleep(500);
    }
    isOver = true;
    await callers;
    assert.ok(seen.size > 500 && strict.size > 50 && flakes.size > 100, `${seen.size} ${strict.size} ${flakes.size}`);
    assert.equal(lease.isLost, false);
    console.log(`${seen.size} ids, ${strict.size} in strict order, ${flakes.size} snowflakes`);
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
    const before = process.memoryUsage().rss;
    await take(10_000_000);
    const grown = (process.memoryUsage().rss - before) / 2 ** 20;
    assert.ok(grown < 64, `it grew by ${grown} MiB`);
    await client.close();
  } finally {
    await nodes.end();
  }
});
