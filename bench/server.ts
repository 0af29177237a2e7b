import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Config } from '#apps/settings';
import { launchServer, tokenIssuer } from '#apps/waymark';

const PROGRAM = fileURLToPath(new URL('../apps/waymark/src/main.js', import.meta.url));
const FREE_PORTS = { WAYMARK_PORT: '0', WAYMARK_EVENTSTORE_PORT: '0', WAYMARK_MONGODB_PORT: '0' };

export interface BenchServer {
  url: string;
  eventStoreUrl: string;
  tenant: string;
  /** An assistant's bearer token of that tenant. */
  token: string;
  stop(): Promise<void>;
}

/** Waymark on its embedded engines and a temporary folder, as `npm start` runs it. */
export async function startServer(): Promise<BenchServer> {
  const WAYMARK_DATA = await mkdtemp(join(tmpdir(), 'waymark-bench-'));
  const environment = { ...process.env, LOG_LEVEL: 'warn', ...FREE_PORTS, WAYMARK_DATA };
  const launched = await launchServer(PROGRAM, { environment, log: 'inherit' });
  const issue = await tokenIssuer(Config.from({ WAYMARK_DATA }));
  const tenant = 'bench';
  const token = await issue({ role: ['assistant'], sub: `bench-${randomUUID()}`, tenant });
  const { url, eventStoreUrl } = launched.ready;
  const stop = async () => {
    await launched.stop();
    await rm(WAYMARK_DATA, { recursive: true });
  };
  return { url, eventStoreUrl, tenant, token, stop };
}
