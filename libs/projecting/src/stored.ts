import type { Json } from '#libs/canonical';
import { type Vault, sealFields } from '#libs/vault';
import type { Projection, View } from './projection.js';

/** A document as it rests: the projection's fields beside its place; personal fields sealed, searched ones hashed. */
export interface StoredDocument {
  readonly _id: string;
  readonly tenant: string;
  readonly id: string;
  readonly revision: bigint;
  readonly position: bigint;
  readonly created: bigint;
  readonly search?: Readonly<Record<string, string>>;
  readonly [field: string]: unknown;
}

export function documentId(tenant: string, id: string): string {
  return `${tenant}.${id}`;
}

/** The place to which a document's sealed fields are bound: they open in no other document or version. */
function placeOf({ name, version }: { name: string; version: number }, _id: string): string {
  return `${name}/v${version}/${_id}`;
}

/** @throws Unopenable where a key is gone or the content is not what was sealed. */
export async function openDocument<Doc>(
  projection: Projection<Doc>,
  vault: Vault,
  stored: StoredDocument,
): Promise<View<Doc>> {
  const { _id, tenant, id, revision, position, created, search: _, ...fields } = stored;
  const place = placeOf(projection, _id);
  const doc = await vault.openFields(tenant, fields as { [key: string]: Json }, projection.personal, place);
  return { tenant, id, revision, position, created, doc: doc as Doc };
}

/** Never makes a key: what a document holds came from events that were sealed under the same keys. */
export async function sealDocument<Doc>(
  projection: Projection<Doc>,
  vault: Vault,
  view: View<Doc>,
): Promise<StoredDocument> {
  const { tenant, id, doc } = view;
  const _id = documentId(tenant, id);
  const fields = await sealedFields(projection, vault, view, _id);
  const search = Object.entries(projection.search);
  if (search.length === 0) return { ...withoutDoc(view), _id, ...fields };
  const hashed = await Promise.all(
    search.map(async ([name, text]) => [name, await searchKey(vault, tenant, text(doc))] as const),
  );
  return { ...withoutDoc(view), _id, ...fields, search: Object.fromEntries(hashed) };
}

async function sealedFields<Doc>(
  projection: Projection<Doc>,
  vault: Vault,
  { tenant, doc }: View<Doc>,
  _id: string,
): Promise<{ [key: string]: Json }> {
  const fields = doc as { [key: string]: Json };
  if (projection.personal.length === 0) return fields;
  const keys = await vault.person(tenant, projection.customerOf(doc));
  return sealFields(fields, projection.personal, keys, placeOf(projection, _id));
}

function withoutDoc<Doc>({ doc: _, ...place }: View<Doc>): Omit<View<Doc>, 'doc'> {
  return place;
}

/** What stands for a searchable personal text: an HMAC under the tenant's key, of no use to any other tenant. */
export async function searchKey(vault: Vault, tenant: string, text: string): Promise<string> {
  return (await vault.tenant(tenant)).hmac('search', text);
}
