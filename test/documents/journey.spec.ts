import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { Installation, type Server } from '#test/support';

/** Real processes take their time on a busy machine. */
jest.setTimeout(60_000);

const readme = readFileSync(resolve(__dirname, '../../README.md'), 'utf8');
const journey = /<!-- journey:.*?```sh\n(.*?)```/s.exec(readme)?.[1] ?? '';

describe('what the README shows', () => {
  let installation: Installation;
  let server: Server;
  beforeAll(async () => {
    installation = await Installation.create();
    server = await installation.start();
  });
  afterAll(() => installation.remove());

  it('is a journey in twelve lines of curl that ends with a receipt of its own, each time', async () => {
    expect(journey.trim().split('\n')).toHaveLength(12);
    const receipts: string[] = [];
    for (let time = 0; time < 2; time++) {
      const { status, out } = await run('bash', ['-euo', 'pipefail', '-c', onThisServer(journey)]);
      const lines = out.trim().split('\n');
      const [, receipt = ''] = /^"receiptNumber":"(R-[0-9A-Z]{4}(?:-[0-9A-Z]{4}){3})"$/m.exec(out) ?? [];
      expect([status, lines.length, receipt]).toEqual([0, 5, expect.stringMatching(/^R-/)]);
      expect(lines.at(-1)).toContain('"status":"completed"');
      receipts.push(receipt);
    }
    expect(new Set(receipts).size).toBe(2);
  });

  it('is a demo that tells the journey to its end', async () => {
    const { status, out } = await run(process.execPath, [installation.program, 'demo']);
    expect(status).toBe(0);
    expect(out).toMatch(/^8\. [^]*The claim was filed; its receipt is R-[^]*The run was completed\.\n$/m);
    expect(out).toMatch(/as the assistant -> 403 not-permitted/);
    expect(out).toMatch(/with the old lease -> 409 stale-lease/);
  });

  /** The lines as they stand, but for the address, and for npx, which would only find this program. */
  function onThisServer(lines: string): string {
    const npx = `npx() { shift; "${process.execPath}" "${installation.program}" "$@"; }`;
    return `${npx}\n${lines.replace('http://127.0.0.1:3000', server.url).replace('sleep 1', 'sleep 0.1')}`;
  }

  async function run(command: string, args: string[]) {
    const child = spawn(command, args, {
      env: installation.environment({ WAYMARK_URL: server.url }),
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const closed = once(child, 'close') as Promise<[number | null]>;
    const out = await text(child.stdout);
    return { status: (await closed)[0], out };
  }
});
