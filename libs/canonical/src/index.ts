import { createHash } from 'node:crypto';
import canonicalize from 'canonicalize';
import { v5 } from 'uuid';

/** A value that JSON can carry and give back unchanged. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/**
 * The canonical form of a JSON value (RFC 8785): the one text that is hashed, compared and stored.
 * Members whose value is `undefined` are left out, as `JSON.stringify` does.
 *
 * @throws TypeError for what canonical JSON cannot carry: a non-finite number, a `bigint`, a lone surrogate.
 */
export function canonicalJson(value: unknown): string {
  const text = canonicalize(value);
  if (text === undefined) throw new TypeError('not a JSON value');
  return text;
}

/** SHA-256 of a text (UTF-8) or of bytes, as 64 lower-case hex digits. */
export function sha256(content: string | Uint8Array): string {
  return createHash('sha256').update(content).digest('hex');
}

/** SHA-256 of the canonical form: equal for values that are equal as JSON, whatever the order of their members. */
export function digestOf(value: unknown): string {
  return sha256(canonicalJson(value));
}

const NAMESPACE = '8f9a2f0e-3c0b-5d9e-9a51-0f6a7c1b2d34';

/**
 * A UUID (version 5) derived from parts, so that whoever derives it again gets the same one. Parts are joined
 * as canonical JSON: `derivedId('a', 'bc')` and `derivedId('ab', 'c')` differ.
 */
export function derivedId(...parts: string[]): string {
  return v5(Buffer.from(JSON.stringify(parts)), NAMESPACE);
}
