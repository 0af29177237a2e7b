import { z } from 'zod';
import { id, page } from '../runs/runs.schemas.js';

const LONGEST_TEXT = 32 * 1024;

export const beginBody = z.strictObject({ customerId: id });
export type BeginBody = z.infer<typeof beginBody>;

const role = z.enum(['customer', 'assistant', 'staff']);

export const messageBody = z.strictObject({
  role,
  text: z
    .string()
    .min(1)
    .superRefine((text, context) => {
      const bytes = Buffer.byteLength(text);
      if (bytes > LONGEST_TEXT)
        context.addIssue(`takes ${bytes} bytes in UTF-8; ${LONGEST_TEXT} are allowed`);
      if (text.includes('\0')) context.addIssue('must not hold a NUL character');
    }),
});
export type MessageBody = z.infer<typeof messageBody>;

export const periodBody = z.strictObject({ conversationDays: z.int().min(1).max(3650) });
export type PeriodBody = z.infer<typeof periodBody>;

const at = z.iso.datetime({ precision: 3 });
const digest = z.string().regex(/^[0-9a-f]{64}$/);

export const begun = z.object({ conversationId: id, customerId: id, createdAt: at });
const told = { messageId: id, role, by: z.string(), digest, sentAt: at, expiresAt: at };
export const added = z.object({ conversationId: id, ...told });
export const messages = page(z.object({ ...told, text: z.string(), salt: z.string() }));
export const deleted = z.object({ deleted: z.literal(true) });
export const period = periodBody;
