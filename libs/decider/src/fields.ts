import { z } from 'zod';

/** The kinds of data that have a key of their own for each person; erasing a key erases that kind. */
export type DataKind = 'run' | 'preference' | 'claim' | 'conversation';

/** The way to a field from the root of an event's data; `*` stands for every element of an array. */
export type FieldPath = readonly string[];

interface Marks {
  personal?: DataKind;
  plain?: true;
}

/** Marks a field, with all below it, as personal data of a kind: it is sealed wherever it rests. */
export function personal<Schema extends z.ZodType>(kind: DataKind, schema: Schema): Schema {
  return schema.meta({ personal: kind } satisfies Marks);
}

/** Marks a field as not personal: it is stored as it is. For ids, codes, digests, times and amounts. */
export function plain<Schema extends z.ZodType>(schema: Schema): Schema {
  return schema.meta({ plain: true } satisfies Marks);
}

/** An amount of money: a decimal string with at most two places, and an ISO 4217 code. */
export const money = z.strictObject({
  amount: plain(z.string().regex(/^(0|[1-9]\d{0,11})(\.\d{1,2})?$/, 'a decimal string such as "1250.00"')),
  currency: plain(z.string().regex(/^[A-Z]{3}$/, 'an ISO 4217 code such as "USD"')),
});
export type Money = z.infer<typeof money>;

/** Whether a limit is at least an amount. Never across currencies: there is no rate that the two were agreed at. */
export function covers(limit: Money, amount: Money): boolean {
  return limit.currency === amount.currency && hundredths(limit) >= hundredths(amount);
}

function hundredths({ amount }: Money): bigint {
  const [whole = '0', part = ''] = amount.split('.');
  return BigInt(whole + part.padEnd(2, '0'));
}

/** The personal fields of a schema, outermost first; what lies below a personal field is sealed with it. */
export function personalFields(schema: z.ZodType): { path: FieldPath; kind: DataKind }[] {
  const found: { path: FieldPath; kind: DataKind }[] = [];
  walk(schema, [], (path, _node, marks) => {
    if (marks.personal) found.push({ path, kind: marks.personal });
    return marks.personal === undefined;
  });
  return found;
}

/** Fields that can hold text and are marked neither personal nor plain. Must be empty for a stored shape. */
export function unmarkedFields(schema: z.ZodType): FieldPath[] {
  const found: FieldPath[] = [];
  walk(schema, [], (path, node, marks) => {
    if (marks.personal !== undefined || marks.plain === true) return false;
    if (canHoldText(node)) found.push(path);
    return true;
  });
  return found;
}

type Visit = (path: FieldPath, node: z.core.$ZodType, marks: Marks) => boolean;

function walk(node: z.core.$ZodType, path: FieldPath, visit: Visit): void {
  const inner = unwrap(node);
  const marks = { ...marksOf(inner), ...marksOf(node) };
  if (!visit(path, inner, marks)) return;
  if (inner instanceof z.ZodObject) {
    for (const [name, field] of Object.entries(inner.shape))
      walk(field as z.core.$ZodType, [...path, name], visit);
  } else if (inner instanceof z.ZodArray) {
    walk(inner.element, [...path, '*'], visit);
  } else if (inner instanceof z.ZodUnion) {
    for (const option of inner.options) walk(option, path, visit);
  }
}

function unwrap(node: z.core.$ZodType): z.core.$ZodType {
  if (node instanceof z.ZodOptional || node instanceof z.ZodNullable || node instanceof z.ZodDefault) {
    const inner = node.unwrap();
    return Object.keys(marksOf(node)).length > 0 ? node : unwrap(inner);
  }
  return node;
}

function marksOf(node: z.core.$ZodType): Marks {
  return node instanceof z.ZodType ? ((node.meta() ?? {}) as Marks) : {};
}

/** Objects, arrays and unions are judged by what they hold; literals, enums, numbers and booleans are codes. */
function canHoldText(node: z.core.$ZodType): boolean {
  return !(
    node instanceof z.ZodObject ||
    node instanceof z.ZodArray ||
    node instanceof z.ZodUnion ||
    node instanceof z.ZodNumber ||
    node instanceof z.ZodBoolean ||
    node instanceof z.ZodLiteral ||
    node instanceof z.ZodEnum ||
    node instanceof z.ZodNull
  );
}
