import { createServer } from 'node:net';
import { CannotStart } from './failures.js';

/** Codes that blame the address rather than the port. */
const NO_ADDRESS = ['EADDRNOTAVAIL', 'ENOTFOUND', 'EAI_AGAIN', 'EINVAL'];

/**
 * Makes sure that a port can be listened on, before anything is started that would have to be undone.
 *
 * @throws CannotStart naming the setting: that of the port, or that of the host where the address is not this machine's.
 */
export async function checkPort(
  host: string,
  port: number,
  setting: string,
  hostSetting = 'WAYMARK_HOST',
): Promise<void> {
  const probe = createServer();
  await new Promise<void>((resolve, reject) => {
    probe.once('error', ({ code, message }: NodeJS.ErrnoException) => {
      const why = code === 'EADDRINUSE' ? 'is taken' : `cannot be used (${code ?? message})`;
      const line = NO_ADDRESS.includes(code ?? '')
        ? `${host} is no address of this machine (${code}): name another in ${hostSetting}`
        : `port ${port} on ${host} ${why}: name another in ${setting}`;
      reject(new CannotStart(line));
    });
    probe.listen({ host, port, exclusive: true }, resolve);
  });
  await new Promise((resolve) => probe.close(resolve));
}

/**
 * Makes sure that no two settings name the same port; 0, for a free one, may stand in all.
 *
 * @throws CannotStart naming both.
 */
export function checkDistinct(ports: Record<string, number>): void {
  const named = new Map<number, string>();
  for (const [setting, port] of Object.entries(ports)) {
    const other = named.get(port);
    if (port !== 0 && other !== undefined)
      throw new CannotStart(`${other} and ${setting} are both ${port}: name another port in one of them`);
    named.set(port, setting);
  }
}
