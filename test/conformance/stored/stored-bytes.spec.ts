import { readFileSync } from 'node:fs';
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { commandIdOf } from '#apps/api';
import { derivedId, type Json } from '#libs/canonical';
import { receiptNumberOf } from '#libs/domain/claims';
import { claimIdOf } from '#libs/domain/losses';
import { type StoredEvent, verifyChain } from '#libs/event-store';
import { Vault } from '#libs/vault';

/**
 * One run and one claim exactly as they were stored, with the keys they were sealed under: what is read here is what
 * installations have. The literals are those of the day it was recorded; code that gives others loses stored data,
 * or gives a repeat a second effect.
 */
const recorded = 'test/conformance/stored';

let folder: string;
let vault: Vault;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'waymark-stored-'));
  await cp(`${recorded}/keys`, folder, { recursive: true });
  vault = await Vault.open({ folder, id: '6c61bd0e' });
});
afterAll(() => rm(folder, { recursive: true }));

function streamOf(category: string): { events: StoredEvent[]; opened: Json[] } {
  const { events, opened } = JSON.parse(readFileSync(`${recorded}/${category}.json`, 'utf8')) as {
    events: (Omit<StoredEvent, 'revision' | 'position'> & { revision: string })[];
    opened: Json[];
  };
  const stored = events.map((event) => ({ ...event, revision: BigInt(event.revision), position: 0n }));
  return { events: stored, opened };
}

const customerId = '0b6a3c1e-8a54-4c57-b0f6-7f4f5b9a2c02';
const runId = '5f0c2a54-6d0e-4c8e-9d3b-3a1f5f1f0a01';

describe.each([
  ['run', 7, '76220d9d325e85a57cf76d0d769847d2073ff4dd8b4be3fc25932a1aedc63aab'],
  ['claim', 1, '1d0778fbbf78a0439cf33df59ad0448e41311f2afd23fe3105e783766009bf91'],
])('a stored %s', (category, count, head) => {
  const { events, opened } = streamOf(category);

  it('has the chain that it had', async () => {
    expect(await verifyChain(events)).toEqual({ verdict: 'intact', events: count, head });
  });

  it('opens to what was said', async () => {
    const open = ({ tenant, stream, eventId, data }: StoredEvent) =>
      vault.openAll(tenant, data, `${stream}/${eventId}`);
    expect(await Promise.all(events.map(open))).toStrictEqual(opened);
    const texts =
      { run: 'Photos match the description.', claim: 'Rear-ended at a red light' }[category] ?? '?';
    expect(JSON.stringify(opened)).toContain(texts);
    expect(JSON.stringify(events.map(({ data }) => data))).not.toContain(texts);
  });
});

describe('what is derived', () => {
  it('from names alone', () => {
    expect(derivedId('a', 'bc')).toBe('5e689d79-1868-52b6-a2eb-13509321147a');
    expect(claimIdOf('acme', runId, 'collision')).toBe('3857458c-c985-514a-9ce2-66559f56c6a9');
    expect(receiptNumberOf('seed')).toBe('R-W79X-FRY9-DHF1-MMCR');
  });

  it('under the key of a tenant', async () => {
    const keys = await vault.tenant('acme');
    const place = {
      sub: 'worker-1',
      route: 'POST /v1/runs/:runId/phase',
      params: { runId },
      named: undefined,
    };
    expect(commandIdOf(keys, place, 'key')).toBe('81bcc7f1-5a75-58e5-9df2-719defdb1481');
    const start = { sub: 'worker-1', route: 'POST /v1/runs', params: {}, named: runId };
    expect(commandIdOf(keys, start, 'key')).toBe('f7fa688b-a7c1-5d85-bbd4-0c0c34c504b5');
    expect(keys.hmac('command-body', '{}')).toBe(
      '16c12e524e8785a5ddb3b281cce5aba0cffab2177f5ea9348b85684a04544586',
    );
  });

  it('under the keys of a customer', async () => {
    const keys = await vault.person('acme', customerId);
    const carried = '2a0d1e0d0a4f7f1c5f9a2dfc1b6d3f1bb3a3c1f0e6b8b9b7d2c4a1f0e5d6c7b8';
    const digest = (kind: 'run' | 'claim', id: string) =>
      keys.hmac(kind, 'stored-body', `${kind}-acme.${id}\0${carried}`);
    expect(digest('run', runId)).toBe('98fef7f9ded84cdd4dcb7eca58cdc9c5032b4cd89cd2dd78809327ffb7c3c823');
    expect(digest('claim', claimIdOf('acme', runId, 'collision'))).toBe(
      '480903f69e8d0bd6fb30faa52f269d411ad0d4d3f7c10344b3422e24e2ba4b43',
    );
  });

  it('as the stored events have it', async () => {
    const keys = await vault.person('acme', customerId);
    const [started] = streamOf('run').events;
    const carried = '03d9cc741a0dc36e8752b9e5c09baaed7431a9bce401dc710199a23a2f01aad3';
    expect(started?.metadata.bodyDigest).toBe(
      keys.hmac('run', 'stored-body', `run-acme.${runId}\0${carried}`),
    );
  });
});
