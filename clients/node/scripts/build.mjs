// Builds dist: one implementation, in CommonJS, and a face of it for `import`, so that a process never has two.
import { execFileSync } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";

const require = createRequire(import.meta.url);
rmSync("dist", { recursive: true, force: true });
const tsc = require.resolve("typescript/package.json").replace("package.json", "bin/tsc");
execFileSync(process.execPath, [tsc, "-p", "."], { stdio: "inherit" });
const names = Object.keys(require("../dist/index.js")).join(", ");
writeFileSync("dist/index.mjs", `import mintleaf from "./index.js";\nexport const { ${names} } = mintleaf;\n`);
writeFileSync("dist/index.d.mts", `export * from "./index.js";\n`);
