// Makes the fixture of this folder anew, with keys of its own: `npm run build && node test/conformance/stored/record.mjs`.
// Only before a first release: what is recorded stands for what installations have stored.
import { createHash } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { startEventStore } from '../../../dist/libs/embedded/event-store/src/index.js';
import { claimStream } from '../../../dist/libs/domain/claims/src/index.js';
import * as examples from '../../../dist/libs/domain/examples/src/index.js';
import { runStream } from '../../../dist/libs/domain/runs/src/index.js';
import { EventStore } from '../../../dist/libs/event-store/src/index.js';
import { Vault } from '../../../dist/libs/vault/src/index.js';

const here = fileURLToPath(new URL('.', import.meta.url));
const folder = await mkdtemp(join(tmpdir(), 'waymark-record-'));
await rm(join(here, 'keys'), { recursive: true, force: true });
const vault = await Vault.open({ folder: join(here, 'keys') });
await vault.tenant(examples.tenant);
const server = await startEventStore({ folder, port: 0 });
const store = await EventStore.connect({ url: server.url, vault });
const actor = { sub: 'carol', roles: ['customer'], customerId: examples.customerId, actFor: [] };

async function record(kind, id, history) {
  for (const [index, event] of history.entries()) {
    const context = {
      actor,
      commandId: `00000000-0000-5000-8000-${String(index).padStart(12, '0')}`,
      bodyDigest: createHash('sha256').update(`body ${index}`).digest('hex'),
      at: examples.seconds(index),
    };
    const always = { ...kind, decider: { ...kind.decider, decide: () => [event] } };
    const call = {
      tenant: examples.tenant,
      id,
      context,
      command: {},
      creates: index === 0,
      answer: () => null,
    };
    await store.handle(always, call);
  }
  const stream = `${kind.category}-${examples.tenant}.${id}`;
  const events = [];
  for await (const event of store.read(stream))
    events.push({ ...event, revision: String(event.revision), position: undefined });
  const opened = history.map(({ data }) => data);
  await writeFile(join(here, `${kind.category}.json`), JSON.stringify({ events, opened }, null, 2));
}

await record(runStream, examples.runId, examples.filedRun);
await record(claimStream, examples.claimId, examples.filedClaim);
await store.close();
await server.close();
await rm(folder, { recursive: true });
await rm(join(here, 'keys', 'tmp'), { recursive: true });
