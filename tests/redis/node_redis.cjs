// Takes ids through node-redis. With NODES CA TOKEN: of a cluster, until it is ended; prints each id beside its tag, and each
// error. With a node alone: of one server and of a cluster, without TLS and tokens.
const assert = require("node:assert");
const { readFileSync } = require("node:fs");
const { setTimeout: sleep } = require("node:timers/promises");
const { ErrorReply, RESP_TYPES, createClient, createCluster } = require("redis");

const [addresses, caFile, token] = process.argv.slice(2);

async function untilItIsEnded(ca) {
  const nodes = addresses.split(",").map((node) => ({ url: `rediss://${node}` }));
  // nodes = [{ url: "rediss://a:6380" }, { url: "rediss://b:6380" }, { url: "rediss://c:6380" }]
  const cluster = createCluster({
    rootNodes: nodes,
    defaults: { username: "shop", password: token, socket: { tls: true, ca } },
  });
  cluster.on("error", () => {});
  await cluster.connect();
  const ids = cluster.withTypeMapping({ [RESP_TYPES.NUMBER]: String });
  async function nextId(tag) {
    for (let left = 4; ; left--) {
      try {
        return BigInt(await ids.incr(tag));
      } catch (error) {
        // It does not itself send again what a lost connection has not answered.
        if (left === 0 || error instanceof ErrorReply) throw error;
        await sleep(250);
      }
    }
  }
  console.log("orders", `${await nextId("orders")}`);
  for (;;) {
    const lines = [];
    for (let n = 0; n < 30; n++) {
      const tag = `orders-${n}`;
      lines.push(await nextId(tag).then((id) => `${tag} ${id}`, (error) => `error ${error.message}`));
    }
    console.log(lines.join("\n"));
    await sleep(100);
  }
}

async function inBothModes() {
  const url = `redis://${addresses}`;
  for (const client of [createClient({ url }), createCluster({ rootNodes: [{ url }] })]) {
    await client.connect();
    const ids = client.withTypeMapping({ [RESP_TYPES.NUMBER]: String });
    const first = BigInt(await ids.incr("node-redis"));
    assert(BigInt(await ids.incrBy("node-redis", 5)) >= first + 5n);
    const queued = ids.multi();
    for (let n = 0; n < 30; n++) queued.incr("node-redis");
    assert.equal(new Set(await queued.exec()).size, 30);
    assert.equal(await ids.get("nothing"), null);
    client.destroy();
  }
}

const program = caFile === undefined ? inBothModes() : untilItIsEnded(readFileSync(caFile));
program.catch((error) => {
  console.log(error);
  process.exit(1);
});
