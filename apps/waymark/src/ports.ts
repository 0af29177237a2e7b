import { createServer } from 'node:net';
import { CannotStart } from './data-folder.js';

/**
 * Makes sure that a port can be listened on, before anything is started that would have to be undone.
 *
 * @throws CannotStart naming the setting.
 */
export async function checkPort(host: string, port: number, setting: string): Promise<void> {
  const probe = createServer();
  await new Promise<void>((resolve, reject) => {
    probe.once('error', (error: NodeJS.ErrnoException) => {
      const why =
        error.code === 'EADDRINUSE' ? 'is taken' : `cannot be used (${error.code ?? error.message})`;
      reject(new CannotStart(`port ${port} on ${host} ${why}: name another in ${setting}`));
    });
    probe.listen({ host, port, exclusive: true }, resolve);
  });
  await new Promise((resolve) => probe.close(resolve));
}
