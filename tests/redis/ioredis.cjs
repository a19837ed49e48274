// Takes ids through ioredis. With NODES CA TOKEN: of a cluster, until it is ended; prints each id beside its tag, and each
// error. With a node alone: of one server and of a cluster, without TLS and tokens.
const assert = require("node:assert");
const { readFileSync } = require("node:fs");
const { setTimeout: sleep } = require("node:timers/promises");
const Redis = require("ioredis");

const [addresses, caFile, token] = process.argv.slice(2);
const nodes = addresses.split(",").map((node) => ({ host: node.split(":")[0], port: Number(node.split(":")[1]) }));

async function untilItIsEnded(ca) {
  // nodes = [{ host: "a", port: 6380 }, { host: "b", port: 6380 }, { host: "c", port: 6380 }]
  const ids = new Redis.Cluster(nodes, {
    redisOptions: { tls: { ca }, username: "shop", password: token, stringNumbers: true },
  });
  ids.on("error", () => {});
  const id = BigInt(await ids.incr("orders"));
  console.log("orders", `${id}`);
  for (;;) {
    const lines = [];
    for (let n = 0; n < 30; n++) {
      const tag = `orders-${n}`;
      lines.push(await ids.incr(tag).then((id) => `${tag} ${id}`, (error) => `error ${error.message}`));
    }
    console.log(lines.join("\n"));
    await sleep(100);
  }
}

async function inBothModes() {
  const one = new Redis({ ...nodes[0], stringNumbers: true });
  const cluster = new Redis.Cluster(nodes, { redisOptions: { stringNumbers: true } });
  for (const ids of [one, cluster]) {
    const first = BigInt(await ids.incr("node"));
    assert(BigInt(await ids.incrby("node", 5)) >= first + 5n);
    for (const pipeline of [ids.pipeline(), ids.multi()]) {
      for (let n = 0; n < 30; n++) pipeline.incr("node");
      const taken = await pipeline.exec();
      assert(taken.every(([error]) => error === null));
      assert.equal(new Set(taken.map(([, id]) => id)).size, 30);
    }
    assert.equal(await ids.get("nothing"), null);
    ids.disconnect();
  }
}

const program = caFile === undefined ? inBothModes() : untilItIsEnded(readFileSync(caFile));
program.catch((error) => {
  console.log(error);
  process.exit(1);
});
