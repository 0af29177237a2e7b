import { type KeyObject, createCipheriv, createDecipheriv, randomFillSync } from 'node:crypto';

const CIPHER = 'aes-256-gcm';
const IV_BYTES = 12;
const TAG_BYTES = 16;

/**
 * AES-256-GCM with a random IV: `iv (12) | ciphertext | tag (16)`. `place` is authenticated and not stored: a box
 * moved to another place does not open. The same content gives different bytes each time.
 */
export function closeBox(key: KeyObject, content: Uint8Array, place: string): Buffer {
  const iv = nextIv();
  const cipher = createCipheriv(CIPHER, key, iv, { authTagLength: TAG_BYTES });
  cipher.setAAD(Buffer.from(place, 'utf8'));
  const sealed = cipher.update(content);
  cipher.final();
  return Buffer.concat([iv, sealed, cipher.getAuthTag()]);
}

const ivs = Buffer.alloc(IV_BYTES * 512);
let used = ivs.length;

/** Random bytes are asked for many at a time: each asking costs more than sealing a small field. None is used twice. */
function nextIv(): Buffer {
  if (used === ivs.length) {
    randomFillSync(ivs);
    used = 0;
  }
  used += IV_BYTES;
  return ivs.subarray(used - IV_BYTES, used);
}

/** The content of a box; `undefined` if a byte, the place or the key is not what it was closed with. */
export function openBox(key: KeyObject, box: Uint8Array, place: string): Buffer | undefined {
  if (box.length < IV_BYTES + TAG_BYTES) return undefined;
  const decipher = createDecipheriv(CIPHER, key, box.subarray(0, IV_BYTES), { authTagLength: TAG_BYTES });
  decipher.setAAD(Buffer.from(place, 'utf8'));
  decipher.setAuthTag(box.subarray(box.length - TAG_BYTES));
  const content = decipher.update(box.subarray(IV_BYTES, box.length - TAG_BYTES));
  try {
    decipher.final();
  } catch {
    return undefined;
  }
  return content;
}
