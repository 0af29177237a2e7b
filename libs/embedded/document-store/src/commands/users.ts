import { StoreError } from '../errors.js';
import type { PlainDocument } from '../bson/encode.js';
import * as options from '../bson/options.js';
import { BsonType, fieldsOf, textOf, type Value } from '../bson/values.js';
import type { Engine, Peer, Reply, Request } from '../engine.js';
import type { Layer } from '../storage/layers.js';
import { credentialOf, type Role, type User } from '../storage/users.js';
import type { Command } from './dispatch.js';

/** What a command wants of the database it is sent to; `session` wants a user, `root` one with that role. */
export type Need = 'nothing' | 'session' | 'read' | 'write' | 'admin' | 'root';

/** The user of a connection as it is now: roles may have changed since the login. */
function userOf({ users }: Engine, { user }: Peer): User | undefined {
  return user && users.get(user.db, user.name);
}

/** What a role of a database covers there. */
const covered: Readonly<Record<string, readonly Need[]>> = {
  read: ['read'],
  readWrite: ['read', 'write'],
  dbAdmin: ['admin'],
};

const allows = ({ roles }: User, need: Need, database: string): boolean =>
  need === 'session' ||
  roles.some(
    ({ role, db }) => role === 'root' || (db === database && covered[role]?.includes(need) === true),
  );

/** Throws 13 unless the connection's user may do this. While the folder holds no users, everybody may. */
export function authorize(engine: Engine, peer: Peer, name: string, need: Need, database: string): void {
  if (need === 'nothing' || engine.users.isEmpty) return;
  const user = userOf(engine, peer);
  if (!user) throw new StoreError(13, `Command ${name} requires authentication`);
  if (!allows(user, need, database))
    throw new StoreError(13, `not authorized on ${database} to execute command ${name}`);
}

export const mayRead = (engine: Engine, peer: Peer, database: string): boolean => {
  if (engine.users.isEmpty) return true;
  const user = userOf(engine, peer);
  return user !== undefined && allows(user, 'read', database);
};

/** Roles as names, of the user's own database, or as documents with `db`. */
function rolesIn({ command, database }: Request): Role[] | undefined {
  const given = options.array(command, 'roles');
  return given && fieldsOf(given).map((role) => roleOf(role, database));
}

function roleOf(role: Value, database: string): Role {
  if (role.type === BsonType.string) return { role: textOf(role), db: database };
  if (role.type !== BsonType.object)
    throw new StoreError(14, "BSON field 'roles' must hold strings or objects");
  return { role: options.text(role, 'role') ?? '', db: options.text(role, 'db') ?? database };
}

/** Changes the user a command names, each change made from the outcome of those before it. */
async function change(
  engine: Engine,
  { command, name, database }: Request,
  make: (user: User, layer: Layer) => void,
): Promise<Reply> {
  const wanted = options.text(command, name) ?? '';
  await engine.defineUsers((layer) => {
    const user = engine.users.newest(database, wanted);
    if (!user) throw new StoreError(11, `Could not find user "${wanted}" for db "${database}"`);
    make(user, layer);
    return [user];
  });
  return { ok: 1 };
}

async function createUser(engine: Engine, request: Request): Promise<Reply> {
  const { command, name: field, database } = request;
  const name = options.text(command, field) ?? '';
  const password = options.text(command, 'pwd');
  const roles = rolesIn(request);
  checkMechanisms(command);
  if (name === '' || password === undefined || !roles)
    throw new StoreError(9, "createUser needs a name, 'pwd' and 'roles'");
  const user = { db: database, name, roles, credential: await credentialOf(password) };
  await engine.defineUsers((layer) => {
    if (engine.users.newest(database, name))
      throw new StoreError(51003, `User "${name}@${database}" already exists`);
    engine.users.put(user, layer);
    return [user];
  });
  return { ok: 1 };
}

function checkMechanisms(command: Value): void {
  const mechanisms = options.array(command, 'mechanisms');
  for (const mechanism of mechanisms ? fieldsOf(mechanisms) : [])
    if (mechanism.type !== BsonType.string || textOf(mechanism) !== 'SCRAM-SHA-256')
      throw new StoreError(2, 'only SCRAM-SHA-256 is supported');
}

async function updateUser(engine: Engine, request: Request): Promise<Reply> {
  const password = options.text(request.command, 'pwd');
  const roles = rolesIn(request);
  checkMechanisms(request.command);
  const credential = password === undefined ? undefined : await credentialOf(password);
  return change(engine, request, (user, layer) =>
    engine.users.put(
      { ...user, roles: roles ?? user.roles, credential: credential ?? user.credential },
      layer,
    ),
  );
}

function grant(changed: (roles: readonly Role[], given: readonly Role[]) => Role[]) {
  return (engine: Engine, request: Request): Promise<Reply> => {
    const given = rolesIn(request) ?? [];
    return change(engine, request, (user, layer) =>
      engine.users.put({ ...user, roles: changed(user.roles, given) }, layer),
    );
  };
}

const same = (a: Role, b: Role): boolean => a.role === b.role && a.db === b.db;

const dropUser = (engine: Engine, request: Request): Promise<Reply> =>
  change(engine, request, (user, layer) => engine.users.remove(user, layer));

/** `{usersInfo: 1}` for all of a database, or by name. Credentials are never shown. */
function usersInfo(engine: Engine, { command, name, database }: Request): PlainDocument {
  const wanted = options.present(command, name);
  const all = engine.users.of(database);
  const chosen = wanted?.type === BsonType.string ? all.filter((user) => user.name === textOf(wanted)) : all;
  const users = chosen.map((user) => ({
    _id: `${user.db}.${user.name}`,
    user: user.name,
    db: user.db,
    roles: user.roles.map(({ role, db }) => ({ role, db })),
    mechanisms: ['SCRAM-SHA-256'],
  }));
  return { users, ok: 1 };
}

function connectionStatus(engine: Engine, { peer }: Request): PlainDocument {
  const user = userOf(engine, peer);
  return {
    authInfo: {
      authenticatedUsers: user ? [{ user: user.name, db: user.db }] : [],
      authenticatedUserRoles: (user?.roles ?? []).map(({ role, db }) => ({ role, db })),
    },
    ok: 1,
  };
}

export const userCommands: Readonly<Record<string, Command>> = {
  createUser: { fields: 'pwd roles mechanisms digestPassword customData', needs: 'root', run: createUser },
  updateUser: { fields: 'pwd roles mechanisms digestPassword', needs: 'root', run: updateUser },
  dropUser: { fields: '', needs: 'root', run: dropUser },
  grantRolesToUser: {
    fields: 'roles',
    needs: 'root',
    run: grant((roles, given) => [
      ...roles,
      ...given.filter((role) => !roles.some((known) => same(known, role))),
    ]),
  },
  revokeRolesFromUser: {
    fields: 'roles',
    needs: 'root',
    run: grant((roles, given) => roles.filter((role) => !given.some((gone) => same(gone, role)))),
  },
  usersInfo: { fields: 'showPrivileges showCredentials', needs: 'root', run: usersInfo },
  connectionStatus: { fields: 'showPrivileges', needs: 'nothing', run: connectionStatus },
};
