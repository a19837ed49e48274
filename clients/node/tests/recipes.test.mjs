// Each program of recipes, as it is, with the tarball of this package and three real nodes.
import assert from "node:assert/strict";
import { execFile, execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { Nodes, skip } from "./nodes.mjs";

const home = fileURLToPath(new URL("..", import.meta.url));
const npm = (args, cwd) => execFileSync("npm", args, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"], timeout: 120_000 });

test("Drizzle and TypeORM insert 10,000 rows by eight writers, a request for a thousand at most", { skip, timeout: 480_000 }, async (t) => {
  const dir = mkdtempSync(join(tmpdir(), "mintleaf-recipes-"));
  try {
    const [packed] = JSON.parse(npm(["pack", "--json", "--ignore-scripts", "--pack-destination", dir], home));
    for (const file of ["package.json", "drizzle.mjs", "typeorm.mjs"]) cpSync(join(home, "recipes", file), join(dir, file));
    try {
      npm(["install", "--no-audit", "--no-fund", "--no-package-lock", join(dir, packed.filename)], dir);
    } catch (error) {
      console.error(`SKIPPED: drizzle-orm, typeorm and sql.js cannot be installed: ${error.message}`);
      return t.skip("drizzle-orm, typeorm and sql.js cannot be installed");
    }
    const nodes = await Nodes.start();
    try {
      await nodes.post("/v1/tags", { tag: "orders" });
      const env = { ...process.env, MINTLEAF: nodes.endpoints.join(",") };
      for (const program of ["drizzle.mjs", "typeorm.mjs"]) {
        const { stdout } = await promisify(execFile)(process.execPath, [program], { cwd: dir, env, timeout: 120_000 });
        const [, requests] = stdout.match(/^10000 rows, 10000 distinct ids, (\d+) requests\n$/) ?? assert.fail(`${program}: ${stdout}`);
        assert.ok(requests <= 10, `${program}: ${stdout}`);
      }
    } finally {
      await nodes.end();
    }
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
});

test("docs/adapters.md shows a part of typeorm.mjs", () => {
  const [page, program] = ["../../docs/adapters.md", "recipes/typeorm.mjs"].map((file) => readFileSync(join(home, file), "utf8"));
  const [, part] = page.match(/^```js\n(.+?)^```$/ms);
  assert.ok(program.includes(part));
});
