import { isUtf8 } from 'node:buffer';
import type { Json } from '#libs/canonical';

/** Why a body is not JSON that can be kept as it was sent. `place` is a JSON pointer, or an offset in the text. */
export class BadJson extends Error {
  override readonly name = 'BadJson';
  constructor(
    readonly place: string,
    message: string,
  ) {
    super(message);
  }
}

export const DEEPEST = 64;

/**
 * Parses JSON that means one thing to every reader (RFC 8259, I-JSON of RFC 7493): valid UTF-8, no member twice,
 * none named `__proto__`, at most 64 levels, no lone surrogate, and no number that would come back as another.
 *
 * @throws BadJson
 */
export function parseStrictly(bytes: Buffer): Json {
  if (!isUtf8(bytes)) throw new BadJson('', 'the body is not UTF-8');
  const text = bytes.toString('utf8');
  let value: Json;
  try {
    value = JSON.parse(text) as Json;
  } catch {
    throw new BadJson('', 'the body is not JSON');
  }
  new Scan(text).value(0);
  return value;
}

const QUOTE = 34;
const BACKSLASH = 92;
const COMMA = 44;
const OPEN_ARRAY = 91;
const CLOSE_ARRAY = 93;
const OPEN_OBJECT = 123;
const CLOSE_OBJECT = 125;
const LONE_SURROGATE = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/;

/** One pass over a text that is known to be JSON, looking for what `JSON.parse` lets through. */
class Scan {
  private at = 0;

  constructor(private readonly text: string) {}

  value(depth: number): void {
    this.space();
    const first = this.text.charCodeAt(this.at);
    if (first === OPEN_OBJECT) this.object(depth + 1);
    else if (first === OPEN_ARRAY) this.array(depth + 1);
    else if (first === QUOTE) this.string();
    else this.literal();
    this.space();
  }

  private object(depth: number): void {
    this.enter(depth);
    const names = new Set<string>();
    while (this.text.charCodeAt(this.at) !== CLOSE_OBJECT) {
      this.skip(COMMA);
      const name = this.string();
      if (name === '__proto__') throw new BadJson(`offset ${this.at}`, 'a member is named __proto__');
      if (names.has(name))
        throw new BadJson(`offset ${this.at}`, `the member ${JSON.stringify(name)} stands twice`);
      names.add(name);
      this.space();
      this.at += 1;
      this.value(depth);
    }
    this.at += 1;
  }

  private array(depth: number): void {
    this.enter(depth);
    while (this.text.charCodeAt(this.at) !== CLOSE_ARRAY) {
      this.skip(COMMA);
      this.value(depth);
    }
    this.at += 1;
  }

  private enter(depth: number): void {
    if (depth > DEEPEST)
      throw new BadJson(`offset ${this.at}`, `the body is nested deeper than ${DEEPEST} levels`);
    this.at += 1;
    this.space();
  }

  /** Moves past a string and gives it decoded. */
  private string(): string {
    const start = this.at;
    let end = this.text.indexOf('"', start + 1);
    const firstEscape = this.text.slice(start, end).indexOf('\\');
    if (firstEscape < 0) {
      this.at = end + 1;
      return this.text.slice(start + 1, end);
    }
    for (end = start + firstEscape; this.text.charCodeAt(end) !== QUOTE; end += 1)
      if (this.text.charCodeAt(end) === BACKSLASH) end += 1;
    this.at = end + 1;
    const decoded = JSON.parse(this.text.slice(start, this.at)) as string;
    if (LONE_SURROGATE.test(decoded))
      throw new BadJson(`offset ${start}`, 'a string holds half a surrogate pair');
    return decoded;
  }

  private literal(): void {
    const start = this.at;
    while (this.at < this.text.length && !isEnd(this.text.charCodeAt(this.at))) this.at += 1;
    const token = this.text.slice(start, this.at);
    if (token === 'true' || token === 'false' || token === 'null') return;
    if (token.length < 16 && !/[eE]/.test(token)) return;
    const number = Number(token);
    const changed = /^-?\d+$/.test(token) && String(number) !== token && BigInt(token) !== BigInt(number);
    if (!Number.isFinite(number) || changed)
      throw new BadJson(
        `offset ${start}`,
        `the number ${token.slice(0, 40)} would not come back as it was sent`,
      );
  }

  private skip(code: number): void {
    if (this.text.charCodeAt(this.at) !== code) return;
    this.at += 1;
    this.space();
  }

  private space(): void {
    while (isSpace(this.text.charCodeAt(this.at))) this.at += 1;
  }
}

function isSpace(code: number): boolean {
  return code === 32 || code === 10 || code === 13 || code === 9;
}

function isEnd(code: number): boolean {
  return code === COMMA || code === CLOSE_ARRAY || code === CLOSE_OBJECT || isSpace(code);
}
