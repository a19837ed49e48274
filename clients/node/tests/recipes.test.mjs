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
const npm = (args, cwd) => execFileSync("npm", args, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"], timeout: 300_000 });
const [major, minor] = process.versions.node.split(".").map(Number);
const old = "SKIPPED: Prisma 7 needs Node.js 20.19, 22.12 or 24";
const isOld = major < 20 || (major === 20 && minor < 19) || major === 21 || (major === 22 && minor < 12) || major === 23;
if (isOld) console.error(old);

/** Runs the programs of a folder of recipes beside what its package.json asks for. */
async function run(t, folder, files, prepare = () => {}) {
  const dir = mkdtempSync(join(tmpdir(), "mintleaf-recipes-"));
  try {
    const [packed] = JSON.parse(npm(["pack", "--json", "--ignore-scripts", "--pack-destination", dir], home));
    for (const file of ["package.json", ...files]) cpSync(join(home, folder, file), join(dir, file));
    try {
      npm(["install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts", join(dir, packed.filename)], dir);
    } catch (error) {
      console.error(`SKIPPED: what ${folder} needs cannot be installed: ${error.message}`);
      return t.skip(`what ${folder} needs cannot be installed`);
    }
    prepare(dir);
    const nodes = await Nodes.start();
    try {
      await nodes.post("/v1/tags", { tag: "orders" });
      const env = { ...process.env, MINTLEAF: nodes.endpoints.join(","), TMPDIR: dir };
      for (const program of files.filter((file) => file.endsWith(".mjs"))) {
        const { stdout } = await promisify(execFile)(process.execPath, [program], { cwd: dir, env, timeout: 240_000 });
        const [, requests] = stdout.match(/^10000 rows, 10000 distinct ids, (\d+) requests\n$/) ?? assert.fail(`${program}: ${stdout}`);
        assert.ok(requests <= 10, `${program}: ${stdout}`);
      }
    } finally {
      await nodes.end();
    }
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

test("Drizzle and TypeORM insert 10,000 rows by eight writers, a request for a thousand at most", { skip, timeout: 900_000 }, (t) =>
  run(t, "recipes", ["drizzle.mjs", "typeorm.mjs"]));

test("Prisma inserts 10,000 rows by eight writers, a request for a thousand at most", { skip: isOld ? old : skip, timeout: 900_000 }, (t) =>
  run(t, "recipes/prisma", ["schema.prisma", "prisma.mjs"], (dir) => {
    // The command wants an engine for migrations, which this does not use: it would download one.
    const env = { ...process.env, PRISMA_SCHEMA_ENGINE_BINARY: process.execPath, CHECKPOINT_DISABLE: "1" };
    execFileSync("npx", ["prisma", "generate"], { cwd: dir, env, stdio: ["ignore", "pipe", "pipe"], timeout: 240_000 });
  }));

test("docs/adapters.md shows a part of typeorm.mjs", () => {
  const [page, program] = ["../../docs/adapters.md", "recipes/typeorm.mjs"].map((file) => readFileSync(join(home, file), "utf8"));
  const [, part] = page.match(/^```js\n(.+?)^```$/ms);
  assert.ok(program.includes(part));
});
