import { join } from 'node:path';
import { Command } from 'commander';
import { Config } from '#apps/settings';
import { CannotStart } from './failures.js';

const room = () => import('#libs/embedded/document-store');

/** What an operator does with the embedded document store of the data folder; `reporting` runs each and tells failures. */
export function documentStoreCommand(
  reporting: (work: () => Promise<number | void>) => Promise<void>,
): Command {
  const command = new Command('document-store').description('look after the embedded document store');
  const folder = () => join(Config.from(process.env).dataFolder, 'document-store');
  command
    .command('check')
    .description('verify every checksum and index, changing nothing; the server may run')
    .action(() => reporting(() => telling(() => check(folder()))));
  command
    .command('backup <target>')
    .description('copy it into a new folder, which opens as it is; the server may run')
    .action((target: string) =>
      reporting(() => telling(async () => (await room()).backupDocumentStore(folder(), target))),
    );
  return command;
}

/** The exit code: 1 when something is not as it was written. */
async function check(folder: string): Promise<number> {
  const { collections, documents, errors } = await (await room()).inspectDocumentStore(folder);
  for (const error of errors) console.error(`waymark: ${error}`);
  if (errors.length > 0) return 1;
  console.log(`${documents} documents in ${collections} collections, all as they were written`);
  return 0;
}

/** What a person can mend is one line. */
async function telling<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const { ForeignFolder } = await room();
    const isAbsent = error instanceof Error && 'code' in error && error.code === 'ENOENT';
    if (error instanceof ForeignFolder || isAbsent) throw new CannotStart(error.message, { cause: error });
    throw error;
  }
}
