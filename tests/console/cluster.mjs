// Real nodes: three processes of the binary under test, on free ports of this machine.

import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, existsSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Tries until `attempt` answers something, for so long at most. */
export async function eventually(what, seconds, attempt) {
  const deadline = Date.now() + seconds * 1000;
  for (;;) {
    let found;
    try {
      found = await attempt();
    } catch (error) {
      if (Date.now() > deadline) throw new Error(`${what}: ${error.message}`);
    }
    if (found) return found;
    if (Date.now() > deadline) throw new Error(`waited ${seconds} s in vain for ${what}`);
    await wait(50);
  }
}

async function freePorts(count) {
  const servers = await Promise.all(Array.from({ length: count }, () => new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => resolve(server));
  })));
  const ports = servers.map((server) => server.address().port);
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
}

export class Cluster {
  constructor(binary) {
    this.binary = binary;
    this.directory = mkdtempSync(join(tmpdir(), 'mintleaf-console-'));
    this.processes = new Map();
    this.flags = new Map();
  }

  static async start(binary, nodes, { flagsOf = () => [], clockOf = () => null } = {}) {
    const cluster = new Cluster(binary);
    const ports = await freePorts(nodes * 2);
    cluster.http = ports.slice(0, nodes);
    const peers = ports.slice(nodes).map((port, at) => `${at + 1}=127.0.0.1:${port}`).join(',');
    for (let id = 1; id <= nodes; id += 1) {
      const flags = ['serve', '--node-id', id, '--http', `127.0.0.1:${ports[id - 1]}`, '--raft', `127.0.0.1:${ports[nodes + id - 1]}`,
        '--data', join(cluster.directory, `node-${id}`), '--peers', peers, '--drain', '0s', ...flagsOf(id)];
      cluster.flags.set(id, { flags: flags.map(String), clock: clockOf(id) });
      cluster.startNode(id);
    }
    for (let id = 1; id <= nodes; id += 1) {
      await eventually(`node ${id}`, 30, async () => (await fetch(`${cluster.url(id)}/readyz`)).ok);
    }
    return cluster;
  }

  startNode(id) {
    const { flags, clock } = this.flags.get(id);
    const environment = { ...process.env, RUST_LOG: 'error,openraft=off', ...(clock ? { FAKETIME: clock, LD_PRELOAD: faketime(), FAKETIME_DONT_FAKE_MONOTONIC: '1' } : {}) };
    const child = spawn(this.binary, flags, { env: environment, stdio: ['ignore', 'ignore', 'inherit'] });
    this.processes.set(id, child);
  }

  url(id) {
    return `http://127.0.0.1:${this.http[id - 1]}`;
  }

  /** Asks a node for JSON; answers `null` where there is no body. */
  async ask(id, path, { method = 'GET', body, token } = {}) {
    const headers = { ...(body ? { 'content-type': 'application/json' } : {}), ...(token ? { authorization: `Bearer ${token}` } : {}) };
    const answer = await fetch(this.url(id) + path, { method, headers, body: body && JSON.stringify(body) });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    return text && answer.headers.get('content-type')?.includes('json') ? JSON.parse(text) : text;
  }

  signal(id, name) {
    this.processes.get(id).kill(name);
  }

  stop() {
    for (const child of this.processes.values()) {
      child.kill('SIGCONT');
      child.kill('SIGKILL');
    }
    rmSync(this.directory, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** The library that sets the clock of a process; `null` where it is not installed. */
export function faketime() {
  const places = ['/usr/lib/x86_64-linux-gnu', '/usr/lib/aarch64-linux-gnu', '/usr/lib64', '/usr/lib', '/usr/local/lib'];
  return places.map((place) => join(place, 'faketime', 'libfaketimeMT.so.1')).find(existsSync) ?? null;
}
