import { StoreError, notSupported } from '../errors.js';
import { BsonType, textOf, typeName, type Value } from '../bson/values.js';

/** PCRE constructs that JavaScript lacks or reads otherwise: refused rather than misread. */
const foreign =
  /^\\[AZzGKQERXCHNhpPgkxoaec0-9]|^\(\?(?![:=!]|<[=!])|^\(\*|^[*+?}]\+|^\[\[[:.=]|^\[(?:[^\]]*\[:|[^\]]*&&)/;
const tokens = /\\.|\(\?.?.?|\(\*|[*+?}]\+|\[\^?\]?(?:\\.|[^\]\\])*\]|[.$^]/gsu;
const space = ' \\t\\n\\v\\f\\r';

/** The expression in JavaScript, meaning what PCRE makes of it on UTF-8 text; options i, m and s. */
export function toRegExp(operand: Value, flags?: Value): RegExp {
  const { source, options } = regexParts(operand, flags);
  const unknown = options.replace(/[ims]/g, '');
  if (unknown) throw notSupported(`regular expression option '${unknown}'`);
  const translated = source.replace(tokens, (token) => {
    if (foreign.test(token)) throw notSupported(`'${token}' in a regular expression`);
    return translate(token, options);
  });
  try {
    return new RegExp(translated, options.includes('i') ? 'iu' : 'u');
  } catch (error) {
    throw new StoreError(2, `Regular expression is invalid: ${(error as Error).message}`);
  }
}

/** PCRE ends lines at \n alone, lets `$` stand before a last \n and counts only ASCII spaces. */
function translate(token: string, options: string): string {
  const lines = options.includes('m');
  switch (token) {
    case '.':
      return options.includes('s') ? '[^]' : '[^\\n]';
    case '$':
      return lines ? '(?=\\n|$)' : '(?=\\n?$)';
    case '^':
      return lines ? '(?<![^\\n])' : '^';
    case '\\s':
      return `[${space}]`;
    case '\\S':
      return `[^${space}]`;
  }
  if (token.startsWith('[')) {
    if (/^\[\^?\]|\\S/.test(token)) throw notSupported(`'${token}' in a regular expression`);
    return token.replace(/\\s/g, space);
  }
  return /^\\[^A-Za-z0-9^$\\.*+?()[\]{}|/]$/u.test(token) ? token.slice(1) : token;
}

export function regexParts(operand: Value, flags?: Value): { source: string; options: string } {
  const given = flags ? textOf(requireType(flags, BsonType.string, '$options')) : undefined;
  if (operand.type === BsonType.string) return { source: textOf(operand), options: given ?? '' };
  requireType(operand, BsonType.regex, '$regex');
  const end = operand.bytes.indexOf(0, operand.at);
  const options = operand.bytes.toString('utf8', end + 1, operand.bytes.indexOf(0, end + 1));
  return { source: operand.bytes.toString('utf8', operand.at, end), options: given ?? options };
}

function requireType(value: Value, type: number, operator: string): Value {
  if (value.type !== type) throw new StoreError(2, `${operator} has to be a ${typeName(type)}`);
  return value;
}

/** The literal text every match of an anchored, case-sensitive expression begins with; '' when there is none. */
export function literalPrefix(operand: Value, flags?: Value): string {
  const { source, options } = regexParts(operand, flags);
  if (options !== '' || source.includes('|')) return '';
  const [, literal = '', next = ''] = /^\^([A-Za-z0-9 _\-:/@,]*)(.?)/s.exec(source) ?? [];
  return '?*{+'.includes(next) && next !== '' ? literal.slice(0, -1) : literal;
}
