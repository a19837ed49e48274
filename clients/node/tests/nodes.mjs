// Three real nodes of the binary that MINTLEAF_BINARY names, on loopback.
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

export const binary = process.env.MINTLEAF_BINARY;
export const skip = binary ? false : "SKIPPED: MINTLEAF_BINARY names no binary";
if (skip) console.error(skip);

async function freePorts(count) {
  const servers = Array.from({ length: count }, () => createServer().listen(0, "127.0.0.1"));
  await Promise.all(servers.map((server) => once(server, "listening")));
  const ports = servers.map((server) => server.address().port);
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
}

const token = (number) => `mlt_${number.toString(16).padStart(64, "0")}`;

function replace(file, text) {
  writeFileSync(`${file}.new`, text, { mode: 0o600 });
  renameSync(`${file}.new`, file);
}

export class Nodes {
  static async start(count = 3) {
    const nodes = new Nodes();
    const ports = await freePorts(2 * count);
    nodes.http = ports.slice(0, count);
    nodes.raft = ports.slice(count);
    nodes.endpoints = nodes.http.map((port) => `http://127.0.0.1:${port}`);
    nodes.dir = mkdtempSync(join(tmpdir(), "mintleaf-node-"));
    nodes.running = [];
    nodes.tokenFile = join(nodes.dir, "token");
    nodes.token = 0;
    nodes.admit(0);
    replace(nodes.tokenFile, token(0));
    for (let at = 0; at < count; at++) nodes.run(at);
    for (let at = 0; at < count; at++) await nodes.ready(at);
    return nodes;
  }

  run(at) {
    const peers = this.raft.map((port, peer) => `${peer + 1}=127.0.0.1:${port}`).join(",");
    const args = ["serve", "--node-id", `${at + 1}`, "--http", `127.0.0.1:${this.http[at]}`, "--raft", `127.0.0.1:${this.raft[at]}`];
    args.push("--peers", peers, "--data", join(this.dir, `${at}`), "--auth-file", join(this.dir, "auth.toml"), "--insecure");
    this.running[at] = spawn(binary, args, { stdio: "ignore" });
  }

  ready(at) {
    return this.answers(200, at, "/readyz");
  }

  async answers(status, at, path, headers = {}) {
    const end = performance.now() + 180_000; // on a loaded machine
    while (performance.now() < end) {
      const init = { headers, signal: AbortSignal.timeout(5_000) };
      const answer = await fetch(this.endpoints[at] + path, init).catch(() => undefined);
      await answer?.text().catch(() => "");
      if (answer?.status === status) return;
      await sleep(50);
    }
    throw new Error(`node ${at + 1} does not answer ${path} with ${status}`);
  }

  /** Puts the tokens of these numbers, and no others, into the auth file of all nodes. */
  admit(...numbers) {
    const hash = (number) => createHash("sha256").update(token(number)).digest("hex");
    const entry = (number) => `[[token]]\nname = "t${number}"\nrole = "issue"\nhash = "sha256:${hash(number)}"\n`;
    replace(join(this.dir, "auth.toml"), `anonymous = "admin"\n${numbers.map(entry).join("")}`);
    for (const node of this.running) node.kill("SIGHUP");
  }

  /** Replaces the token by the next one while calls go on. All nodes are up. */
  async changeToken() {
    const [old, next] = [this.token, ++this.token];
    const bearer = (number) => ({ Authorization: `Bearer ${token(number)}` });
    this.admit(old, next);
    for (const at of this.running.keys()) await this.answers(200, at, "/v1/snowflake", bearer(next));
    replace(this.tokenFile, token(next));
    await sleep(2_000); // Requests under way still carry the old one.
    this.admit(next);
    for (const at of this.running.keys()) await this.answers(401, at, "/v1/snowflake", bearer(old));
  }

  /** Stops a node for longer than an attempt lasts, and lets it go on. */
  async hang(at) {
    this.running[at].kill("SIGSTOP");
    await sleep(3_500);
    this.running[at].kill("SIGCONT");
  }

  async stop(at, signal) {
    const node = this.running[at];
    if (node.exitCode !== null || node.signalCode !== null) return;
    const ended = once(node, "exit");
    node.kill(signal);
    await ended;
  }

  async post(path, body, method = "POST") {
    const init = { method, headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
    const answer = await fetch(this.endpoints[0] + path, init);
    if (!answer.ok) throw new Error(await answer.text());
  }

  async end() {
    await Promise.all(this.running.map((_, at) => this.stop(at, "SIGKILL")));
    rmSync(this.dir, { recursive: true, force: true });
  }
}
