// Three real nodes of the binary that MINTLEAF_BINARY names, on loopback.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
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

export class Nodes {
  static async start(count = 3) {
    const nodes = new Nodes();
    const ports = await freePorts(2 * count);
    nodes.http = ports.slice(0, count);
    nodes.raft = ports.slice(count);
    nodes.endpoints = nodes.http.map((port) => `http://127.0.0.1:${port}`);
    nodes.dir = mkdtempSync(join(tmpdir(), "mintleaf-node-"));
    nodes.running = [];
    for (let at = 0; at < count; at++) nodes.run(at);
    for (let at = 0; at < count; at++) await nodes.ready(at);
    return nodes;
  }

  run(at) {
    const peers = this.raft.map((port, peer) => `${peer + 1}=127.0.0.1:${port}`).join(",");
    const args = ["serve", "--node-id", `${at + 1}`, "--http", `127.0.0.1:${this.http[at]}`, "--raft", `127.0.0.1:${this.raft[at]}`];
    this.running[at] = spawn(binary, [...args, "--peers", peers, "--data", join(this.dir, `${at}`)], { stdio: "ignore" });
  }

  async ready(at) {
    for (let tries = 0; tries < 600; tries++) {
      const answer = await fetch(`${this.endpoints[at]}/readyz`).catch(() => undefined);
      await answer?.text().catch(() => "");
      if (answer?.ok) return;
      await sleep(50);
    }
    throw new Error(`node ${at + 1} is not ready`);
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
