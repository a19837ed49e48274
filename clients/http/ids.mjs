// Takes ids from any of three nodes over HTTP. docs/languages.md says what it does, and what to mind.
import { setTimeout as sleep } from "node:timers/promises";

const NODES = ["http://localhost:8081", "http://localhost:8082", "http://localhost:8083"];
let preferred = 0;

export async function nextIds(tag, count = 1) {
  const texts = await nextTexts(tag, count);
  // Ids that are texts have been taken all the same: a retry would waste more.
  if (!texts.every((text) => /^\d+$/.test(text))) {
    throw new TypeError(`ids of ${tag} are texts, such as ${texts[0]}: use nextTexts`);
  }
  return texts.map(BigInt);
}

export async function nextTexts(tag, count = 1) {
  let failure;
  for (let attempt = 0; attempt < 2 * NODES.length; attempt++) {
    const at = preferred;
    try {
      const url = `${NODES[at]}/v1/segment/${encodeURIComponent(tag)}?count=${count}`;
      const answer = await fetch(url, { signal: AbortSignal.timeout(2500) });
      if (answer.ok) return (await answer.json()).ids;
      failure = new Error(`${answer.status} ${await answer.text()}`);
      if (answer.status < 500 && answer.status !== 429) break;
    } catch (error) {
      failure = error;
    }
    preferred = (at + 1) % NODES.length;
    await sleep(50 * attempt);
  }
  throw failure;
}
