import { join } from 'node:path';
import type { Config } from '#apps/settings';
import { issueToken, type Role } from '#libs/access';
import { Vault } from '#libs/vault';
import { needDataFolder } from './data-folder.js';

export interface TokenRequest {
  role: Role[];
  sub: string;
  tenant: string;
  customer?: string | undefined;
  actFor?: string[] | undefined;
}

/**
 * Signs tokens with the key pair of a data folder, for servers that run on it without an identity provider. Makes
 * the key pair where there is none yet; a server that runs already takes up the same one.
 *
 * @throws CannotStart where there is no data folder.
 */
export async function tokenIssuer(config: Config): Promise<(request: TokenRequest) => Promise<string>> {
  await needDataFolder(config.dataFolder);
  const vault = await Vault.open({ folder: join(config.dataFolder, 'keys') });
  const keys = await vault.signingKeys();
  const { issuer, audience } = config.auth;
  return ({ role, sub, tenant, customer, actFor }) =>
    issueToken(keys, { issuer, audience, roles: role, sub, tenant, customerId: customer, actFor });
}
