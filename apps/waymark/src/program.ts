import { Command, InvalidArgumentError, Option } from 'commander';
import { Config } from '#apps/settings';
import { MOST_ACTED_FOR, type Role, roles } from '#libs/access';
import { documentStoreCommand } from './document-store.js';
import { eventStoreCommand } from './event-store.js';
import { CannotStart, complain, inWords } from './failures.js';
import { projectionCommands } from './rebuild.js';
import { runService } from './service.js';

/** The command line; each command loads what it needs and no more. `main` is the program that `start` runs its children with. */
export function program(main: string, version: string): Command {
  const waymark = new Command('waymark')
    .description('Durable state for long-running assistants that do regulated work')
    .version(version)
    .showHelpAfterError();
  waymark
    .command('start')
    .description('run the server: the embedded engines and the app, until SIGTERM or Ctrl-C')
    .action(() =>
      reporting(async () => {
        const { start } = await import('./start.js');
        return start(Config.from(process.env), main);
      }),
    );
  waymark
    .command('engines')
    .description('run the embedded engines alone, on the same settings')
    .option('--event-store', 'the event store only')
    .option('--document-store', 'the document store only')
    .option('--policy-register', 'the policy register only')
    .action((only: EnginesNamed) => reporting(() => engines(only)));
  waymark
    .command('app', { hidden: true })
    .description('run the app alone, against engines whose addresses are set')
    .action(() => reporting(app));
  waymark.addCommand(tokenCommand());
  waymark.addCommand(eventStoreCommand(reporting));
  waymark.addCommand(documentStoreCommand(reporting));
  for (const command of projectionCommands(reporting)) waymark.addCommand(command);
  waymark
    .command('demo')
    .description("tell one claim's journey against the running server (WAYMARK_URL)")
    .action(() => reporting(async () => (await import('./demo.js')).demo(console.log)));
  waymark
    .command('losses <file>')
    .description('run every row of a CSV file of losses through a server, and check the books')
    .addOption(new Option('--journal <file>', 'add every acknowledged command to a file').hideHelp())
    .action((file: string, { journal }: { journal?: string }) =>
      reporting(async () => (await import('./losses/losses.js')).losses(file, journal, main)),
    );
  return waymark;
}

function tokenCommand(): Command {
  return new Command('token')
    .description('print a token, good for 12 hours, signed with the key of the data folder')
    .addOption(new Option('--role <role...>', roles.join(', ')).argParser(addRole).makeOptionMandatory())
    .requiredOption('--sub <sub>', 'who the token names', name)
    .requiredOption('--tenant <tenant>', 'a-z and 0-9, at most 32', tenant)
    .option('--customer <id>', 'the customer that the bearer is (a UUID)', uuid)
    .option('--act-for <sub...>', 'those for whom the bearer acts', addName)
    .action((request: { role: Role[]; sub: string; tenant: string; customer?: string; actFor?: string[] }) =>
      reporting(async () => {
        if (request.role.includes('customer') && request.customer === undefined)
          throw new CannotStart('--role customer needs --customer: a customer sees what is their own');
        const { tokenIssuer } = await import('./token.js');
        const issue = await tokenIssuer(Config.from(process.env));
        console.log(await issue(request));
      }),
    );
}

interface EnginesNamed {
  eventStore?: true;
  documentStore?: true;
  policyRegister?: true;
}

/** Those that are named; where none is, all. */
async function engines({ eventStore, documentStore, policyRegister }: EnginesNamed): Promise<void> {
  const all = !eventStore && !documentStore && !policyRegister;
  const wanted = {
    eventStore: all || eventStore === true,
    documentStore: all || documentStore === true,
    policyRegister: all || policyRegister === true,
  };
  const config = Config.from(process.env);
  const { startEngines } = await import('./engines.js');
  await runService(
    () => startEngines(config, wanted),
    ({ eventStoreUrl, mongoUrl, policiesUrl }) => {
      if (eventStoreUrl !== undefined) console.log(`event store     ${eventStoreUrl}`);
      if (mongoUrl !== undefined) console.log(`document store  ${mongoUrl}`);
      if (policiesUrl !== undefined) console.log(`policy register ${policiesUrl}`);
    },
  );
}

async function app(): Promise<void> {
  const config = Config.from(process.env);
  const { startApp } = await import('./app.js');
  await runService(
    () => startApp(config),
    ({ url }) => console.log(`app             ${url}`),
  );
}

/** Runs a command; what went wrong is one line where it is a person's to mend, and the whole error otherwise. */
async function reporting(command: () => Promise<number | void>): Promise<void> {
  try {
    process.exitCode = (await command()) ?? 0;
  } catch (error) {
    const words = inWords(error);
    if (words === undefined) console.error(error);
    else complain(words);
    process.exitCode = 1;
  }
  // A channel to a parent would keep this process alive.
  if (process.connected) process.disconnect();
}

function addRole(role: string, before: Role[] | undefined): Role[] {
  const known = roles.find((name) => name === role);
  if (known === undefined) throw new InvalidArgumentError(`A role is one of ${roles.join(', ')}.`);
  return [...(before ?? []), known];
}

function name(text: string): string {
  if (!/^[A-Za-z0-9._@:|+-]{1,128}$/.test(text))
    throw new InvalidArgumentError('A name is 1 to 128 of A-Z, a-z, 0-9 and . _ @ : | + -.');
  return text;
}

function addName(text: string, before: string[] | undefined): string[] {
  if (before?.length === MOST_ACTED_FOR)
    throw new InvalidArgumentError(`One acts for at most ${MOST_ACTED_FOR} others.`);
  return [...(before ?? []), name(text)];
}

function tenant(text: string): string {
  if (!/^[a-z0-9]{1,32}$/.test(text)) throw new InvalidArgumentError('A tenant is 1 to 32 of a-z and 0-9.');
  return text;
}

function uuid(text: string): string {
  if (!/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text))
    throw new InvalidArgumentError('A customer is a UUID, such as 5f8c7d1e-3a2b-4c6d-8e9f-0a1b2c3d4e5f.');
  return text;
}
