// The tarball, installed as a program would, by `import` and by `require`; and a process that ends by itself.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { Client } from "../dist/index.mjs";

const home = fileURLToPath(new URL("..", import.meta.url));

test("the package works by import and by require, with one implementation", () => {
  const dir = mkdtempSync(join(tmpdir(), "mintleaf-pack-"));
  try {
    const [packed] = JSON.parse(execFileSync("npm", ["pack", "--json", "--ignore-scripts", "--pack-destination", dir], { cwd: home, encoding: "utf8" }));
    for (const { path } of packed.files) assert.match(path, /^(dist\/[a-z]+\.(js|mjs|d\.ts|d\.mts)|README\.md|package\.json)$/);
    writeFileSync(join(dir, "package.json"), "{}");
    execFileSync("npm", ["install", "--offline", "--no-audit", "--no-fund", join(dir, packed.filename)], { cwd: dir });
    const program = `
      import { createRequire } from "node:module";
      import * as imported from "mintleaf";
      const required = createRequire(import.meta.url)("mintleaf");
      if (imported.Client !== required.Client || imported.Refused !== required.Refused) throw new Error("two of them");
      new imported.Client({ endpoints: ["http://127.0.0.1:1"], zone: "a" }); // an idle client keeps no process alive
      console.log("well");`;
    writeFileSync(join(dir, "program.mjs"), program);
    assert.equal(execFileSync(process.execPath, ["program.mjs"], { cwd: dir, encoding: "utf8", timeout: 20_000 }), "well\n");
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
});

test("an aborted call ends with the signal's reason, and a token's file is read again", async () => {
  const tokens = [];
  const server = createServer((request, answer) => {
    tokens.push(request.headers.authorization);
    if (request.url.startsWith("/v1/sequence/slow")) return;
    answer.end('{"ids":["9007199254740993"],"lease":false}');
  }).listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const dir = mkdtempSync(join(tmpdir(), "mintleaf-token-"));
  const tokenFile = join(dir, "token");
  writeFileSync(tokenFile, "mlt_one\n");
  const client = new Client({ endpoints: [`http://127.0.0.1:${server.address().port}`], tokenFile });
  try {
    assert.equal(await client.nextId("orders"), 9007199254740993n);
    writeFileSync(tokenFile, "mlt_another\n");
    assert.equal(await client.nextText("orders"), "9007199254740993");
    assert.deepEqual(tokens, ["Bearer mlt_one", "Bearer mlt_another"]);
    const controller = new AbortController();
    const call = client.nextNumber("slow", "key", { signal: controller.signal });
    setTimeout(() => controller.abort(new Error("enough")), 20);
    await assert.rejects(call, /enough/);
    assert.equal(client.stats().waitingCalls, 0);
  } finally {
    await client.close();
    server.closeAllConnections();
    server.close();
    rmSync(dir, { recursive: true, force: true });
  }
});
