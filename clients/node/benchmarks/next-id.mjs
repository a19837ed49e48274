// How fast held ids are handed out, beside generators of snowflakes from npm. A server in this process answers every
// request for a lease at once, so the client's own cost is measured, leases included.
//
//   npm install && npm start     in this directory, after `npm run build` in the one above
import { createServer } from "node:http";
import { Client } from "../dist/index.mjs";

const IDS = 5_000_000;
let next = 1n;
const server = createServer((request, answer) => {
  const count = BigInt(new URL(request.url, "http://a").searchParams.get("count"));
  const [start, end] = [next, (next += count)];
  const ids = () => Array.from({ length: Number(count) }, (_, at) => String(start + BigInt(at)));
  const body = request.url.includes("ranges") ? { ranges: [{ start: `${start}`, end: `${end}` }] } : { ids: ids() };
  answer.end(JSON.stringify(body));
}).listen(0, "127.0.0.1");
await new Promise((resolve) => server.once("listening", resolve));
const client = new Client({ endpoints: [`http://127.0.0.1:${server.address().port}`] });

async function measure(name, take, ids = IDS) {
  let best = 0;
  for (let round = 0; round < 4; round++) {
    const began = performance.now();
    await take(ids);
    best = Math.max(best, ids / (performance.now() - began) / 1_000);
  }
  console.log(`${name.padEnd(44)} ${best.toFixed(1)} M/s`);
}

await measure("mintleaf tryNextId ?? await nextId", async (ids) => {
  for (let at = 0; at < ids; at++) client.tryNextId("orders") ?? (await client.nextId("orders"));
});
await measure("mintleaf await nextId", async (ids) => {
  for (let at = 0; at < ids; at++) await client.nextId("orders");
});
await measure("mintleaf await nextIds(1,000)", async (ids) => {
  for (let at = 0; at < ids; at += 1_000) await client.nextIds("orders", 1_000);
});
for (const [name, make] of [
  ["@sapphire/snowflake", ({ Snowflake }) => { const flakes = new Snowflake(1_600_000_000_000); return () => flakes.generate(); }],
  ["nodejs-snowflake", ({ Snowflake }) => { const flakes = new Snowflake(); return () => flakes.getUniqueID(); }],
]) {
  const found = await import(name).catch(() => undefined);
  if (found === undefined) {
    console.log(`${name.padEnd(44)} SKIPPED: not installed`);
    continue;
  }
  const generate = make(found.default?.Snowflake ? found.default : found);
  await measure(name, async (ids) => { for (let at = 0; at < ids; at++) generate(); }, IDS / 10);
}
await client.close();
server.close();
