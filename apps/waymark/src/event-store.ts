import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { Command } from 'commander';
import { Config } from '#apps/settings';
import { openDataFolder } from './data-folder.js';
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
    const { eventStorePort, eventStoreTls } = Config.from(process.env);
    if (eventStoreTls)
      throw new CannotStart('a store with users is asked to scavenge by one of them, through a client');
    const started = await requestScavenge(`127.0.0.1:${eventStorePort}`);
    console.log(started ? 'scavenging' : 'it is scavenging already');
  });
  command.addCommand(usersCommand(reporting, folder));
  return command;
}

/** Users are needed beyond loopback. A password is read from standard input, where nobody else sees it. */
function usersCommand(
  reporting: (work: () => Promise<void>) => Promise<void>,
  folder: () => string,
): Command {
  const command = new Command('users').description('its users; the server may run and sees a change at once');
  command
    .command('list')
    .description('print each user with their groups')
    .action(() =>
      reporting(() =>
        telling(async () => {
          const { listUsers } = await room();
          for (const { name, groups } of listUsers(folder())) console.log([name, ...groups].join(' '));
        }),
      ),
    );
  command
    .command('put <name>')
    .description('add a user or change one; the password is the first line of standard input')
    .option('--group <group...>', '$admins may do everything, $ops looks after the store', [])
    .action((name: string, { group: groups }: { group: string[] }) =>
      reporting(() =>
        telling(async () => {
          await openDataFolder(Config.from(process.env).dataFolder);
          const [password = ''] = (await text(process.stdin)).split('\n', 1);
          await (await room()).putUsers(folder(), [{ name, password, groups }]);
        }),
      ),
    );
  command
    .command('remove <name>')
    .description('remove a user')
    .action((name: string) =>
      reporting(() => telling(async () => (await room()).removeUser(folder(), name))),
    );
  return command;
}

/** What a person can mend is one line. */
async function telling(work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    const { DamagedLog, ForeignFolder, UsersUnchanged } = await room();
    const mendable = [DamagedLog, ForeignFolder, UsersUnchanged];
    if (mendable.some((kind) => error instanceof kind) && error instanceof Error)
      throw new CannotStart(error.message, { cause: error });
    if (error instanceof Error && 'details' in error)
      throw new CannotStart(`the event store does not answer: ${String(error.details)}`, { cause: error });
    throw error;
  }
}
