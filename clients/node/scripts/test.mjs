// Runs all tests, one file after another.
import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";

let failed = 0;
for (const file of readdirSync("tests").filter((name) => name.endsWith(".test.mjs"))) {
  failed += spawnSync(process.execPath, ["--test", `tests/${file}`], { stdio: "inherit" }).status === 0 ? 0 : 1;
}
process.exitCode = failed;
