import { join } from 'node:path';
import { Command } from 'commander';
import { Config } from '#apps/settings';
import { CannotStart } from './failures.js';

const room = () => import('#libs/embedded/event-store');

/** What an operator does with the embedded event store of the data folder; `reporting` runs each and tells failures. */
export function eventStoreCommand(reporting: (work: () => Promise<void>) => Promise<void>): Command {
  const command = new Command('event-store').description('look after the embedded event store');
  const folder = () => join(Config.from(process.env).dataFolder, 'event-store');
  const add = (usage: string, description: string, work: (argument: string) => Promise<void>) =>
    command
      .command(usage)
      .description(description)
      .action((argument: string) => reporting(() => telling(() => work(argument))));
  add('check', 'verify every checksum, changing nothing; the server may run', async () => {
    const { inspectEventStore } = await room();
    const { events, notices } = inspectEventStore(folder());
    for (const notice of notices) console.log(notice);
    console.log(`${events} events, all as they were written`);
  });
  add('dump', 'print every event as a line of JSON, sealed fields as they are stored', async () => {
    const { inspectEventStore } = await room();
    inspectEventStore(folder(), (event) => void process.stdout.write(`${JSON.stringify(event)}\n`));
  });
  add(
    'backup <target>',
    'copy it into a new folder, which opens as it is; the server may run',
    async (target) => (await room()).backupEventStore(folder(), target),
  );
  add('scavenge', 'have the running event store free the disk of what nobody can read', async () => {
    const { requestScavenge } = await room();
    const started = await requestScavenge(`127.0.0.1:${Config.from(process.env).eventStorePort}`);
    console.log(started ? 'scavenging' : 'it is scavenging already');
  });
  return command;
}

/** What a person can mend is one line. */
async function telling(work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    const { DamagedLog, ForeignFolder } = await room();
    if (error instanceof DamagedLog || error instanceof ForeignFolder)
      throw new CannotStart(error.message, { cause: error });
    if (error instanceof Error && 'details' in error)
      throw new CannotStart(`the event store does not answer: ${String(error.details)}`, { cause: error });
    throw error;
  }
}
