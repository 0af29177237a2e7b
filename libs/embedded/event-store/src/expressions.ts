import { setFlagsFromString } from 'node:v8';
import { InvalidRequest } from './proposed.js';

/** Characters of a filter's expression. */
const LENGTH_LIMIT = 1000;
/** Ways in which an expression that is tried step by step may try a text from one place, as `openness` counts them. */
const WAYS_LIMIT = 8;
const WAYS_OF_OPEN = 4;
/** How often the engine that never goes back would repeat a part by copying it. */
const COPIES_LIMIT = 16;
/** Alternatives and open quantifiers of an expression that is not tried step by step: each is followed for every character. */
const BRANCHES_LIMIT = 64;

/**
 * A match that has gone back 50,000 times is begun again in the engine's other way, which takes time in proportion to the
 * text and to the expression, for expressions that it can be used for (`isLinear`). Process-wide; no match differs.
 */
setFlagsFromString('--enable-experimental-regexp-engine-on-excessive-backtracks');

/** Options of .NET's expressions that JavaScript knows as flags, where they stand at the beginning: `(?i)`. */
const INLINE_OPTIONS = /^\(\?([ims]+)\)/;

/** Throws `InvalidRequest` for what is no expression. */
export function compileExpression(regex: string): RegExp {
  const options = INLINE_OPTIONS.exec(regex);
  try {
    return new RegExp(regex.slice(options?.[0].length ?? 0), [...new Set(options?.[1])].join(''));
  } catch (error) {
    return refuse(`cannot be used: ${String(error)}`);
  }
}

/**
 * Throws `InvalidRequest` for an expression that could keep the store from all else, since matching cannot be
 * interrupted. Asked of requests only; what was stored before is used as it is.
 */
export function admitExpression(regex: string): void {
  if (regex.length > LENGTH_LIMIT)
    refuse(`must not be longer than ${LENGTH_LIMIT} characters (it has ${regex.length})`);
  const { source, ignoreCase } = compileExpression(regex);
  if (!ignoreCase && isLinear(source)) return;
  const ways = openness(source);
  if (ways > WAYS_LIMIT)
    refuse(`leaves too much open: ${ways} ways, where ${WAYS_LIMIT} is the limit (see the README)`);
}

/** Escapes and classes are atoms; what opens a group goes with its bracket, and a lazy mark with its quantifier. */
const TOKEN =
  /\\[^]|\[(?:\\[^]|[^\]\\])*\]|\((?:\?(?:[:=!]|<[=!]|<[^>]*>))?|\)|\||[*+?]\??|\{(\d+)(,?)(\d*)\}\??|[^]/g;

/** Whether it neither looks around, nor repeats much by copying it, nor branches often. Refuses backreferences. */
function isLinear(source: string): boolean {
  let copies = 1;
  let branches = 0;
  let looksAround = false;
  for (const [token, least, , most] of source.matchAll(TOKEN)) {
    if (/^\\[k1-9]/.test(token)) refuse('must not have backreferences');
    if (/^[|*+?]|,/.test(token)) branches += 1;
    looksAround ||= /^\(\?<?[=!]/.test(token);
    copies *= Math.max(1, Number(least ?? 1), Number(most ?? 1));
  }
  return !looksAround && copies <= COPIES_LIMIT && branches <= BRANCHES_LIMIT;
}

interface Group {
  alternatives: number;
  /** Whether something in it matches more than one way. */
  open: boolean;
}

/**
 * The product over a valid expression: 4 for a quantifier whose count is open, 2 for `?`, and for a group as many as it
 * has alternatives. Refuses a repetition of what is open itself.
 */
function openness(source: string): number {
  const outside: Group[] = [];
  let group: Group = { alternatives: 1, open: false };
  let lastIsOpen = false;
  let ways = 1;
  for (const [token, least, comma, most] of source.matchAll(TOKEN)) {
    if (token.startsWith('(')) {
      outside.push(group);
      group = { alternatives: 1, open: false };
    } else if (token === ')') {
      ways *= group.alternatives;
      lastIsOpen = group.open || group.alternatives > 1;
      group = outside.pop()!;
      group.open ||= lastIsOpen;
    } else if (token === '|') group.alternatives += 1;
    else if (least !== undefined || /^[*+?]/.test(token)) {
      const isOptional = token.startsWith('?') || (least === '0' && most === '1');
      if (lastIsOpen && !isOptional)
        refuse('must not repeat a group with a quantifier or alternatives in it');
      if (least !== undefined && comma === '') continue;
      group.open = true;
      ways *= isOptional ? 2 : WAYS_OF_OPEN;
    } else lastIsOpen = false;
  }
  return ways * group.alternatives;
}

function refuse(reason: string): never {
  throw new InvalidRequest(`the filter's regular expression ${reason}`);
}
