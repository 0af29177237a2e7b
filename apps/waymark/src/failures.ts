import { BadSetting } from '#apps/settings';

/** What stops a command, in one line for the person who ran it. */
export class CannotStart extends Error {
  override readonly name = 'CannotStart';
}

const WHY: Record<string, string> = {
  EACCES: 'that is not permitted',
  EPERM: 'that is not permitted',
  EROFS: 'the file system is read-only',
  ENOENT: 'it does not exist, or is a link that leads nowhere',
  ENOTDIR: 'a part of the path is not a folder',
  EISDIR: 'it is a folder',
  ENOSPC: 'no space is left there',
  EDQUOT: 'no space is left there',
  EMFILE: 'too many files are open',
  ENFILE: 'too many files are open',
  EADDRINUSE: 'the port is taken',
};

/** Whether an error is the operating system's, such as a file that cannot be opened. */
export function isSystemError(error: unknown): error is NodeJS.ErrnoException {
  return typeof error === 'object' && error !== null && 'code' in error && 'syscall' in error;
}

/** Why the operating system refused, in words and by its code. */
export function reasonOf({ code = '', message }: NodeJS.ErrnoException): string {
  return `${WHY[code] ?? message} (${code})`;
}

/**
 * An error as the lines that tell the person who ran the command what to mend; undefined for one that nobody could
 * mend from outside, of which the whole is wanted.
 */
export function inWords(error: unknown): string | undefined {
  if (error instanceof CannotStart || error instanceof BadSetting) return error.message;
  if (!isSystemError(error)) return undefined;
  const what =
    error.path ?? (error.syscall === undefined ? 'the system' : `the system call ${error.syscall}`);
  return `${what} cannot be used: ${reasonOf(error)}; mend that, or name another in WAYMARK_DATA if it lies there`;
}

/** Says a failure on standard error, each line under the program's name. */
export function complain(text: string): void {
  for (const line of text.split('\n')) console.error(`waymark: ${line}`);
}
