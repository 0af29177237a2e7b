import { setTimeout as pause } from 'node:timers/promises';
import { Command } from 'commander';
import { Config } from '#apps/settings';
import { type Answer, ApiClient, nobodyAt, Refused, serverAddress, Unanswered } from './api-client.js';
import { CannotStart } from './failures.js';
import { tokenIssuer } from './token.js';

const PATIENCE_MS = 3_000;
const LOOK_MS = 200;
const BAR = 30;
const WORKING: readonly unknown[] = ['building', 'paused', 'comparing'];

type Reporting = (work: () => Promise<number | void>) => Promise<void>;

/** What an operator does with the projections of the running server (`WAYMARK_URL`). */
export function projectionCommands(reporting: Reporting): Command[] {
  const list = new Command('projections')
    .description('show how the projections of the running server stand')
    .action(() => reporting(() => asOperator(projections)));
  const rebuild = new Command('rebuild')
    .argument('<projection>', 'its name, such as authoritative-claims')
    .description(
      'build a projection afresh beside the live one, and compare the two; Ctrl-C leaves it to go on',
    )
    .option('--auto-switch', 'give readers the new one where the comparison is clean')
    .action((name: string, { autoSwitch = false }: { autoSwitch?: boolean }) =>
      reporting(() => asOperator((api) => rebuilt(api, name, autoSwitch))),
    );
  return [list, rebuild];
}

async function asOperator<Result>(work: (api: ApiClient) => Promise<Result>): Promise<Result> {
  const url = serverAddress();
  const issue = await tokenIssuer(Config.from(process.env));
  const token = await issue({ role: ['operator'], sub: 'operator', tenant: 'operations' });
  try {
    return await work(new ApiClient(url, token, PATIENCE_MS));
  } catch (error) {
    if (error instanceof Unanswered) throw nobodyAt(url, error.message);
    if (error instanceof Refused) throw new CannotStart(error.message, { cause: error });
    throw error;
  }
}

async function projections(api: ApiClient): Promise<void> {
  const { items } = await api.call('GET', '/v1/projections');
  console.table(items);
}

/** Gives 1 where the documents differ or the rebuild ended without a switch that was wanted. */
async function rebuilt(api: ApiClient, name: string, autoSwitch: boolean): Promise<number> {
  const at = `/v1/projections/${encodeURIComponent(name)}/rebuilds`;
  const { rebuildId } = await api.call('POST', at, { body: { autoSwitch } });
  const path = `${at}/${String(rebuildId)}`;
  const look = () => api.call('GET', path);
  let shown = await look();
  while (WORKING.includes(shown.phase) || (autoSwitch && shown.phase === 'ready')) {
    showProgress(shown);
    await pause(LOOK_MS);
    shown = await look();
  }
  showProgress(shown);
  console.log(`\nrebuild ${String(rebuildId)}: ${String(shown.phase)}`);
  if (shown.comparison !== undefined) console.log(JSON.stringify(shown.comparison));
  if (shown.phase === 'ready') console.log(`switch with POST ${path}/switch`);
  return shown.phase === 'ready' || shown.phase === 'switched' ? 0 : 1;
}

function showProgress({ phase, percent, rate, etaSeconds }: Answer): void {
  const done = Math.floor((Number(percent) / 100) * BAR);
  const bar = '#'.repeat(done).padEnd(BAR, '.');
  const left = typeof etaSeconds === 'number' ? `${etaSeconds} s left` : 'waiting';
  const line = `[${bar}] ${Number(percent)} %  ${String(phase)}  ${Number(rate)}/s  ${left}`;
  process.stdout.write(process.stdout.isTTY ? `\r${line.padEnd(90)}` : `${line}\n`);
}
